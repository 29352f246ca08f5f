package service_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// waitFor beats until the member has both shards, and says how long it took.
func waitFor(t *testing.T, c *service.Coordinator, m *beat) time.Duration {
	t.Helper()
	began := time.Now()
	for len(m.send(t, c).Assignment.AssignedShards) != 2 {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%s: %+v", m.id, m.last)
		}
		time.Sleep(20 * time.Millisecond)
	}
	return time.Since(began)
}

func TestAStoreThatIsEmptied(t *testing.T) { synctest.Test(t, aStoreThatIsEmptied) }

func aStoreThatIsEmptied(t *testing.T) {
	store := memstore.New()
	told := make(chan struct{}, 1)
	c := start(t, store, func(cfg *service.Config, _ *service.Ports) {
		cfg.OnStoreLost = func() { told <- struct{}{} }
	})
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	store.Clear()
	select {
	case <-told:
	case <-time.After(time.Second):
		t.Fatal("the loss was not noticed")
	}
	if r := a.send(t, c); r.Status != protocol.StatusUnknownMember {
		t.Fatalf("a: %s %s", r.Status, r.Reason)
	}
	// The stream is created again at once. a may still read on the lease that it
	// was given before, so b gets nothing until that is over.
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	b := &beat{id: "b", incarnation: "b1"}
	if took := waitFor(t, c, b); took < fast.Lease-100*time.Millisecond {
		t.Errorf("b has the shards after %s, a lease is %s", took, fast.Lease)
	}
}

// TestAnEmptiedStoreThatNobodyHasLookedAt: a group that is created before the loop has
// noticed the loss waits all the same.
func TestAnEmptiedStoreThatNobodyHasLookedAt(t *testing.T) {
	synctest.Test(t, anEmptiedStoreThatNobodyHasLookedAt)
}

func anEmptiedStoreThatNobodyHasLookedAt(t *testing.T) {
	store := memstore.New()
	c := start(t, store, nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	settle(t, c, 2, &beat{id: "a", incarnation: "a1"})
	store.Clear()
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	if took := waitFor(t, c, &beat{id: "b", incarnation: "b1"}); took < fast.Lease-100*time.Millisecond {
		t.Errorf("b has the shards after %s, a lease is %s", took, fast.Lease)
	}
}

// TestACoordinatorThatStartsAfterALoss: it has not seen what was lost. It knows it from
// the coordinator that has, whether that one looks at the store before it or after.
func TestACoordinatorThatStartsAfterALoss(t *testing.T) {
	t.Run("noticed before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { aCoordinatorThatStartsAfterALoss(t, 100*time.Millisecond) })
	})
	t.Run("not noticed yet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { aCoordinatorThatStartsAfterALoss(t, 0) })
	})
}

func aCoordinatorThatStartsAfterALoss(t *testing.T, after time.Duration) {
	store := memstore.New()
	seen := start(t, store, nil)
	if _, err := seen.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	settle(t, seen, 2, &beat{id: "a", incarnation: "a1"})
	store.Clear()
	time.Sleep(after)
	fresh := start(t, store, nil)
	if _, err := fresh.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := fresh.CreateGroup(t.Context(), "orders", "billing", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // some ticks
	if took := waitFor(t, fresh, &beat{id: "b", incarnation: "b1"}); took < fast.Lease-300*time.Millisecond {
		t.Errorf("b has the shards after %s, a lease is %s", took, fast.Lease)
	}
}

// TestACoordinatorThatStartsOnAnEmptiedStore: nobody can tell a new store from one
// that was emptied while no coordinator ran, but members of before show it.
func TestACoordinatorThatStartsOnAnEmptiedStore(t *testing.T) {
	synctest.Test(t, aCoordinatorThatStartsOnAnEmptiedStore)
}

func aCoordinatorThatStartsOnAnEmptiedStore(t *testing.T) {
	c := start(t, memstore.New(), nil)
	time.Sleep(50 * time.Millisecond)
	former := &beat{id: "a", incarnation: "a1", last: protocol.HeartbeatResponse{MemberEpoch: 17, MetadataVersion: 17}}
	if r := former.send(t, c); r.Status != protocol.StatusUnknownMember {
		t.Fatalf("a: %s %s", r.Status, r.Reason)
	}
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	b := &beat{id: "b", incarnation: "b1"}
	if took := waitFor(t, c, b); took < fast.Lease-100*time.Millisecond {
		t.Errorf("b has the shards after %s, a lease is %s", took, fast.Lease)
	}
}

// TestSeveralCoordinatorsThatStartOnAnEmptiedStore: the same for the one of them that
// did not find the store empty any more.
func TestSeveralCoordinatorsThatStartOnAnEmptiedStore(t *testing.T) {
	synctest.Test(t, severalCoordinatorsThatStartOnAnEmptiedStore)
}

func severalCoordinatorsThatStartOnAnEmptiedStore(t *testing.T) {
	store := memstore.New()
	start(t, store, nil)
	c := start(t, store, nil)
	time.Sleep(50 * time.Millisecond)
	former := &beat{id: "a", incarnation: "a1", last: protocol.HeartbeatResponse{MemberEpoch: 17, MetadataVersion: 17}}
	if r := former.send(t, c); r.Status != protocol.StatusUnknownMember {
		t.Fatalf("a: %s %s", r.Status, r.Reason)
	}
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	b := &beat{id: "b", incarnation: "b1"}
	if took := waitFor(t, c, b); took < fast.Lease-100*time.Millisecond {
		t.Errorf("b has the shards after %s, a lease is %s", took, fast.Lease)
	}
}

func TestANewStoreIsNotWaitedFor(t *testing.T) { synctest.Test(t, aNewStoreIsNotWaitedFor) }

func aNewStoreIsNotWaitedFor(t *testing.T) {
	c := start(t, memstore.New(), nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	if took := waitFor(t, c, &beat{id: "a", incarnation: "a1"}); took > 200*time.Millisecond {
		t.Errorf("the first member of a new store waits %s", took)
	}
}

// TestAGroupThatIsDeletedByForce: its members go on reading until they hear of it,
// so a group that is created again under the name waits for their leases.
func TestAGroupThatIsDeletedByForce(t *testing.T) { synctest.Test(t, aGroupThatIsDeletedByForce) }

func aGroupThatIsDeletedByForce(t *testing.T) {
	c := start(t, memstore.New(), nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	settle(t, c, 2, &beat{id: "a", incarnation: "a1"})
	if _, err := c.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	b := &beat{id: "b", incarnation: "b1"}
	if took := waitFor(t, c, b); took < fast.Lease-100*time.Millisecond {
		t.Errorf("b has the shards after %s, a lease is %s", took, fast.Lease)
	}
}
