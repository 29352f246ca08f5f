package dataplane

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// closeRace closes consumers while a record is on its way to their blocked reads,
// sooner and later. None may be left in the hands of somebody who is gone.
func closeRace(t *testing.T, kind faultkit.Kind) finding {
	const (
		most = 200 * time.Millisecond
		skew = 2 * time.Millisecond
	)
	ctx := t.Context()
	w := newWorld(t, kind, setting{shards: 1})
	f := w.newFeed("k", 10, nil)
	f.batch = 1
	f.publish(ctx, 1)
	chance := rand.New(rand.NewPCG(7, 7))
	rounds := size(60, 1_000)
	var stops []time.Duration
	var waits []time.Duration
	for round := range rounds {
		p := w.plan(fmt.Sprintf("m%d", round), nil)
		notes, err := faultkit.OpenJournal(p.Journal)
		if err != nil {
			t.Fatal(err)
		}
		h := &handling{plan: p, journal: journal{notes}, attempts: map[string]int{}}
		c, err := consumer.New(p.config(h.handle, slog.New(slog.DiscardHandler)))
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Run(context.WithoutCancel(ctx)) }()
		// It gets what the one before it has left, and waits for more.
		began := time.Now()
		faultkit.Eventually(t, patience, p.Member+" holds the shard", func() bool { return len(w.coordinator.held(stream, group)[p.Member]) == 1 })
		w.awaitDrained()
		waits = append(waits, time.Since(began))
		fed := make(chan struct{})
		early := time.Duration(chance.Int64N(int64(skew)))
		late := time.Duration(chance.Int64N(int64(skew)))
		go func() {
			defer close(fed)
			time.Sleep(early)
			f.publish(ctx, 1)
		}()
		time.Sleep(late)
		began = time.Now()
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		stops = append(stops, time.Since(began))
		<-fed
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := notes.Close(); err != nil {
			t.Fatal(err)
		}
	}
	last := w.join("last")
	w.settle(last)
	w.awaitDrained()
	found := w.find()
	slices.Sort(stops)
	// Of few stops the slowest ones say what the machine did meanwhile.
	share := size(90, 99)
	found.recovery, found.bound, found.many = stops[len(stops)*share/100], most, true
	slices.Sort(waits)
	longest := waits[len(waits)-1]
	found.note = fmt.Sprintf("%d rounds, stop p50 %s, p%d %s; the next one had all that was left %s after its start at worst",
		rounds, stops[len(stops)/2].Round(time.Microsecond), share, found.recovery.Round(time.Microsecond), longest.Round(time.Millisecond))
	// A record that is stranded waits for a lease at least.
	if longest >= lease {
		t.Errorf("a record was stranded for %s", longest)
	}
	if found.duplicated > 0 {
		t.Errorf("%d records were handled twice although every consumer closed in order", found.duplicated)
	}
	return found
}

// manyShards reads 64 shards with a user's small pool: acknowledgements must not
// queue behind reads that wait.
func manyShards(t *testing.T, kind faultkit.Kind) finding {
	const most = 50 * time.Millisecond
	w := newWorld(t, kind, setting{shards: 64, defaults: plan{PoolSize: 10}})
	a := w.join("a")
	w.settle(a)
	f := w.newFeed("k", 640, nil)
	f.batch = 64
	var rounds []time.Duration
	acks := 0
	for range size(20, 100) {
		a.acks.reset()
		f.publish(t.Context(), f.batch)
		w.awaitDone(f.count())
		w.awaitDrained() // all are acknowledged
		rounds = append(rounds, a.acks.percentile(99))
		acks += a.acks.count()
	}
	found := w.find()
	slices.Sort(rounds)
	found.recovery, found.bound, found.many = rounds[len(rounds)*size(50, 90)/100], most, true
	found.note = fmt.Sprintf("64 shards, PoolSize 10; recovery is the p99 of the acknowledgements of a round, in %d of 100; there were %d", size(50, 90), acks)
	return found
}

// lostReplies loses replies of reads that had records in them. The members' plans
// begin with defaults.
func lostReplies(defaults plan) func(*testing.T, faultkit.Kind) finding {
	return func(t *testing.T, kind faultkit.Kind) finding { return loseReplies(t, kind, defaults) }
}

func loseReplies(t *testing.T, kind faultkit.Kind, defaults plan) finding {
	t.Helper()
	const most = 2 * time.Second
	w := newWorld(t, kind, setting{server: faultkit.Options{Proxied: true}, defaults: defaults})
	w.settle(w.join("a"), w.join("b"))
	losses := size(24, 100)
	each := (losses + len(w.server.Proxies) - 1) / len(w.server.Proxies)
	f := w.newFeed("k", 1_000, nil)
	f.start(size(3_000, 5_000))
	w.awaitMore(100)
	for _, p := range w.server.Proxies {
		p.Lose(faultkit.Loss{Command: "XREADGROUP", Every: 10, Times: each})
	}
	lost := func() int {
		n := 0
		for _, p := range w.server.Proxies {
			n += p.Lost()
		}
		return n
	}
	least := size(10_000, 100_000)
	faultkit.Eventually(t, 2*patience, "all replies are lost and all records published", func() bool {
		return lost() >= each*busyProxies(w) && f.count() >= least
	})
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = w.worstDelay(), most
	found.note = fmt.Sprintf("%d replies lost; recovery is the worst delay of a record", lost())
	return found
}

// busyProxies counts the proxies through which a shard is read: in a cluster a
// master may have none.
func busyProxies(w *world) int {
	owners := map[*faultkit.Node]bool{}
	for shard := range w.shards {
		owners[w.server.Owner(shardKey(shard))] = true
	}
	return len(owners)
}

// cutConnections breaks all connections of members and producers, again and again.
func cutConnections(t *testing.T, kind faultkit.Kind) finding {
	const (
		pause = 250 * time.Millisecond
		most  = 2 * time.Second
	)
	w := newWorld(t, kind, setting{server: faultkit.Options{Proxied: true}})
	w.settle(w.join("a"), w.join("b"))
	f := w.newFeed("k", 200, nil)
	f.start(1_000)
	w.awaitMore(100)
	cuts := size(12, 100)
	for range cuts {
		for _, p := range w.server.Proxies {
			p.Cut()
		}
		time.Sleep(pause) // the rhythm of the fault
	}
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = w.worstDelay(), most
	found.note = fmt.Sprintf("%d times; recovery is the worst delay of a record", cuts)
	return found
}

// badRecords hands out what makes other consumers give up: a panic, an entry that
// is none of ours, and a restart of the server.
func badRecords(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{
		server:   faultkit.Options{Durable: true},
		defaults: plan{DeadLetter: true, RetryFirst: 20 * time.Millisecond, RetryLast: 100 * time.Millisecond},
	})
	w.settle(w.join("a"), w.join("b"))
	f := w.newFeed("k", 100, nil)
	f.order = func(n name) order {
		if n.seq == 3 {
			return order{what: "panic", times: 1}
		}
		return order{}
	}
	f.publish(t.Context(), 1_000)
	for shard := range w.shards {
		w.addForeign(shard, "what", "no record of ours")
	}
	w.awaitDone(1_000)
	w.server.Kill()
	w.server.Restart()
	f.start(200)
	took := w.recovery(time.Now())
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = took, resume
	dead, err := w.server.Client.XLen(t.Context(), stream+consumer.DeadLetterSuffix).Result()
	if err != nil || int(dead) < w.shards {
		t.Errorf("%d dead letters, want one for each of %d foreign entries (%v)", dead, w.shards, err)
	}
	found.note = fmt.Sprintf("%d failures and panics, %d foreign entries", w.account.failures, w.shards)
	return found
}
