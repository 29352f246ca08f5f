package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// pictured is a group with a member in every state: a works, b is leaving and
// drains, c was replaced and e fenced, and what they held waits for their leases, d
// expired and f left.
func pictured(t *testing.T) Picture {
	t.Helper()
	s := group.New("orders", "billing", 6, 1, protocol.DefaultTimings(), epochTime)
	apply := func(id string, in group.Input, requests ...*protocol.Heartbeat) []group.Answer {
		var b group.Batch
		for _, q := range requests {
			q.ProtocolVersion = protocol.Version
			b = append(b, group.Beat{Request: q})
		}
		in.ID, in.Now = id, epochTime
		next, r, _, err := group.Apply(s, in, append(b, group.Tick{}))
		if err != nil {
			t.Fatal(err)
		}
		s = next
		return r.Answers
	}
	var joins []*protocol.Heartbeat
	for _, m := range []string{"a", "b", "c", "d", "e", "f"} {
		joins = append(joins, &protocol.Heartbeat{MemberID: m, MemberName: "the " + m, Incarnation: m + "1"})
	}
	given := apply("1", group.Input{}, joins...)
	apply("2", group.Input{Expired: map[string]bool{"d/d1": true}},
		&protocol.Heartbeat{MemberID: "e", Incarnation: "e1", MemberEpoch: given[4].MemberEpoch, OwnedShards: protocol.Shards{0}},
		&protocol.Heartbeat{MemberID: "f", Incarnation: "f1", MemberEpoch: protocol.EpochLeave},
		&protocol.Heartbeat{MemberID: "c", Incarnation: "c2"},
		&protocol.Heartbeat{MemberID: "b", Incarnation: "b1", MemberEpoch: protocol.EpochLeave, RevokingShards: []protocol.RevokingShard{
			{Shard: 1, State: protocol.RevokeDraining, InFlight: 2},
		}},
	)
	return Picture{
		State:  s,
		Stamps: map[string]string{"a/a1": newStamp("x", epochTime.Add(time.Second)), "b/b1": "no-time"},
		Reports: map[string]MemberReport{
			"a/a1": {
				MetadataVersion: 7, Capacity: protocol.Capacity{MaxConcurrency: 4, AvailableConcurrency: 1},
				Owned: protocol.Shards{3, 0}, Progress: []protocol.ShardProgress{{Shard: 0, StreamKey: "orders:0"}},
			},
			"b/b1": {Capacity: protocol.Capacity{MaxConcurrency: 1, AvailableConcurrency: 3}, Owned: protocol.Shards{1}},
			"c/c1": {Owned: protocol.Shards{2}},
		},
	}
}

func TestDescribe(t *testing.T) {
	p := pictured(t)
	g := p.Describe()
	if g.StreamPrefix != "orders" || g.ConsumerGroup != "billing" || g.State != protocol.GroupReconciling || g.ShardCount != 6 ||
		g.GroupEpoch != p.State.GroupEpoch || g.AssignmentEpoch != g.GroupEpoch || g.MetadataVersion != p.State.MetadataVersion {
		t.Errorf("the group is %+v", g)
	}
	// What c1 says counts no more: its process was replaced.
	if got := fmt.Sprint(g.TargetAssignmentSummary, g.CurrentAssignmentSummary); got != "map[a:3 c:3] map[a:2 b:1]" {
		t.Errorf("target and current are %s", got)
	}
}

func TestDescribeMembers(t *testing.T) {
	p := pictured(t)
	row := func(m protocol.Member) string {
		return fmt.Sprintf("%s/%s %s granted %v revoking %v says %v", m.MemberID, m.Incarnation, m.State, m.GrantedAssignment, m.Revoking, m.CurrentAssignment)
	}
	got := map[string]protocol.Member{}
	var rows []string
	for _, m := range p.Members(epochTime) {
		got[m.MemberID+"/"+m.Incarnation] = m
		rows = append(rows, row(m))
		if m.RebalanceTimeoutMs != 60_000 || m.ShardProgress == nil || m.CurrentAssignment == nil || m.MemberName == "" {
			t.Errorf("a field is missing: %+v", m)
		}
	}
	want := []string{
		"a/a1 ACTIVE granted [0 3] revoking [] says [0 3]",
		"b/b1 LEAVING granted [] revoking [1] says [1]",
		"c/c1 FENCED granted [2] revoking [] says [2]",
		"c/c2 ACTIVE granted [5] revoking [] says []",
		"d/d1 EXPIRED granted [] revoking [] says []",
		"e/e1 FENCED granted [4] revoking [] says []",
	}
	for i := range max(len(rows), len(want)) {
		if i >= len(rows) || i >= len(want) || rows[i] != want[i] {
			t.Fatalf("the members are\n%q\nwant\n%q", rows, want)
		}
	}
	a := got["a/a1"]
	if a.MemberName != "the a" || a.MetadataVersion != 7 || a.RuntimeMaxConcurrency != 4 || a.ActiveConsumerWorkers != 3 || len(a.ShardProgress) != 1 {
		t.Errorf("a is %+v", a)
	}
	if a.LastHeartbeatAt == nil || !a.LastHeartbeatAt.Equal(epochTime.Add(time.Second)) || !a.MemberLeaseExpiresAt.Equal(epochTime.Add(16*time.Second)) {
		t.Errorf("a was last heard of at %v, its lease ends at %v", a.LastHeartbeatAt, a.MemberLeaseExpiresAt)
	}
	if b := got["b/b1"]; b.LastHeartbeatAt != nil || b.ActiveConsumerWorkers != 0 {
		t.Errorf("b, whose stamp has no time and whose numbers are odd, is %+v", b)
	}
	// Those that ended earlier than asked for are not listed.
	if n := len(p.Members(epochTime.Add(time.Nanosecond))); n != 5 {
		t.Errorf("%d members are listed without those that ended, want 5", n)
	}
}

func TestDescribeAssignments(t *testing.T) {
	p := pictured(t)
	a := p.Assignments()
	if got := fmt.Sprint(a.TargetAssignment, a.CurrentAssignments, a.RevokeProgress); got != "map[a:[0 1 3] c:[2 4 5]] map[a:[0 3] b:[1] c:[]] map[b:[1]]" {
		t.Errorf("target, current and revoking are %s", got)
	}
	if a.InvariantViolations == nil {
		t.Error("a list is null")
	}
}

func TestRefusal(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want protocol.Status
	}{
		{protocol.ErrGroupNotFound, protocol.StatusUnknownMember},
		{fmt.Errorf("create: %w", protocol.ErrStreamNotFound), protocol.StatusUnknownMember},
		{protocol.ErrLimit, protocol.StatusInvalidRequest},
		{protocol.ErrInvalidRequest, protocol.StatusInvalidRequest},
		{protocol.ErrCorrupt, protocol.StatusRetry},
		{protocol.ErrStoreUnavailable, protocol.StatusRetry},
		{errors.New("anything"), protocol.StatusRetry},
	} {
		if status, reason := Refusal(tc.err); status != tc.want || reason == "" {
			t.Errorf("%v: %s %q, want %s and a reason", tc.err, status, reason, tc.want)
		}
	}
}
