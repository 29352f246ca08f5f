package redistest

import (
	"sync"
	"testing"
	"time"
)

const (
	// watchTick is the step of a Watch; of one that takes longer it counts mostTick.
	watchTick = 5 * time.Millisecond
	mostTick  = 2 * watchTick
	// HeldUp is what Within adds to a bound: for so long a machine may hold up a single
	// goroutine, or a server, while the others go on, and no watch sees that.
	HeldUp = 4 * time.Second
)

// Watch is a stopwatch for what a test has a bound for. It counts the time in which
// the process could do something: on a machine that stands still for seconds, or
// gives the process little time, it goes slower than the clock.
type Watch struct {
	tb testing.TB

	mu sync.Mutex
	// ran is what it has counted up to last, stood what it has left out.
	ran, stood time.Duration
	last       time.Time
	// mark and begin are ran and the time at the last Reset.
	mark  time.Duration
	begin time.Time
}

// StartWatch starts a watch that ends with the test.
func StartWatch(tb testing.TB) *Watch {
	tb.Helper()
	now := time.Now()
	w := &Watch{tb: tb, last: now, begin: now}
	over := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		tick := time.NewTicker(watchTick)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.mu.Lock()
				w.count(time.Now())
				w.mu.Unlock()
			case <-over:
				return
			}
		}
	})
	tb.Cleanup(func() {
		close(over)
		ticking.Wait()
	})
	return w
}

// count goes on to now; the caller holds the mutex.
func (w *Watch) count(now time.Time) {
	took := now.Sub(w.last)
	w.last = now
	w.ran += min(took, mostTick)
	w.stood += max(0, took-mostTick)
}

// Ran returns what the watch has counted since it was started.
func (w *Watch) Ran() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(time.Now())
	return w.ran
}

// Stood returns how long it has not counted since it was started.
func (w *Watch) Stood() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count(time.Now())
	return w.stood
}

// Reset has Within count from now on.
func (w *Watch) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.count(now)
	w.mark, w.begin = w.ran, now
}

// Within fails the test if more than bound, and HeldUp, has passed since the last
// Reset, or the start.
func (w *Watch) Within(bound time.Duration, what string) {
	w.tb.Helper()
	ran := w.Ran()
	w.mu.Lock()
	ran, clock := ran-w.mark, time.Since(w.begin)
	w.mu.Unlock()
	if ran > bound+HeldUp {
		w.tb.Errorf("%s: it took %s (%s on the clock), want %s at most", what, ran, clock, bound)
	}
}
