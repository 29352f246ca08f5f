package consumer

import (
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// gate tells how long the lease still lasts. The agent sets it after each step,
// before anybody hears of what the step brought; readers look at it before each
// read, and before each record is handled, because a process that wakes from a
// pause goes on with whatever it was about to do.
type gate struct{ now atomic.Pointer[leaseEnd] }

// leaseEnd is when the lease ends, on both clocks.
type leaseEnd struct {
	mono time.Time // with its monotonic reading
	wall time.Time // without
	// lease is the lease time of the group.
	lease time.Duration
}

func (g *gate) set(e leaseEnd) {
	if old := g.now.Load(); old == nil || *old != e {
		g.now.Store(&e)
	}
}

// left returns what is left of the lease, 0 or less without one.
func (g *gate) left() time.Duration {
	e := g.now.Load()
	if e == nil || e.mono.IsZero() {
		return 0
	}
	now := time.Now()
	return min(e.mono.Sub(now), e.wall.Sub(now.Round(0)))
}

// lease returns the lease time of the group.
func (g *gate) lease() time.Duration {
	if e := g.now.Load(); e != nil {
		return e.lease
	}
	return protocol.DefaultTimings().Lease
}
