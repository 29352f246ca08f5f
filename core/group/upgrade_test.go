package group

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// version1 is an aggregate as the existing implementation writes it: shard 1 was
// granted to b while a still owns it, which that implementation allows.
const version1 = `{"streamPrefix":"orders","consumerGroup":"billing","schemaVersion":1,"storeRevision":17,"groupEpoch":5,
"metadataVersion":7,"assignmentEpoch":5,"state":"RECONCILING","shardCount":4,"members":{
"b":{"memberId":"b","memberName":"bee","state":"ACTIVE","memberEpoch":5,"metadataVersion":7,"runtimeMaxConcurrency":1,"activeConsumerWorkers":0,
 "currentAssignment":[],"grantedAssignment":[{"shardIndex":1},{"shardIndex":2}],"revoking":[],"lastHeartbeatAt":"2026-01-02T03:04:05Z",
 "memberLeaseExpiresAt":"2026-01-02T03:04:20Z","rebalanceTimeoutMs":60000,"rebalanceDeadlineAt":null,"shardProgress":[]},
"a":{"memberId":"a","memberName":"a","state":"ACTIVE","memberEpoch":4,"metadataVersion":6,"runtimeMaxConcurrency":1,"activeConsumerWorkers":0,
 "currentAssignment":[{"shardIndex":0},{"shardIndex":1}],"revoking":[{"shardIndex":3}],"lastHeartbeatAt":"2026-01-02T03:04:06Z",
 "memberLeaseExpiresAt":"2026-01-02T03:04:21Z"},
"c":{"memberId":"c","memberName":"c","state":"EXPIRED","memberEpoch":3,"currentAssignment":[{"shardIndex":2}],"lastHeartbeatAt":"2026-01-02T03:00:00Z"},
"d":{"memberId":"d","memberName":"d","state":"LEAVING","memberEpoch":-1,"currentAssignment":[],"revoking":[],"lastHeartbeatAt":"2026-01-02T03:00:00Z"}},
"targetAssignments":{"a":[{"shardIndex":0},{"shardIndex":3}],"b":[{"shardIndex":1},{"shardIndex":2}]},"migrations":{},
"activeReshardingId":null,"metadataCorrection":null,"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-02T03:04:06Z"}`

func TestVersion1IsUpgraded(t *testing.T) {
	s, err := Decode([]byte(version1))
	if err != nil {
		t.Fatal(err)
	}
	holder := func(shard int) string {
		if h := s.Ledger.Holder[shard]; h != None {
			return s.Lives[h].Member
		}
		return ""
	}
	got := []string{holder(0), holder(1), holder(2), holder(3)}
	if want := []string{"a", "a", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("holders %q, want %q: what is owned, granted or being revoked is held", got, want)
	}
	if s.Correction == nil {
		t.Error("nothing keeps shards from being granted that an unknown reader has")
	}
	if s.GroupEpoch <= 7 || s.MetadataVersion <= 7 {
		t.Errorf("epochs go back: group epoch %d, version %d", s.GroupEpoch, s.MetadataVersion)
	}
	again, err := Decode([]byte(version1))
	if err != nil {
		t.Fatal(err)
	}
	one, err := Encode(&s)
	if err != nil {
		t.Fatal(err)
	}
	two, err := Encode(&again)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Error("the same record is read differently")
	}
}

// TestVersion1MembersGoOn lets the old clients beat on with the epochs that they
// were given before the upgrade.
func TestVersion1MembersGoOn(t *testing.T) {
	s, err := Decode([]byte(version1))
	if err != nil {
		t.Fatal(err)
	}
	beat := func(m string, epoch protocol.Epoch, owned ...protocol.ShardIndex) protocol.HeartbeatResponse {
		t.Helper()
		next, r, _, err := Apply(s, Input{Now: s.UpdatedAt, ID: "x"}, Beat{&protocol.Heartbeat{
			ProtocolVersion: 1, RequestID: "q", MemberID: m, MemberEpoch: epoch, MetadataVersion: s.MetadataVersion, OwnedShards: owned,
		}})
		if err != nil {
			t.Fatal(err)
		}
		s = next
		return r.Answers[0].HeartbeatResponse
	}
	a := beat("a", 4, 0, 1)
	b := beat("b", 5)
	if !a.Status.RenewsLease() || !b.Status.RenewsLease() {
		t.Fatalf("a: %s %s, b: %s %s", a.Status, a.Reason, b.Status, b.Reason)
	}
	// b does not read shard 1, whatever it was told before.
	if len(b.Assignment.AssignedShards) != 0 {
		t.Errorf("b is told to read %v before anybody knows who reads what", b.Assignment.AssignedShards)
	}
	beat("a", a.MemberEpoch, 0, 1)
	beat("b", b.MemberEpoch)
	next, r, _, err := Apply(s, Input{Now: s.UpdatedAt, ID: "y", Corrected: s.Correction.Jump, Expired: map[string]bool{"d/legacy-v1": true}}, Tick{})
	if err != nil || !r.Changed || next.Correction != nil {
		t.Fatalf("the correction does not end: %+v %v", next.Correction, err)
	}
}

func TestVersion1ThatIsDamaged(t *testing.T) {
	for _, body := range []string{
		`{"schemaVersion":1}`,
		`{"schemaVersion":1,"streamPrefix":"s","consumerGroup":"g","shardCount":-1}`,
		`{"schemaVersion":1,"streamPrefix":"s","consumerGroup":"g","shardCount":99999999}`,
		`{"schemaVersion":1,"streamPrefix":"s","consumerGroup":"g","shardCount":1,"members":[]}`,
	} {
		if _, err := Decode([]byte(body)); !errors.Is(err, protocol.ErrCorrupt) {
			t.Errorf("%s: %v", body, err)
		}
	}
}
