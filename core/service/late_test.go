package service_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// block makes the next save of a group wait; it waits no longer once release is called.
func (s *shaky) block() (reached <-chan struct{}, release func()) { return s.blockAt("SaveGroup", 1) }

// blockAt makes the nth call of a name wait.
func (s *shaky) blockAt(name string, n int) (reached <-chan struct{}, release func()) {
	at, goOn := make(chan struct{}), make(chan struct{})
	var seen atomic.Int64
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(call string) error {
		if call == name && seen.Add(1) == int64(n) {
			close(at)
			<-goOn
		}
		return nil
	}
	return at, sync.OnceFunc(func() { close(goOn) })
}

// slowAndQuick returns two coordinators on one store, the first of which reaches it through
// slow.
func slowAndQuick(t *testing.T) (store port.Store, slow *shaky, a, b *service.Coordinator) {
	t.Helper()
	store = memstore.New()
	slow = &shaky{Store: store}
	return store, slow, still(t, slow), still(t, store)
}

// createLate has a coordinator on a store stand still at the nth call of a name while it
// creates the group billing of orders, whose stream the other one has made. goOn lets it, and
// waits until it was answered.
func createLate(t *testing.T, store *shaky, a, b *service.Coordinator, name string, n int) (goOn func()) {
	t.Helper()
	if _, err := b.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	reached, release := store.blockAt(name, n)
	var call sync.WaitGroup
	t.Cleanup(func() {
		release()
		call.Wait()
	})
	call.Go(func() {
		if _, err := a.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
			t.Logf("the late creator is told: %v", err)
		}
	})
	<-reached
	return func() {
		release()
		call.Wait()
	}
}

// A coordinator that is slow to create a group finds that the stream does not know it:
// the stream's record has lost its last writes in a failover, and the group's has not.
// Members read meanwhile, so its record stays, and the stream knows it again.
func TestALateCreatorLeavesAGroupThatWasForgotten(t *testing.T) {
	synctest.Test(t, aLateCreatorLeavesAGroupThatWasForgotten)
}

func aLateCreatorLeavesAGroupThatWasForgotten(t *testing.T) {
	store, slow, a, b := slowAndQuick(t)
	goOn := createLate(t, slow, a, b, "LoadGroup", 2)
	m := inhabit(t, b)
	forgetGroups(t, store)
	goOn()
	// The same member, with what it was granted.
	settle(t, b, 2, m)
}

// A coordinator that is slow to delete a group by force finds that the stream does not
// know it, nor that it is to be deleted: that was lost, and what was not deleted stays.
func TestADeletionThatIsForgotten(t *testing.T) { synctest.Test(t, aDeletionThatIsForgotten) }

func aDeletionThatIsForgotten(t *testing.T) {
	store, slow, a, b := slowAndQuick(t)
	if _, err := b.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	m := inhabit(t, b)
	// The first is for whoever asks whether it exists.
	reached, release := slow.blockAt("LoadGroup", 2)
	var call sync.WaitGroup
	defer call.Wait()
	defer release()
	call.Go(func() {
		// Whether it is told that this was lost does not matter here.
		_, _ = a.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "test", Force: true})
	})
	<-reached
	forgetGroups(t, store)
	release()
	call.Wait()
	settle(t, b, 2, m)
}

// inhabit creates the group billing of orders and returns a member that reads its shards.
func inhabit(t *testing.T, c *service.Coordinator) *beat {
	t.Helper()
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	m := &beat{id: "m", incarnation: "m1"}
	settle(t, c, 2, m)
	return m
}

// forgetGroups has the record of the stream lose the writes that created its groups.
func forgetGroups(t *testing.T, store port.Store) {
	t.Helper()
	rewrite(t, store, func(s stream.State) stream.State {
		s.Groups = nil
		return s
	})
}

// rewrite writes the record of the stream orders past the coordinators.
func rewrite(t *testing.T, store port.Store, change func(stream.State) stream.State) {
	t.Helper()
	at, err := store.LoadStream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	was, err := stream.Decode(at.Body)
	if err != nil {
		t.Fatal(err)
	}
	next := change(was)
	body, err := stream.Encode(&next)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveStream(t.Context(), "orders", port.StreamSave{Expected: at.Version, Nonce: "rewritten", Body: body}); err != nil {
		t.Fatal(err)
	}
}

// A coordinator creates the record of a group so late that the group has lived and been
// deleted under its members meanwhile, and is being created again: the members may still
// read, so what it has created grants nothing.
func TestALateCreatorGrantsNothing(t *testing.T) { synctest.Test(t, aLateCreatorGrantsNothing) }

func aLateCreatorGrantsNothing(t *testing.T) {
	store := memstore.New()
	slow, quick := &shaky{Store: store}, &shaky{Store: store}
	a, b := still(t, slow), still(t, quick)
	goOn := createLate(t, slow, a, b, "SaveGroup", 1)
	if _, err := b.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	reachedAgain, releaseAgain := quick.block()
	var calls sync.WaitGroup
	defer calls.Wait()
	defer releaseAgain()
	calls.Go(func() {
		// Whether it is told that it was too late does not matter here.
		_, _ = b.CreateGroup(t.Context(), "orders", "billing", byTest)
	})
	<-reachedAgain
	goOn()
	rec, err := store.LoadGroup(t.Context(), port.GroupKey{Stream: "orders", Group: "billing"}, port.Version{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := group.Decode(rec.Body)
	if err != nil || s.Correction == nil {
		t.Errorf("the group grants shards at once: %+v, %v", s, err)
	}
}

// A coordinator that is slow to create a group finds it being deleted, and has not deleted
// it when the deletion is taken back, since the group has members.
func TestALateCreatorLeavesAGroupThatStays(t *testing.T) {
	synctest.Test(t, aLateCreatorLeavesAGroupThatStays)
}

func aLateCreatorLeavesAGroupThatStays(t *testing.T) {
	store, slow, a, b := slowAndQuick(t)
	// It has seen the group's record, and not yet that of the stream once more.
	goOn := createLate(t, slow, a, b, "LoadGroup", 2)
	m := inhabit(t, b)
	// Somebody has begun to delete it before the member joined, and is gone.
	rewrite(t, store, func(was stream.State) stream.State {
		deleting, _, _, err := stream.Apply(was, stream.Input{Now: was.UpdatedAt}, stream.DeleteGroup{Name: "billing"})
		if err != nil {
			t.Fatal(err)
		}
		return deleting
	})
	goOn()
	settle(t, b, 2, m)
	if s, err := b.Stream(t.Context(), "orders"); err != nil || len(s.Groups) != 1 {
		t.Errorf("the stream is %+v, %v", s, err)
	}
}
