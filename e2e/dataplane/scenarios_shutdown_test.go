package dataplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// prefetched asks a member to end that has read far more than it has begun: others
// begin with all of that at once, as if it had never been handed out.
func prefetched(t *testing.T, kind faultkit.Kind) finding {
	const (
		records  = 1_500
		buffered = 500
		most     = time.Second
	)
	// A member reads ahead a few dozen records for each shard.
	w := newWorld(t, kind, setting{shards: 16})
	busy := w.start("busy", func(p *plan) {
		p.Hold, p.Concurrency, p.MaxInFlight, p.ShutdownTimeout = 200*time.Millisecond, 2, 4*records, 5*time.Second
	})
	w.settle(busy)
	f := w.newFeed("k", 500, nil)
	f.publish(t.Context(), records)
	var pending int64
	faultkit.Eventually(t, patience, "many records are prefetched", func() bool {
		var err error
		pending, _, err = w.backlog()
		return err == nil && pending >= buffered
	})
	other := w.join("other")
	w.take()
	before := w.account.duplicates
	at := time.Now()
	busy.stop()
	stopped := time.Since(at)
	w.settle(other)
	w.awaitDone(records)
	w.awaitDrained()
	found := w.find()
	var worst time.Time
	for n, h := range w.account.records {
		if h.deliveries > 1 {
			t.Errorf("%v was delivered %d times: to be prefetched is no delivery", n, h.deliveries)
		}
		if h.at.After(worst) {
			worst = h.at
		}
	}
	found.recovery, found.bound = worst.Sub(at), most
	found.note = fmt.Sprintf("%d pending at that moment; stopped after %s", pending, stopped.Round(time.Millisecond))
	if found.duplicated > before {
		t.Errorf("%d duplicates of a shutdown in order", found.duplicated)
	}
	return found
}
