package engine

import (
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// While nothing is granted, joins wait until none has arrived for joinQuiet, at
// most joinMax after the first, so that a group that starts up hands each shard
// out once.
const (
	joinQuiet = 50 * time.Millisecond
	joinMax   = 150 * time.Millisecond
)

// burst times the joins that are waited for.
type burst struct {
	first, last time.Duration
	// waiting is how many requests at the head of the queue are known to be joins
	// that wait, so that a long burst is not gone through with each arrival.
	waiting int
}

func (b *burst) due() time.Duration { return min(b.last+joinQuiet, b.first+joinMax) }

func isJoin(w waiting) bool { return w.q.MemberEpoch == protocol.EpochJoin }

// joinsWait reports whether joins are to be collected: nothing is granted yet,
// and another one may be on its way.
func (e *Engine) joinsWait(in Input) bool {
	return e.view != nil && !e.view.Granted() && in.Mono < e.burst.due()
}

// take moves what can be worked on from the queue to the batch: everything,
// but joins only when the burst that they are part of is over.
func (e *Engine) take(in Input) {
	others := func(w waiting) bool { return !isJoin(w) }
	if e.joinsWait(in) && !slices.ContainsFunc(e.queue[e.burst.waiting:], others) {
		e.burst.waiting = len(e.queue)
		return
	}
	e.batch, e.queue, e.burst.waiting = e.queue, nil, 0
	e.deferJoins(in)
}

// joinTheBurst takes joins along that have come since the batch was taken: its
// group had to be read or even created first, and what waited for that is one
// burst.
func (e *Engine) joinTheBurst() {
	if !e.view.Granted() && slices.ContainsFunc(e.batch, isJoin) {
		e.batch, e.queue, e.burst.waiting = append(e.batch, e.queue...), nil, 0
	}
}

// deferJoins puts joins back that wait for others, unless the process has sent
// its goodbye since: that must not be answered before the join.
func (e *Engine) deferJoins(in Input) {
	if !e.joinsWait(in) {
		return
	}
	var now, later []waiting
	left := map[string]bool{}
	for _, w := range slices.Backward(e.batch) {
		life := group.LifeKey(w.q.MemberID, w.q.Incarnation)
		if isJoin(w) && !left[life] {
			later = append(later, w)
			continue
		}
		if w.q.MemberEpoch == protocol.EpochLeave {
			left[life] = true
		}
		now = append(now, w)
	}
	slices.Reverse(now)
	slices.Reverse(later)
	e.batch, e.queue, e.burst.waiting = now, append(later, e.queue...), len(later)
}
