package service_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// forgetStamps removes the stamps of a group, as an eviction of the key that holds
// them does. It returns how many there were.
func forgetStamps(t *testing.T, store port.Store) int {
	t.Helper()
	key := port.GroupKey{Stream: "orders", Group: "billing"}
	r, err := store.LoadGroup(t.Context(), key, port.Version{})
	if err != nil {
		t.Fatal(err)
	}
	gone := make([]port.Stamp, 0, len(r.Stamps))
	for life := range r.Stamps {
		gone = append(gone, port.Stamp{Life: life})
	}
	if err := store.RenewGroup(t.Context(), key, port.Renewal{Expected: r.Version, Stamps: gone}); err != nil {
		t.Fatal(err)
	}
	return len(gone)
}

// A store that loses all proofs of life, time and again, costs nobody a shard who
// beats. One write of each coordinator makes up for a loss, the time of the last
// heartbeat is not invented, and who is dead ends a lease after the last loss.
func TestStampsThatAreLost(t *testing.T) { synctest.Test(t, stampsThatAreLost) }

func stampsThatAreLost(t *testing.T) {
	store := memstore.New()
	counted := &shaky{Store: store}
	var renewals atomic.Int64
	counted.set(func(s *shaky) {
		s.before = func(call string) error {
			if call == "RenewGroup" {
				renewals.Add(1)
			}
			return nil
		}
	})
	c, other := start(t, counted, nil), start(t, counted, nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 2, a, b)

	// b is dead from here on, and a beats by way of both.
	for round := range 8 {
		time.Sleep(fast.Lease / 10)
		if r := a.send(t, c); r.Status != protocol.StatusOK || len(r.Assignment.AssignedShards) != 1 {
			t.Fatalf("round %d: %s %s, %+v", round, r.Status, r.Reason, r.Assignment)
		}
		before := renewals.Load()
		if n := forgetStamps(t, store); n != 2 {
			t.Fatalf("round %d: there were %d stamps", round, n)
		}
		time.Sleep(fast.Lease / 2)
		if n := renewals.Load() - before; n < 1 || n > 2 {
			t.Errorf("round %d: a loss leads to %d renewals", round, n)
		}
		members, err := c.Members(t.Context(), "orders", "billing")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range members.Members {
			if m.State != protocol.MemberActive || m.LastHeartbeatAt != nil || m.MemberLeaseExpiresAt != nil {
				t.Errorf("round %d: %s is %s, last heard of at %v, until %v", round, m.MemberID, m.State, m.LastHeartbeatAt, m.MemberLeaseExpiresAt)
			}
		}
		if r := a.send(t, other); r.Status != protocol.StatusOK || len(r.Assignment.AssignedShards) != 1 {
			t.Fatalf("round %d: %s %s, %+v", round, r.Status, r.Reason, r.Assignment)
		}
	}
	if took := waitFor(t, c, a); took > fast.Lease {
		t.Errorf("the shard of a dead member comes %s after the last loss", took)
	}
	if n := forgetStamps(t, store); n != 1 {
		t.Errorf("%d stamps are left, one member is", n)
	}
}
