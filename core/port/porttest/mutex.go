package porttest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// patience is how long a test waits for what must not happen: long enough that
// it would have happened, short enough for a test.
const patience = 50 * time.Millisecond

// Mutex runs the suite for mutexes. open returns one mutex of which no key is
// held.
func Mutex(t *testing.T, open func(t *testing.T) port.Mutex) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, port.Mutex)
	}{
		{"OneHolder", testOneHolder},
		{"WaitsForItsTurn", testWaitsForItsTurn},
		{"GivesUpWithContext", testGivesUpWithContext},
		{"EndedContext", testMutexEndedContext},
		{"KeysApart", testKeysApart},
		{"UnlockAfterContext", testUnlockAfterContext},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// locks are the two kinds of mutex.
func locks(m port.Mutex) map[string]func(context.Context) (func(), error) {
	return map[string]func(context.Context) (func(), error){
		"group":  func(ctx context.Context) (func(), error) { return m.LockGroup(ctx, orders) },
		"stream": func(ctx context.Context) (func(), error) { return m.LockStream(ctx, "orders") },
	}
}

func mustLock(t *testing.T, lock func(context.Context) (func(), error)) (unlock func()) {
	t.Helper()
	unlock, err := lock(t.Context())
	if err != nil {
		t.Fatalf("lock: %v", err)
	}
	return unlock
}

// wantHeld fails when lock does not wait.
func wantHeld(t *testing.T, lock func(context.Context) (func(), error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	unlock, err := lock(ctx)
	if err == nil {
		unlock()
		t.Fatal("a mutex that is held was taken")
	}
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, protocol.ErrMutexUnavailable) {
		t.Fatalf("lock: got %v, want the cause of the context or ErrMutexUnavailable", err)
	}
}

func testOneHolder(t *testing.T, m port.Mutex) {
	for name, lock := range locks(m) {
		var inside, entered atomic.Int32
		errs := together(4, func(int) error {
			for range 5 {
				unlock, err := lock(t.Context())
				if err != nil {
					return err
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%s: %d holders", name, n)
				}
				entered.Add(1)
				inside.Add(-1)
				unlock()
			}
			return nil
		})
		if err := errors.Join(errs...); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if entered.Load() != 20 {
			t.Errorf("%s: %d of 20 turns", name, entered.Load())
		}
	}
}

func testWaitsForItsTurn(t *testing.T, m port.Mutex) {
	for name, lock := range locks(m) {
		unlock := mustLock(t, lock)
		wantHeld(t, lock)
		var released atomic.Bool
		got := make(chan error, 1)
		go func() {
			second, err := lock(t.Context())
			if err == nil {
				if !released.Load() {
					t.Errorf("%s: two holders", name)
				}
				second()
			}
			got <- err
		}()
		wantHeld(t, lock)
		released.Store(true)
		unlock()
		if err := <-got; err != nil {
			t.Fatalf("%s: the waiter got %v", name, err)
		}
	}
}

func testGivesUpWithContext(t *testing.T, m port.Mutex) {
	for name, lock := range locks(m) {
		unlock := mustLock(t, lock)
		cause := errors.New("no longer needed")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 1)
		go func() {
			second, err := lock(ctx)
			if err == nil {
				second()
			}
			got <- err
		}()
		wantHeld(t, lock)
		cancel(cause)
		if err := <-got; !errors.Is(err, cause) {
			t.Errorf("%s: got %v, want the cause of the context", name, err)
		}
		unlock()
		mustLock(t, lock)() // the waiter that gave up did not take it with it
	}
}

func testMutexEndedContext(t *testing.T, m port.Mutex) {
	cause := errors.New("the test is over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for name, lock := range locks(m) {
		if unlock, err := lock(ctx); !errors.Is(err, cause) {
			t.Errorf("%s: got %v, want the cause of the context", name, err)
			if err == nil {
				unlock()
			}
		}
		mustLock(t, lock)()
	}
}

// testKeysApart: as many mutexes as there are names, all held at once.
func testKeysApart(t *testing.T, m port.Mutex) {
	var unlocks []func()
	hold := func(lock func(context.Context) (func(), error)) {
		t.Helper()
		unlocks = append(unlocks, mustLock(t, lock))
	}
	for _, key := range []port.GroupKey{
		{Stream: "a", Group: "b"}, {Stream: "a", Group: "B"}, {Stream: "a", Group: "b "}, {Stream: "b", Group: "a"},
		{Stream: "a:b", Group: "c"}, {Stream: "a", Group: "b:c"}, {Stream: "a", Group: "b%3Ac"}, {Stream: "a", Group: "b}"}, {Stream: "a", Group: ""},
	} {
		hold(func(ctx context.Context) (func(), error) { return m.LockGroup(ctx, key) })
	}
	for _, prefix := range []string{"a", "A", "a ", "a:b", "a:b:c", "a:b%3Ac", "a:"} {
		hold(func(ctx context.Context) (func(), error) { return m.LockStream(ctx, prefix) })
	}
	for _, unlock := range unlocks {
		unlock()
	}
}

// testUnlockAfterContext: a holder whose ctx ended meanwhile still lets go.
func testUnlockAfterContext(t *testing.T, m port.Mutex) {
	for name, lock := range locks(m) {
		ctx, cancel := context.WithCancel(t.Context())
		unlock, err := lock(ctx)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		cancel()
		wantHeld(t, lock)
		unlock()
		mustLock(t, lock)()
	}
}
