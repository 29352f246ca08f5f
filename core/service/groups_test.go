package service_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const versionOne = `{"streamPrefix":"orders","consumerGroup":"GROUP","schemaVersion":1,"storeRevision":1,"groupEpoch":2,"metadataVersion":2,
"assignmentEpoch":2,"state":"STABLE","shardCount":COUNT,"members":{"a":{"memberId":"a","memberName":"a","state":"ACTIVE","memberEpoch":2,
"metadataVersion":2,"currentAssignment":[{"shardIndex":0}],"grantedAssignment":[{"shardIndex":0}],"revoking":[],
"lastHeartbeatAt":"2026-01-02T03:04:05Z"}},"targetAssignments":{"a":[{"shardIndex":0}]},"migrations":{},"activeReshardingId":null,
"createdAt":"2026-01-01T00:00:00Z","updatedAt":"2026-01-02T03:04:05Z"}`

func TestGroupsOfAnEarlierImplementation(t *testing.T) {
	synctest.Test(t, groupsOfAnEarlierImplementation)
}

func groupsOfAnEarlierImplementation(t *testing.T) {
	store := memstore.New()
	for name, count := range map[string]string{"billing": "2", "shipping": "4"} {
		body := strings.NewReplacer("GROUP", name, "COUNT", count).Replace(versionOne)
		if _, err := store.SaveGroup(t.Context(), port.GroupKey{Stream: "orders", Group: name}, port.GroupSave{Nonce: "n-" + name, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	c := start(t, store, nil)
	time.Sleep(100 * time.Millisecond)
	s, err := c.Stream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if s.ShardCount != 4 || len(s.Groups) != 2 || !s.Provisioned {
		t.Errorf("the stream was made as %+v, want the largest count of its groups, 4", s)
	}
	g, err := c.Group(t.Context(), "orders", "billing")
	if err != nil {
		t.Fatal(err)
	}
	if g.ShardCount != 4 {
		t.Errorf("billing has %d shards, want those of the stream", g.ShardCount)
	}
	// An old client of that group beats on, and has every shard once it is sure
	// that nobody else reads any.
	a := &beat{id: "a", last: protocol.HeartbeatResponse{MemberEpoch: 2, MetadataVersion: 2, Assignment: protocol.Assignment{
		AssignedShards: []protocol.AssignedShard{{Shard: 0}},
	}}}
	deadline := time.Now().Add(time.Minute)
	for len(a.send(t, c).Assignment.AssignedShards) != 4 {
		if !a.last.Status.RenewsLease() || time.Now().After(deadline) {
			t.Fatalf("a: %+v", a.last)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestTimingsCanBeChanged(t *testing.T) { synctest.Test(t, timingsCanBeChanged) }

func timingsCanBeChanged(t *testing.T) {
	c := start(t, memstore.New(), nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	slower := protocol.Timings{HeartbeatInterval: 200 * time.Millisecond, Lease: 4 * time.Second, RebalanceTimeout: 5 * time.Second}
	if _, err := c.SetTimings(t.Context(), "orders", "billing", slower); err != nil {
		t.Fatal(err)
	}
	settle(t, c, 2, a)
	if a.last.MemberLeaseTTLMs != 4000 || a.last.HeartbeatIntervalMs != 200 || a.last.RebalanceTimeoutMs != 5000 {
		t.Errorf("a was told %+v", a.last)
	}
	if _, err := c.SetTimings(t.Context(), "orders", "billing", protocol.Timings{Lease: time.Second}); !errors.Is(err, protocol.ErrInvalidRequest) {
		t.Errorf("timings that cannot work: %v", err)
	}
	if _, err := c.SetTimings(t.Context(), "orders", "nobody", slower); !errors.Is(err, protocol.ErrGroupNotFound) {
		t.Errorf("timings of no group: %v", err)
	}
	// The lease is lowered again, and a falls silent: its shards are free only
	// when the longer lease that it was promised is over.
	if _, err := c.SetTimings(t.Context(), "orders", "billing", fast); err != nil {
		t.Fatal(err)
	}
	silent := time.Now()
	b := &beat{id: "b", incarnation: "b1"}
	for len(b.send(t, c).Assignment.AssignedShards) != 2 {
		if time.Since(silent) > 10*time.Second {
			t.Fatalf("b: %+v", b.last)
		}
		time.Sleep(fast.HeartbeatInterval)
	}
	if took := time.Since(silent); took < slower.Lease-200*time.Millisecond {
		t.Errorf("a's shards were taken after %s, although it was promised %s", took, slower.Lease)
	}
}
