package controlplane

import (
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// TestSentinelFailover: the coordinators keep their records on a master that a
// Sentinel watches. It dies, and its replica takes over.
func TestSentinelFailover(t *testing.T) {
	asked(t)
	t.Parallel()
	rsctest.Program(t) // the tests' own times are not for building
	s := faultkit.StartWatched(t)
	args := append(rsctest.Declaring(t, stream, shardCount, group),
		rsctest.Set("coordinator.redis.sentinel.master", s.Name, "coordinator.redis.sentinel.addresses", s.Sentinel)...)
	var all []*coordinator
	for i := range coordinatorCount {
		all = append(all, startCoordinator(t, user(i), args...))
	}
	w := newWorld(t, all, shardCount)
	w.populate(processCount / 2)
	w.settle(startTimeout)
	died := time.Now()
	s.KillMaster()
	succeeded := time.Now()
	// The replica is another instance of the store, and may have missed writes.
	faultkit.Eventually(t, corrected, "somebody notices who answers now", func() bool { return w.corrections() > 0 })
	w.settle(corrected)
	if took := time.Since(succeeded); took > corrected {
		t.Errorf("in order after %s, must be under %s", took, corrected)
	}
	w.judge()
	t.Logf("sentinel: the replica took over after %s, in order %s later, shards lost=%d",
		succeeded.Sub(died).Round(time.Millisecond), time.Since(succeeded).Round(time.Millisecond), len(w.ledger.losses))
}
