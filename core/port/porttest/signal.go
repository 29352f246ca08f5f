package porttest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// SignalStore is a store that tells of its changes.
type SignalStore interface {
	port.Store
	port.Signal
}

// signalPatience is how long something is waited for that comes at once.
const signalPatience = time.Minute

// Signal runs the suite for signals. open returns two views of one empty store,
// such as two coordinators have.
func Signal(t *testing.T, open func(t *testing.T) (a, b SignalStore)) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(t *testing.T, a, b SignalStore)
	}{
		{"TellsChanges", testTellsChanges},
		{"TellsEverybody", testTellsEverybody},
		{"SeenWhenTold", testSeenWhenTold},
		{"NothingToTell", testNothingToTell},
		{"SignalNames", testSignalNames},
		{"EndsWithContext", testEndsWithContext},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := open(t)
			test.run(t, a, b)
		})
	}
}

// watching collects what a signal tells.
type watching struct {
	told chan port.Change
}

// watch listens to a signal until the test ends, and has begun when it returns.
func watch(t *testing.T, s port.Signal) *watching {
	t.Helper()
	w := &watching{told: make(chan port.Change, 1000)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { s.Watch(ctx, func(c port.Change) { w.told <- c }) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	if c := w.next(t); c != (port.Change{Any: true}) {
		t.Fatalf("the first that is told is %+v, want Any", c)
	}
	return w
}

func (w *watching) next(t *testing.T) port.Change {
	t.Helper()
	select {
	case c := <-w.told:
		return c
	case <-time.After(signalPatience):
		t.Fatal("no change was told")
		return port.Change{}
	}
}

// until waits for a change; what is told besides must be of the same group.
func (w *watching) until(t *testing.T, want port.Change) {
	t.Helper()
	for {
		c := w.next(t)
		if c == want {
			return
		}
		if c.Key != want.Key {
			t.Fatalf("told %+v, waiting for %+v", c, want)
		}
	}
}

func changeTo(key port.GroupKey, v port.Version) port.Change {
	return port.Change{Key: key, Revision: v.Revision, Nonce: v.Nonce}
}

// testTellsChanges: the creation, a save and the deletion.
func testTellsChanges(t *testing.T, a, b SignalStore) {
	w := watch(t, b)
	v := save(t, a, orders, port.GroupSave{Body: body("one")})
	w.until(t, changeTo(orders, v))
	v = save(t, a, orders, port.GroupSave{Expected: v, Body: body("two")})
	w.until(t, changeTo(orders, v))
	if err := a.DeleteGroup(t.Context(), orders, v); err != nil {
		t.Fatal(err)
	}
	w.until(t, port.Change{Key: orders})
}

// testTellsEverybody: the writer itself, too, and whoever listens twice.
func testTellsEverybody(t *testing.T, a, b SignalStore) {
	watchers := []*watching{watch(t, a), watch(t, b), watch(t, b)}
	v := save(t, a, orders, port.GroupSave{Body: body("one")})
	for _, w := range watchers {
		w.until(t, changeTo(orders, v))
	}
}

// testSeenWhenTold: whoever is told of a change finds it.
func testSeenWhenTold(t *testing.T, a, b SignalStore) {
	w := watch(t, b)
	var v port.Version
	for range 50 {
		v = save(t, a, orders, port.GroupSave{Expected: v, Body: body("x")})
		for told := (port.Change{}); told.Revision < v.Revision; {
			told = w.next(t)
			if r := look(t, b, orders).record; r.Version.Revision < told.Revision {
				t.Fatalf("told of revision %d, found %d", told.Revision, r.Version.Revision)
			}
		}
	}
}

// testNothingToTell: a renewal changes no record, and a refused write nothing.
func testNothingToTell(t *testing.T, a, b SignalStore) {
	w := watch(t, b)
	v := save(t, a, orders, port.GroupSave{Body: body("one")})
	w.until(t, changeTo(orders, v))
	if err := a.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "x", Value: "1"}}}); err != nil {
		t.Fatal(err)
	}
	_, err := a.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: nonce(), Body: body("two")})
	wantConflict(t, "a second creation", err)
	wantConflict(t, "a late deletion", a.DeleteGroup(t.Context(), orders, port.Version{Revision: 7}))
	v = save(t, a, orders, port.GroupSave{Expected: v, Body: body("two")})
	if c := w.next(t); c != changeTo(orders, v) {
		t.Errorf("told %+v, want %+v", c, changeTo(orders, v))
	}
}

func testSignalNames(t *testing.T, a, b SignalStore) {
	w := watch(t, b)
	for _, name := range hostileGroupNames {
		for _, prefix := range []string{"a", "a:b", " ", "%"} {
			key := port.GroupKey{Stream: prefix, Group: name}
			w.until(t, changeTo(key, save(t, a, key, port.GroupSave{Nonce: nonce() + name, Body: body("x")})))
		}
	}
}

func testEndsWithContext(t *testing.T, a, _ SignalStore) {
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		a.Watch(ctx, func(c port.Change) {
			if c.Any {
				close(begun)
			}
		})
	}()
	<-begun
	cancel()
	select {
	case <-ended:
	case <-time.After(signalPatience):
		t.Error("the watch goes on though its context has ended")
	}
	over, stop := context.WithCancel(t.Context())
	stop()
	a.Watch(over, func(port.Change) { t.Error("something was told after the end") })
}
