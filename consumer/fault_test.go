package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// TestADroppedReplyLosesNothing: the server delivers, and the reply is lost on
// the way. What it carried is found again at once, and in order.
func TestADroppedReplyLosesNothing(t *testing.T) {
	b := newBed(t, 1, steady)
	proxy := redistest.NewProxy(t, b.server.Addr)
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.Redis.Addrs = []string{proxy.Addr}
	cfg.BatchSize = 10
	c := start(t, cfg)
	b.add(10)
	l.await(t, 10)
	watch := redistest.StartWatch(t)
	for round := range 10 {
		proxy.DropReplies(1, "xreadgroup")
		watch.Reset()
		n := b.next
		eventually(t, "a reply is dropped", func() bool {
			if proxy.Dropped() {
				return true
			}
			// The read that is blocked already was sent before; the next is hit.
			b.add(3)
			return false
		})
		l.await(t, b.next)
		watch.Within(2*time.Second, fmt.Sprintf("round %d: %d records", round, b.next-n))
	}
	l.clean(t)
	distinct, again := l.handled()
	if distinct != b.next || again != 0 {
		t.Errorf("%d of %d records were handled, %d of them twice", distinct, b.next, again)
	}
	if c.Stats().Recovered == 0 {
		t.Error("nothing was recovered, so nothing was lost: the test shows nothing")
	}
	c.stop()
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
}

// TestDroppedAcknowledgements: XACK is sent again, and no record twice.
func TestDroppedAcknowledgements(t *testing.T) {
	b := newBed(t, 1, steady)
	proxy := redistest.NewProxy(t, b.server.Addr)
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.Redis.Addrs = []string{proxy.Addr}
	c := start(t, cfg)
	// Not before: the look at the permissions acknowledges too.
	isRead(t, c, 1)
	proxy.DropReplies(2, "xack")
	b.add(50)
	l.await(t, 50)
	eventually(t, "two replies are dropped", proxy.Dropped)
	b.add(50)
	l.await(t, 100)
	c.stop()
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
	if _, again := l.handled(); again != 0 {
		t.Errorf("%d records were handled twice", again)
	}
}

// TestAFrozenServerHoldsNobodyUp: Redis does not answer any more, and no
// connection breaks. Run returns in time all the same.
func TestAFrozenServerHoldsNobodyUp(t *testing.T) {
	b := newBed(t, 3, steady)
	proxy := redistest.NewProxy(t, b.server.Addr)
	l := newJournal()
	cfg := b.hurried("a", l.handler("a", nil))
	// A stop that waits for an answer waits for long.
	cfg.Redis.ReadTimeout, cfg.ShutdownTimeout = patience, patience
	cfg.Redis.Addrs = []string{proxy.Addr}
	c := start(t, cfg)
	b.add(30)
	l.await(t, 30)
	eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 30 })
	proxy.Freeze()
	watch := redistest.StartWatch(t)
	c.stop()
	watch.Within(2*time.Second, "the stop")
	if c.err != nil {
		t.Errorf("Run returned %v", c.err)
	}
}

// TestRedisAwayAndBack: the server dies and comes back with what it had saved.
func TestRedisAwayAndBack(t *testing.T) {
	b := newBed(t, 2, steady)
	if err := b.redis.ConfigSet(context.Background(), "appendonly", "yes").Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.redis.ConfigSet(context.Background(), "appendfsync", "always").Err(); err != nil {
		t.Fatal(err)
	}
	l := newJournal()
	c := start(t, b.config("a", l.handler("a", nil)))
	b.add(100)
	l.await(t, 100)
	eventually(t, "the log file is written", func() bool {
		return strings.Contains(b.redis.Info(context.Background(), "persistence").Val(), "aof_rewrite_in_progress:0")
	})
	b.server.Kill()
	eventually(t, "several attempts are in vain", func() bool {
		shards := c.Health().Shards
		return len(shards) == 2 && shards[0].Trouble.Attempts > 2 && shards[1].Trouble.Attempts > 2
	})
	b.server.Restart("--appendonly", "yes", "--appendfsync", "always")
	watch := redistest.StartWatch(t)
	b.add(100)
	l.await(t, 200)
	watch.Within(2*time.Second, "reading goes on")
	l.clean(t)
}

// TestTheGroupIsDestroyed: the group alone is lost. It is made again where this
// owner had come to, so that the old records are not handled again.
func TestTheGroupIsDestroyed(t *testing.T) {
	b := newBed(t, 2, steady)
	// One shard has records that were handled by an earlier owner only.
	ctx := context.Background()
	for i := range 100 {
		if err := b.redis.XAdd(ctx, &redis.XAddArgs{Stream: key(1), Values: []string{"n", strconv.Itoa(-i)}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	read, err := b.redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "before", Streams: []string{key(1), ">"}, Count: 100}).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range read[0].Messages {
		if err := b.redis.XAck(ctx, key(1), group, m.ID).Err(); err != nil {
			t.Fatal(err)
		}
	}
	l := newJournal()
	c := start(t, b.config("a", l.handler("a", nil)))
	for i := range 100 {
		if err := b.redis.XAdd(ctx, &redis.XAddArgs{Stream: key(0), Values: []string{"n", strconv.Itoa(i)}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	l.await(t, 100)
	eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 100 })
	// Of the other shard it is to know as well where the group was.
	isRead(t, c, 2)
	for i := range 2 {
		if err := b.redis.XGroupDestroy(ctx, key(i), group).Err(); err != nil {
			t.Fatal(err)
		}
	}
	b.add(100)
	l.await(t, 200)
	eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 200 })
	l.clean(t)
	if distinct, again := l.handled(); distinct != 200 || again != 0 {
		t.Errorf("%d records were handled, %d of them twice, want 200 and none", distinct, again)
	}
}

// TestTheStreamIsGone: a consumer never creates a stream. It tells the
// coordinator, asks a few times a second, and goes on when the stream is back.
func TestTheStreamIsGone(t *testing.T) {
	b := newBed(t, 1, steady)
	l := newJournal()
	start(t, b.config("a", l.handler("a", nil)))
	b.add(10)
	l.await(t, 10)
	var told atomic.Bool
	b.coord.watch(func(q *protocol.Heartbeat, _ *protocol.HeartbeatResponse) {
		for _, row := range q.ShardProgress {
			if row.Missing {
				told.Store(true)
			}
		}
	})
	ctx := context.Background()
	if err := b.redis.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the coordinator is told", told.Load)
	b.awaitCalm(20)
	if rate := b.rate(time.Second); rate > 20 {
		t.Errorf("%.0f commands a second for a shard that is not there", rate)
	}
	if n := b.redis.Exists(ctx, key(0)).Val(); n != 0 {
		t.Error("the consumer has created the stream")
	}
	b.provision()
	b.add(10)
	watch := redistest.StartWatch(t)
	l.await(t, 20)
	watch.Within(2*time.Second, "reading goes on")
	told.Store(false)
	b.add(10)
	l.await(t, 30)
}

// TestAnotherStreamUnderTheSameKey: the stream was deleted and made again, and
// its ids begin anew. What they were before does not count.
func TestAnotherStreamUnderTheSameKey(t *testing.T) {
	b := newBed(t, 1, steady)
	l := newJournal()
	start(t, b.config("a", l.handler("a", nil)))
	b.add(3)
	l.await(t, 3)
	ctx := context.Background()
	_, err := b.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Del(ctx, key(0))
		p.XAdd(ctx, &redis.XAddArgs{Stream: key(0), ID: "5-1", Values: []string{"n", "new"}})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record of the new stream is handled", func() bool {
		for _, r := range l.all() {
			if r.ID == "5-1" {
				return true
			}
		}
		return false
	})
}

// TestAcknowledgementsAreCollected: far fewer commands than records.
func TestAcknowledgementsAreCollected(t *testing.T) {
	const shards, every = 4, 200 * time.Millisecond
	b := newBed(t, shards, steady)
	b.add(4000)
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.AckInterval = every
	begin := time.Now()
	c := start(t, cfg)
	l.await(t, 4000)
	c.stop()
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
	stats := b.redis.InfoMap(context.Background(), "commandstats").Item("Commandstats", "cmdstat_xack")
	calls, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
	// One for each shard in an interval, and for what is not to wait: full batches, and
	// the last ones.
	most := shards * (int(time.Since(begin)/every) + 16)
	if n, err := strconv.Atoi(calls); err != nil || n > most {
		t.Errorf("4000 records took %q, want %d at most", stats, most)
	}
}

// TestWithoutClientUnblock: a user who may not call CLIENT reads with short
// blocks, and stops in time.
func TestWithoutClientUnblock(t *testing.T) {
	b := newBed(t, 2, steady)
	if err := b.redis.Do(context.Background(), "ACL", "SETUSER", "plain", "on", ">secret", "~*", "+@all", "-client").Err(); err != nil {
		t.Fatal(err)
	}
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.Redis.Username, cfg.Redis.Password = "plain", "secret"
	c := start(t, cfg)
	b.add(20)
	l.await(t, 20)
	eventually(t, "a read blocks", func() bool {
		return strings.Contains(b.redis.Info(context.Background(), "clients").Val(), "blocked_clients:2")
	})
	watch := redistest.StartWatch(t)
	c.stop()
	watch.Within(time.Second, "the stop")
}

// TestRedisRefuses: wrong credentials are an error that is tried again, not a
// crash and not a busy loop.
func TestRedisRefuses(t *testing.T) {
	b := newBed(t, 1, steady)
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.Redis.Username, cfg.Redis.Password = "nobody", "wrong"
	c := start(t, cfg)
	b.add(1)
	ctx := context.Background()
	if err := b.redis.Do(ctx, "ACL", "SETUSER", "nobody", "on", ">wrong", "~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	l.await(t, 1)
	c.stop()
}

// TestHandlersSeeTheCauseOfTheirContext: and what one says that has been cut short,
// while the shard is still its own, counts.
func TestHandlersSeeTheCauseOfTheirContext(t *testing.T) {
	b := newBed(t, 1, steady)
	b.add(1)
	got := make(chan error, 1)
	var begun atomic.Bool
	var book logbook
	cfg := b.config("a", func(ctx context.Context, _ consumer.Record) error {
		begun.Store(true)
		<-ctx.Done()
		got <- context.Cause(ctx)
		return nil
	})
	cfg.ShutdownTimeout, cfg.Logger = time.Second, book.logger()
	c := start(t, cfg)
	eventually(t, "the handler runs", begun.Load)
	watch := redistest.StartWatch(t)
	c.end()
	if cause := receive(t, got); !errors.Is(cause, consumer.ErrShutdownTimeout) {
		t.Errorf("the cause is %v", cause)
	}
	c.stop()
	// It said that all went well, and the shard was still its own. There is a tenth of the
	// time left to say so to Redis; a machine that stands still that long misses it.
	if n := b.pending(); n != 0 && (watch.Stood() == 0 || len(book.find("before the last acknowledgements")) == 0) {
		t.Errorf("%d records are pending", n)
	}
}
