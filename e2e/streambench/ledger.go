package main

import (
	"sync"
	"sync/atomic"
)

// ledger watches over the records of one run. Record i has the key i mod keys,
// so the records of a key count up in steps of keys. Its cost, a few atomic
// operations, is the same for all candidates.
type ledger struct {
	// begun counts how often each record was begun.
	begun []atomic.Uint32
	// last is, for each key, the highest record begun so far, -1 before any.
	last []atomic.Int64
	// busy counts the handlers of each key that run now.
	busy []atomic.Int32

	handled, again, disorder, foreign atomic.Int64

	first    sync.Once
	onFirst  func()
	started  atomic.Bool
	complete chan struct{}
}

// newLedger expects records records over keys keys. onFirst, if not nil, is
// called by the first handler before anything else.
func newLedger(records, keys int, onFirst func()) *ledger {
	l := &ledger{
		begun: make([]atomic.Uint32, records), last: make([]atomic.Int64, keys), busy: make([]atomic.Int32, keys),
		onFirst: onFirst, complete: make(chan struct{}),
	}
	for k := range l.last {
		l.last[k].Store(-1)
	}
	return l
}

// handle is what every candidate's handler calls; work may be nil.
func (l *ledger) handle(i int, work func()) {
	fresh := l.begin(i)
	if work != nil {
		work()
	}
	l.end(i, fresh)
}

// begin notes that record i is about to be handled, and reports whether it is
// the first time.
func (l *ledger) begin(i int) (fresh bool) {
	if !l.started.Load() {
		l.first.Do(func() {
			if l.onFirst != nil {
				l.onFirst()
			}
			l.started.Store(true)
		})
	}
	if i < 0 || i >= len(l.begun) {
		l.foreign.Add(1)
		return false
	}
	k := i % len(l.last)
	if l.busy[k].Add(1) > 1 {
		// Two records of a key at a time have no order.
		l.disorder.Add(1)
	}
	if l.begun[i].Add(1) > 1 {
		l.again.Add(1)
		return false
	}
	if last := l.last[k].Load(); last > int64(i) {
		l.disorder.Add(1)
	} else {
		l.last[k].Store(int64(i))
	}
	return true
}

// end notes that record i was handled.
func (l *ledger) end(i int, fresh bool) {
	if i < 0 || i >= len(l.begun) {
		return
	}
	l.busy[i%len(l.last)].Add(-1)
	if fresh && l.handled.Add(1) == int64(len(l.begun)) {
		close(l.complete)
	}
}

// verdict is what a run came to, besides its speed.
type verdict struct {
	// lost counts records that were not handled, again those that were handled
	// once more, disorder those that were begun before, or beside, an older one of
	// their key.
	lost, again, disorder int64
}

func (l *ledger) verdict() verdict {
	return verdict{lost: int64(len(l.begun)) - l.handled.Load(), again: l.again.Load() + l.foreign.Load(), disorder: l.disorder.Load()}
}

func (v verdict) add(o verdict) verdict {
	return verdict{lost: v.lost + o.lost, again: v.again + o.again, disorder: v.disorder + o.disorder}
}
