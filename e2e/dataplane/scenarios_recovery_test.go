package dataplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// killedHolding kills a member that holds unfinished records, under load.
func killedHolding(t *testing.T, kind faultkit.Kind) finding {
	// A member reads ahead a few dozen records for each shard.
	held, shards := size(500, 5_000), size(16, 128)
	w := newWorld(t, kind, setting{shards: shards})
	// The victim's handlers never come to an end.
	victim := w.start("victim", func(p *plan) { p.Hold, p.MaxInFlight = time.Hour, 8*held })
	w.settle(victim)
	f := w.newFeed("k", 10*shards, nil)
	f.publish(t.Context(), 3*held)
	var pending int64
	faultkit.Eventually(t, patience, "the victim holds many records", func() bool {
		var err error
		pending, _, err = w.backlog()
		return err == nil && int(pending) >= held
	})
	f.start(200)
	rescuer := w.join("rescuer")
	victim.kill()
	at := time.Now()
	w.awaitMore(1)
	first := time.Since(at)
	w.awaitDone(3 * held)
	all := time.Since(at)
	f.halt()
	w.settle(rescuer)
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = first, lease+time.Second
	found.note = fmt.Sprintf("%d pending, taken over and handled with all others %s after the kill", pending, all.Round(time.Millisecond))
	if limit := lease + 5*time.Second*time.Duration(size(busy, 1)); all > limit {
		t.Errorf("the takeover of %d records took %s, must be under %s", pending, all, limit)
	}
	faultkit.Eventually(t, patience, "the name of the dead member is gone", func() bool { return w.names("victim") == 0 })
	if found.duplicated > 0 {
		t.Errorf("%d duplicates, although the victim had finished nothing", found.duplicated)
	}
	return found
}

// names counts the shards in which Redis knows a consumer of that name.
func (w *world) names(consumer string) int {
	w.t.Helper()
	count := 0
	for shard := range w.shards {
		list, err := w.server.Client.XInfoConsumers(w.t.Context(), shardKey(shard), group).Result()
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range list {
			if c.Name == consumer {
				count++
			}
		}
	}
	return count
}

// deletedPending deletes records that are pending: the others of the same claim
// must be handled all the same.
func deletedPending(t *testing.T, kind faultkit.Kind) finding {
	const records, deleted = 10, 3
	ctx := t.Context()
	w := newWorld(t, kind, setting{shards: 1})
	victim := w.start("victim", func(p *plan) { p.Hold = time.Hour })
	w.settle(victim)
	f := w.newFeed("k", 1, nil)
	f.publish(ctx, records)
	faultkit.Eventually(t, patience, "the victim holds all records", func() bool {
		pending, _, err := w.backlog()
		return err == nil && pending == records
	})
	victim.kill()
	for n, s := range f.outcomes() {
		if n.seq < 2 || n.seq >= 2+deleted {
			continue
		}
		id := fmt.Sprintf("%d-%d", s.place.ms, s.place.n)
		if err := w.server.Client.XDel(ctx, shardKey(0), id).Err(); err != nil {
			t.Fatal(err)
		}
		w.gone[n] = true
	}
	at := time.Now()
	w.settle(w.join("rescuer"))
	w.awaitDone(records - deleted)
	took := time.Since(at)
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = took, lease+time.Second
	if got := w.done(); got != records-deleted {
		t.Errorf("%d records were handled, want %d", got, records-deleted)
	}
	return found
}

// slowHandlers runs handlers for five times what others take for dead, with a
// healthy member and another that has nothing to do.
func slowHandlers(t *testing.T, kind faultkit.Kind) finding {
	hold := 5 * lease
	w := newWorld(t, kind, setting{defaults: plan{Concurrency: 8, MaxInFlight: 1_000, BatchSize: 1_000}})
	w.settle(w.join("a"), w.join("b"))
	f := w.newFeed("k", 200, nil)
	f.order = func(n name) order {
		if n.seq == 0 && (n.key == "k-0" || n.key == "k-50" || n.key == "k-100" || n.key == "k-150") {
			return order{hold: hold}
		}
		return order{}
	}
	f.publish(t.Context(), 2_000)
	w.awaitDrained()
	found := w.find()
	if found.duplicated > 0 || len(w.account.doubles) > 0 {
		t.Errorf("%d duplicates, %d records run twice at a time: %q", found.duplicated, len(w.account.doubles), w.account.doubles)
	}
	for n, h := range w.account.records {
		if h.deliveries > 1 {
			t.Errorf("%v was delivered %d times", n, h.deliveries)
		}
	}
	found.note = fmt.Sprintf("handlers of %s beside a lease of %s", hold, lease)
	return found
}

// slowMember leaves a busy member more than it can handle: what it holds stays
// within its bound.
func slowMember(t *testing.T, kind faultkit.Kind) finding {
	const inFlight = 20
	records := size(500, 2_000)
	w := newWorld(t, kind, setting{shards: 2})
	slow := w.join("slow", func(p *plan) { p.Hold, p.Concurrency, p.MaxInFlight = 10*time.Millisecond, 2, inFlight })
	w.settle(slow)
	f := w.newFeed("k", 100, nil)
	f.publish(t.Context(), records)
	worst := 0
	faultkit.Eventually(t, patience, "all records are handled", func() bool {
		// What was read by now and is not finished a little later: never too many.
		read := w.read()
		done := w.done()
		worst = max(worst, read-done)
		return done == records
	})
	// Each shard may have one record even where others have filled the room.
	if most := inFlight + w.shards; worst > most {
		t.Errorf("%d records were in the hands of a member that may have %d", worst, most)
	}
	w.awaitDrained()
	found := w.find()
	found.note = fmt.Sprintf("at most %d in hand with MaxInFlight %d and %d shards", worst, inFlight, w.shards)
	return found
}

// deadlyRecord is a record whose handler ends the process.
func deadlyRecord(t *testing.T, kind faultkit.Kind) finding {
	const deliveries = 3
	w := newWorld(t, kind, setting{shards: 1, defaults: plan{DeadLetter: true, MaxDeliveries: deliveries, Concurrency: 4}})
	f := w.newFeed("k", 10, nil)
	f.order = func(n name) order {
		if n == (name{"k-3", 2}) {
			return order{what: "exit"}
		}
		return order{}
	}
	f.publish(t.Context(), 100)
	at, deaths := time.Now(), 0
	m := w.start("m0")
	faultkit.Eventually(t, 2*patience, "the deadly record is a dead letter and all others are handled", func() bool {
		if !m.proc.Runs() {
			// Somebody starts it again, as a supervisor would.
			m.kill()
			deaths++
			m = w.start(fmt.Sprintf("m%d", deaths))
		}
		return w.done() == 99
	})
	took := time.Since(at)
	w.awaitDrained()
	found := w.find()
	found.recovery = took
	found.note = fmt.Sprintf("%d deaths for one record, MaxDeliveries %d", deaths, deliveries)
	if found.dead != 1 || w.deadLetters()[name{"k-3", 2}] == 0 {
		t.Errorf("the dead letters are %v, want k-3/2", w.deadLetters())
	}
	if deaths < deliveries || deaths > deliveries+2 {
		t.Errorf("the record ended %d processes, want about %d", deaths, deliveries)
	}
	return found
}

// failingRecords fail for ever, or at first, and hold up nobody else's key.
func failingRecords(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{defaults: plan{DeadLetter: true, MaxDeliveries: 4, RetryFirst: 200 * time.Millisecond, RetryLast: 2 * time.Second}})
	w.settle(w.join("a"), w.join("b"))
	f := w.newFeed("k", 100, nil)
	f.order = func(n name) order {
		switch {
		case n.seq == 1 && (n.key == "k-1" || n.key == "k-2"):
			return order{what: "fail"}
		case n.seq == 2 && (n.key == "k-3" || n.key == "k-4"):
			return order{what: "stumble", times: 2}
		}
		return order{}
	}
	at := time.Now()
	f.publish(t.Context(), 1_000)
	// Of the four keys all but what stands before the failing record must wait.
	w.awaitDone(1_000 - 4*10 + 2*1 + 2*2)
	others := time.Since(at)
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = others, time.Second
	if found.dead != 2 {
		t.Errorf("%d dead letters, want 2", found.dead)
	}
	n, err := w.server.Client.XLen(t.Context(), stream+consumer.DeadLetterSuffix).Result()
	if err != nil || n != 2 {
		t.Errorf("%d entries in the dead-letter stream, want 2 (%v)", n, err)
	}
	found.note = "recovery is when all records of other keys were handled"
	return found
}
