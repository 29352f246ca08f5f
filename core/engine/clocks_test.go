package engine

import (
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// revoked is a view in which a's shard was revoked in epoch 2, with a rebalance
// timeout that is shorter than the lease. No group is created like that; a group
// whose lease was raised may be for a while.
func revoked() *group.View {
	return group.NewView(&group.State{
		Timings: protocol.Timings{Lease: 3 * time.Second, RebalanceTimeout: time.Second},
		Lives:   []group.Life{{Member: "a", Incarnation: "a1", JoinEpoch: 1, Epoch: 2, Acked: 1}},
		Ledger:  group.Ledger{Holder: []int32{0}, Grant: []protocol.Epoch{1}, Revoke: []protocol.Epoch{2}},
		Target:  []int32{group.None},
	})
}

func overdueAfter(off rules.Set, wait time.Duration) bool {
	c := newClocks(off)
	v := revoked()
	c.observe(0, time.Minute, "i", v, nil)
	c.adopt(0, v)
	_, overdue := c.verdicts(wait, v)
	return len(overdue) > 0
}

func TestTheTimeoutSparesTheLease(t *testing.T) {
	if overdueAfter(0, 2999*time.Millisecond) {
		t.Error("a revocation is overdue before a lease time has passed")
	}
	if !overdueAfter(0, 3*time.Second) {
		t.Error("a revocation is not overdue after timeout and lease")
	}
	if !overdueAfter(rules.Without(rules.TimeoutSparesLease), time.Second) {
		t.Error("the rule cannot be switched off, so nothing shows that it is needed")
	}
}

func TestAnotherInstanceStartsEveryClockAnew(t *testing.T) {
	c := newClocks(0)
	v := revoked()
	stamps := map[string]string{"a/a1": "s"}
	c.observe(0, time.Minute, "i", v, stamps)
	c.adopt(0, v)
	if forgot := c.observe(3*time.Second, time.Minute, "j", v, stamps); !forgot {
		t.Fatal("another instance was not noticed")
	}
	c.adopt(3*time.Second, v)
	if expired, overdue := c.verdicts(5999*time.Millisecond, v); len(expired)+len(overdue) > 0 {
		t.Errorf("verdicts from before the other instance: %v %v", expired, overdue)
	}
	if expired, overdue := c.verdicts(6*time.Second, v); !expired["a/a1"] || overdue["a/a1"] != 2 {
		t.Errorf("no verdicts a lease after the other instance: %v %v", expired, overdue)
	}
}

func TestStampTime(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)
	if at, ok := StampTime(newStamp("id", now)); !ok || !at.Equal(now) {
		t.Errorf("StampTime = %v, %v", at, ok)
	}
	for _, odd := range []string{"", "id", "id.x", "id.", newMark("id")} {
		if _, ok := StampTime(odd); ok {
			t.Errorf("StampTime(%q) gives a time", odd)
		}
	}
}
