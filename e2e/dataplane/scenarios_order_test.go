package dataplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// rebalances moves shards to and fro while handlers take their time and fail.
func rebalances(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{shards: 16, defaults: plan{
		Spread: 2 * time.Millisecond, FailOneIn: 50, RetryFirst: 5 * time.Millisecond, RetryLast: 50 * time.Millisecond,
	}})
	count := size(4, 8)
	var members []*member
	for i := range count - 1 {
		members = append(members, w.start(fmt.Sprintf("m%d", i), func(p *plan) { p.Seed = uint64(i) }))
	}
	w.settle(members...)
	f := w.newFeed("k", 1_000, nil)
	f.row = 5 // so that records of one key are in hand together
	f.start(size(2_000, 4_000))
	total := size(8_000, 100_000)
	// A member joins, one leaves, one joins again.
	for i, change := range []func(){
		func() { members = append(members, w.start("late")) },
		func() { members[0].stop(); members = members[1:] },
		func() { members = append(members, w.start("later")) },
	} {
		w.awaitDone(total * (i + 1) / 5)
		change()
		w.settle(members...)
	}
	w.awaitDone(total)
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.note = fmt.Sprintf("%d members, 3 rebalances, %d failures and other attempts", count, w.account.failures)
	if found.duplicated > 0 {
		t.Errorf("%d duplicates although every hand-over was in order", found.duplicated)
	}
	return found
}

// lanes handles records of many keys of one shard at the same time.
func lanes(t *testing.T, kind faultkit.Kind) finding {
	const (
		hold    = 5 * time.Millisecond
		records = 640
		keys    = 32
		// together is how many handlers there may be at a time. The first records of the
		// keys are handled only when so many of them are in hand.
		together = 16
	)
	w := newWorld(t, kind, setting{shards: 1, defaults: plan{Hold: hold, Concurrency: together}})
	f := w.newFeed("k", keys, nil)
	f.order = func(n name) order {
		if n.seq == 0 {
			return order{what: "meet", times: together}
		}
		return order{}
	}
	f.publish(t.Context(), records)
	w.join("a")
	w.awaitDone(1)
	began := time.Now()
	w.awaitDone(records)
	took := time.Since(began)
	w.awaitDrained()
	found := w.find()
	found.recovery = took
	if long() {
		found.bound = records * hold / 4
	}
	found.note = fmt.Sprintf("%d handlers at a time; one lane would take %s", together, records*hold)
	return found
}

// frozenMember stops a member for longer than its lease and lets it go on.
func frozenMember(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{defaults: plan{Spread: 4 * time.Millisecond}})
	frozen, other := w.start("frozen"), w.start("other")
	w.settle(frozen, other)
	f := w.newFeed("k", 200, nil)
	f.start(500)
	w.awaitMore(200)
	at := time.Now()
	frozen.proc.Pause()
	took := w.recovery(at)
	w.settle(other)
	w.awaitMore(200)
	frozen.proc.Resume()
	w.settle(frozen, other)
	w.awaitMore(500)
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = took, lease+time.Second
	return found
}
