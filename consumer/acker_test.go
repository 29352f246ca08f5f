package consumer_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// TestAFrozenNodeHoldsUpItsOwnShardsOnly: while one node does not answer, the
// records of shards on another are handled and acknowledged as ever.
func TestAFrozenNodeHoldsUpItsOwnShardsOnly(t *testing.T) {
	t.Parallel()
	const shards = 4
	b := newClusterBed(t, 2, 0, shards, steady)
	l := newJournal()
	var holding atomic.Bool
	var held atomic.Int32
	gate := make(chan struct{})
	cfg := b.hurried(l.handler("a", func(context.Context, consumer.Record) error {
		if holding.Load() {
			held.Add(1)
			<-gate
		}
		return nil
	}))
	// Whoever waits for the frozen node waits for long.
	cfg.Redis.ReadTimeout = patience
	c := start(t, cfg)
	for i := range 8 {
		b.add(i % shards)
	}
	l.awaitNumbers(t, 8)
	eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 8 })
	var here, there []int
	for i := range shards {
		if b.cluster.Owner(routing.Slot(key(i))) == 0 {
			there = append(there, i)
		} else {
			here = append(here, i)
		}
	}
	if len(here) == 0 || len(there) == 0 {
		t.Fatal("all shards are on one node: choose other names")
	}
	// Handlers of the frozen node's shards end while it is frozen, so that there is
	// something to acknowledge to it.
	holding.Store(true)
	for _, i := range there {
		b.add(i)
	}
	eventually(t, "the handlers run", func() bool { return int(held.Load()) == len(there) })
	frozen := b.cluster.Masters[0]
	frozen.Freeze()
	defer frozen.Thaw()
	holding.Store(false)
	close(gate)
	client := b.cluster.Masters[1].Client()
	defer func() { _ = client.Close() }()
	watch := redistest.StartWatch(t)
	for range 20 {
		watch.Reset()
		before := c.Stats().Acknowledged
		for _, i := range here {
			b.addOn(client, i)
		}
		eventually(t, "they are acknowledged", func() bool { return c.Stats().Acknowledged >= before+uint64(len(here)) })
		watch.Within(time.Second, "the acknowledgements")
	}
	if n := c.Stats().Acknowledged; n != uint64(b.next-len(there)) {
		t.Errorf("%d are acknowledged, want all but those of the frozen node: %d", n, b.next-len(there))
	}
	frozen.Thaw()
	eventually(t, "the rest is acknowledged too", func() bool { return c.Stats().Acknowledged == uint64(b.next) })
}

// TestAcknowledgementsThatWereNotSent: a pipeline that cannot log in sends nothing,
// and reports no error for its commands. What it was to acknowledge is kept.
func TestAcknowledgementsThatWereNotSent(t *testing.T) {
	b := newBed(t, 1, steady)
	ctx := context.Background()
	set := func(rules ...any) {
		t.Helper()
		if err := b.redis.Do(ctx, append([]any{"ACL", "SETUSER", "plain"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("on", ">secret", "~*", "+@all")
	l := newJournal()
	release := make(chan struct{})
	var book logbook
	cfg := b.config("a", l.handler("a", func(context.Context, consumer.Record) error {
		<-release
		return nil
	}))
	cfg.Redis.Username, cfg.Redis.Password, cfg.Logger = "plain", "secret", book.logger()
	c := start(t, cfg)
	b.add(5)
	eventually(t, "the handler runs", func() bool { return b.pending() == 5 })
	// The connections are cut, and the new ones cannot log in.
	set("resetpass", ">other")
	for _, line := range strings.Split(b.redis.ClientList(ctx).Val(), "\n") {
		if _, rest, found := strings.Cut(line, " addr="); found && strings.Contains(line, "user=plain") {
			addr, _, _ := strings.Cut(rest, " ")
			b.redis.ClientKill(ctx, addr)
		}
	}
	close(release)
	eventually(t, "an acknowledgement fails", func() bool { return len(book.find("could not be acknowledged")) > 0 })
	if n := c.Stats().Acknowledged; n != 0 {
		t.Errorf("%d records count as acknowledged", n)
	}
	set("resetpass", ">secret")
	eventually(t, "all is acknowledged", func() bool { return b.pending() == 0 })
	eventually(t, "all count as acknowledged", func() bool { return c.Stats().Acknowledged == 5 })
	if _, again := l.handled(); again != 0 {
		t.Errorf("%d records were handled twice", again)
	}
}
