package dataplane

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/producer"
)

// unansweredSends loses one in a hundred replies of XADD: each such record is
// reported as unknown, and nothing is stored twice or out of order.
func unansweredSends(async bool) func(*testing.T, faultkit.Kind) finding {
	return func(t *testing.T, kind faultkit.Kind) finding {
		w := newWorld(t, kind, setting{server: faultkit.Options{Proxied: true}})
		w.settle(w.join("a"), w.join("b"))
		f := w.newFeed("k", 200, nil)
		f.batch, f.async = 20, async
		for _, p := range w.server.Proxies {
			p.Lose(faultkit.Loss{Command: "XADD", Every: 100, Times: 1 << 30})
		}
		f.publish(t.Context(), size(3_000, 30_000))
		lost := 0
		for _, p := range w.server.Proxies {
			lost += p.Lost()
			p.Lose(faultkit.Loss{})
		}
		w.awaitDrained()
		found := w.find()
		if lost == 0 || found.unknown < lost {
			t.Errorf("%d replies were lost and %d outcomes are unknown: each lost reply is one at least", lost, found.unknown)
		}
		if found.duplicated > 0 {
			t.Errorf("%d records are there twice", found.duplicated)
		}
		found.note = fmt.Sprintf("%d replies lost", lost)
		return found
	}
}

// frozenServer stops the server for longer than producers wait for its answer.
func frozenServer(t *testing.T, kind faultkit.Kind) finding {
	const freeze = 1_100 * time.Millisecond
	w := newWorld(t, kind, setting{})
	w.settle(w.join("a"), w.join("b"))
	f := w.newFeed("k", 10, func(c *producer.Config) { c.Redis.ReadTimeout = 300 * time.Millisecond })
	f.batch = 10
	f.publish(t.Context(), 100)
	w.server.Pause()
	// One batch meets the freeze; the next one finds the server well.
	met := make(chan struct{})
	go func() {
		defer close(met)
		f.publish(t.Context(), 10)
	}()
	frozen := time.Now()
	faultkit.Eventually(t, patience, "a batch has met the freeze", func() bool {
		for _, s := range f.outcomes() {
			if s.outcome == unknown {
				return true
			}
		}
		return false
	})
	time.Sleep(freeze - time.Since(frozen)) // the event itself, nothing is waited for
	w.server.Resume()
	<-met
	f.publish(t.Context(), 100)
	w.awaitDrained()
	found := w.find()
	if found.duplicated > 0 {
		t.Errorf("%d records are there twice", found.duplicated)
	}
	found.note = fmt.Sprintf("frozen for %s, answers awaited for 300ms", freeze)
	return found
}

// deadServer publishes to a server that is not there: certainly not stored, and
// said so.
func deadServer(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{server: faultkit.Options{Durable: true}})
	f := w.newFeed("k", 10, func(c *producer.Config) { c.RetryFor = -1 })
	f.publish(t.Context(), 100)
	w.server.Kill()
	ctx, done := context.WithTimeout(t.Context(), 30*time.Second)
	defer done()
	for i := range 5 {
		_, err := f.producer.Publish(ctx, producer.Message{Key: "k-0", Payload: payload(1_000+i, order{}, 0)})
		var e *producer.PublishError
		switch {
		case !errors.As(err, &e):
			t.Errorf("a dead server gave %v", err)
		case e.Outcome == producer.Unknown && i > 0:
			// The first may travel on a connection of which nobody knows yet that it is broken.
			t.Errorf("a message that was not sent has an unknown outcome: %v", err)
		}
	}
	w.server.Restart()
	f.publish(t.Context(), 100)
	w.settle(w.join("a"))
	w.awaitDone(200)
	w.awaitDrained()
	return w.find()
}

// overTheCap publishes beyond a length cap while nobody reads.
func overTheCap(t *testing.T, kind faultkit.Kind) finding {
	const most = 50
	ctx := t.Context()
	w := newWorld(t, kind, setting{shards: 2})
	f := w.newFeed("k", 20, func(c *producer.Config) {
		c.MaxStreamLength, c.WhenFull, c.RetryFor = most, producer.RefuseWhenFull, -1
	})
	full := 0
	for _, n := range f.draw(2*most + 40) {
		results := f.attempt(ctx, []name{n})
		if errors.Is(results[0].Err, producer.ErrStreamFull) {
			full++
		}
		f.settle(n, results[0], true)
	}
	if full < 40 {
		t.Errorf("%d messages were refused by full streams, want 40 at least", full)
	}
	// With the other policy the oldest go, and are counted.
	dropping := w.newFeed("d", 20, func(c *producer.Config) { c.MaxStreamLength, c.WhenFull = most, producer.DropWhenFull })
	dropping.publish(ctx, 4*most)
	var dropped, unread uint64
	for _, d := range dropping.producer.Stats().Dropped {
		dropped += d.Records
		unread += d.Unread
	}
	if unread == 0 {
		t.Error("unread records were dropped and none was counted")
	}
	there := w.contents()
	for n, s := range w.published() {
		if s.outcome == stored && there[n] == 0 {
			w.gone[n] = true
		}
	}
	if int(unread) != len(w.gone) {
		t.Errorf("%d unread records were counted as dropped, %d are gone", unread, len(w.gone))
	}
	w.settle(w.join("a"))
	w.awaitDrained()
	found := w.find()
	found.note = fmt.Sprintf("%d refused, %d dropped of which %d unread", full, dropped, unread)
	return found
}
