package service_test

import (
	"sync"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// block makes the next save of a group wait; it waits no longer once release is called.
func (s *shaky) block() (reached <-chan struct{}, release func()) {
	at, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = func(call string) error {
		if call == "SaveGroup" {
			once.Do(func() {
				close(at)
				<-goOn
			})
		}
		return nil
	}
	return at, sync.OnceFunc(func() { close(goOn) })
}

// A coordinator creates the record of a group so late that the group has lived and been
// deleted under its members meanwhile, and is being created again: the members may still
// read, so what it has created grants nothing.
func TestALateCreatorGrantsNothing(t *testing.T) {
	store := memstore.New()
	slow, quick := &shaky{Store: store}, &shaky{Store: store}
	a, b := still(t, slow), still(t, quick)
	if _, err := b.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	reached, release := slow.block()
	defer release()
	first := make(chan error, 1)
	calls.Go(func() {
		_, err := a.CreateGroup(t.Context(), "orders", "billing", byTest)
		first <- err
	})
	<-reached
	if _, err := b.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	if _, err := b.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	reachedAgain, releaseAgain := quick.block()
	defer releaseAgain()
	calls.Go(func() {
		// Whether it is told that it was too late does not matter here.
		_, _ = b.CreateGroup(t.Context(), "orders", "billing", byTest)
	})
	<-reachedAgain
	release()
	if err := <-first; err != nil {
		t.Logf("the late creator is told: %v", err)
	}
	rec, err := store.LoadGroup(t.Context(), port.GroupKey{Stream: "orders", Group: "billing"}, port.Version{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := group.Decode(rec.Body)
	if err != nil || s.Correction == nil {
		t.Errorf("the group grants shards at once: %+v, %v", s, err)
	}
}
