package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
)

// TestManyRecordsMeetTheSameTrouble: each of them would try again by itself, and
// thousands are in hand. Together they cost a few commands and lines, and go on soon
// after it is over.
func TestManyRecordsMeetTheSameTrouble(t *testing.T) {
	const records = 1000
	t.Run("dead letters", func(t *testing.T) {
		t.Parallel() // it is mostly waiting
		b := newBed(t, 1, steady)
		b.do("SET", stream+consumer.DeadLetterSuffix, "in the way")
		var book logbook
		cfg := b.config("a", func(context.Context, consumer.Record) error { return consumer.Reject(errNotNow) })
		cfg.DeadLetter.Enabled, cfg.Logger = true, book.logger()
		c := start(t, cfg)
		for i := range records {
			b.addKeyed(0, fmt.Sprint(i))
		}
		eventually(t, "all are rejected", func() bool { return c.Stats().Failed >= records })
		eventually(t, "it is told", func() bool { return len(book.find("dead letters cannot be written")) > 0 })
		said := book.find("dead letters cannot be written")[0]
		if !strings.Contains(said.attrs["advice"], stream+consumer.DeadLetterSuffix) {
			t.Errorf("the trouble is told as %v", said)
		}
		b.isCheap(&book)
		b.do("DEL", stream+consumer.DeadLetterSuffix)
		watch := redistest.StartWatch(t)
		eventually(t, "all are dead letters", func() bool { return b.pending() == 0 })
		watch.Within(3*time.Second, "dead letters are written")
		if n := len(b.letters()); n != records {
			t.Errorf("%d dead letters, want %d", n, records)
		}
		eventually(t, "its end is told", func() bool { return len(book.find("dead letters are written again")) == 1 })
	})
	t.Run("deliveries", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, 1, steady)
		b.do("ACL", "SETUSER", "plain", "on", ">secret", "~*", "+@all")
		var book logbook
		var begun, failed atomic.Int32
		var seen sync.Map
		var well atomic.Bool
		cfg := b.config("a", func(_ context.Context, r consumer.Record) error {
			if begun.Add(1); !well.Load() {
				if _, again := seen.LoadOrStore(r.ID, true); !again {
					failed.Add(1)
				}
				return consumer.RetryAfter(1500*time.Millisecond, errNotNow)
			}
			return nil
		})
		cfg.Redis.Username, cfg.Redis.Password, cfg.Logger = "plain", "secret", book.logger()
		c := start(t, cfg)
		for i := range records {
			b.addKeyed(0, fmt.Sprint(i))
		}
		// The first may be tried again before the last of them is there.
		eventually(t, "all have failed once", func() bool { return failed.Load() == records && c.Stats().Failed >= records })
		b.do("ACL", "SETUSER", "plain", "-xclaim")
		well.Store(true)
		eventually(t, "it is told", func() bool { return len(book.find("cannot begin")) > 0 })
		b.isCheap(&book)
		before := begun.Load()
		b.do("ACL", "SETUSER", "plain", "+xclaim")
		watch := redistest.StartWatch(t)
		eventually(t, "all are handled", func() bool { return b.pending() == 0 })
		watch.Within(4*time.Second, "handlers begin")
		if n := begun.Load() - before; n > records {
			t.Errorf("handlers began %d times more, want %d at most", n, records)
		}
	})
}

// isCheap fails the test if a shard in trouble costs much.
func (b *bed) isCheap(book *logbook) {
	b.tb.Helper()
	b.awaitCalm(20)
	begin := time.Now()
	book.reset()
	if rate := b.rate(2 * time.Second); rate > 20 {
		b.tb.Errorf("%.0f commands a second", rate)
	}
	said, took := len(book.find("")), time.Since(begin)
	if said > int(took.Seconds()) {
		b.tb.Errorf("%d lines in %s", said, took)
	}
}

// TestARefusedAcknowledgementHoldsUpItsShardOnly: the others of the server go on.
func TestARefusedAcknowledgementHoldsUpItsShardOnly(t *testing.T) {
	const records = 20_000
	b := newBed(t, 2, steady)
	begun, release := make(chan struct{}), make(chan struct{})
	cfg := b.config("a", func(_ context.Context, r consumer.Record) error {
		if r.Shard == 0 {
			close(begun)
			<-release
		}
		return nil
	})
	c := start(t, cfg)
	b.addKeyed(0, "k")
	receive(t, begun)
	ctx := context.Background()
	swap := func(from, to string, more ...any) {
		t.Helper()
		// At once, or it is a stream that is gone.
		if _, err := b.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Rename(ctx, from, to)
			if len(more) > 0 {
				p.Do(ctx, more...)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	swap(key(0), "elsewhere", "SET", key(0), "x")
	close(release)
	eventually(t, "one is handled and not acknowledged", func() bool {
		for _, s := range c.Health().Shards {
			if s.Shard.Index == 0 && s.InHand == 0 && s.Unacknowledged == 1 && s.Trouble.Attempts > 3 {
				return true
			}
		}
		return false
	})
	_, err := b.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range records {
			p.XAdd(ctx, &redis.XAddArgs{Stream: key(1), Values: []string{consumer.KeyField, fmt.Sprint(i), "n", "1"}})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	watch := redistest.StartWatch(t)
	eventually(t, "the other shard's are acknowledged", func() bool { return c.Stats().Acknowledged >= records })
	// With a pause after every batch of 500 it would take forty times most of a second.
	watch.Within(12*time.Second, "acknowledging")
	swap("elsewhere", key(0))
	eventually(t, "it is acknowledged too", func() bool { return b.pending() == 0 })
}

// TestOrderByPanics: for every record. Each is handled, and the log can be read.
func TestOrderByPanics(t *testing.T) {
	b := newBed(t, 1, steady)
	var book logbook
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.OrderBy = func(consumer.Record) string { panic("no key") }
	cfg.Logger = book.logger()
	start(t, cfg)
	b.add(500)
	l.await(t, 500)
	l.clean(t)
	if said := book.find("OrderBy panicked"); len(said) < 1 || len(said) > 10 || !strings.Contains(said[0].attrs["stack"], "TestOrderByPanics") {
		t.Errorf("%d lines", len(said))
	}
}

// TestAHandlerThatEndsItsGoroutineFails: like one that returns an error.
func TestAHandlerThatEndsItsGoroutineFails(t *testing.T) {
	b := newBed(t, 1, steady)
	var calls atomic.Int32
	var book logbook
	cfg := b.config("a", func(_ context.Context, r consumer.Record) error {
		if r.Key == "bad" {
			calls.Add(1)
			runtime.Goexit()
		}
		return nil
	})
	cfg.DeadLetter.Enabled, cfg.Logger = true, book.logger()
	cfg.Retry = consumer.Retry{First: time.Millisecond, Last: time.Millisecond, MaxDeliveries: 3}
	c := start(t, cfg)
	b.addKeyed(0, "bad")
	b.addKeyed(0, "bad")
	b.addKeyed(0, "good")
	eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 3 })
	if n := calls.Load(); n != 6 {
		t.Errorf("the handler was called %d times for two records, want 6", n)
	}
	letters := b.letters()
	if len(letters) != 2 || !strings.Contains(fmt.Sprint(letters[0].Values[consumer.DeadLetterError]), "goroutine") {
		t.Errorf("dead letters %v", letters)
	}
	if n := len(book.find("the handler failed")); n == 0 {
		t.Error("the log does not tell")
	}
}

// TestRedisFallsSilentAsItCloses: Run returns in time whatever was being said to
// Redis for a record, and blames no handler.
func TestRedisFallsSilentAsItCloses(t *testing.T) {
	for name, err := range map[string]error{
		"rejected": consumer.Reject(errNotNow), "again": consumer.RetryAfter(time.Millisecond, errNotNow), "handled": nil, "suspect": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it is mostly waiting
			b := newBed(t, 1, steady)
			ctx := context.Background()
			id := b.addKeyed(0, "k")
			if name == "suspect" {
				b.redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "gone", Streams: []string{key(0), ">"}})
				b.do("XCLAIM", key(0), group, "gone", 0, id, "RETRYCOUNT", 2)
			}
			proxy := redistest.NewProxy(t, b.server.Addr)
			begun, release := make(chan struct{}), make(chan struct{})
			cfg := b.hurried("a", func(context.Context, consumer.Record) error {
				close(begun)
				<-release
				return err
			})
			cfg.Redis.Addrs = []string{proxy.Addr}
			cfg.DeadLetter.Enabled, cfg.ShutdownTimeout = true, 1500*time.Millisecond
			c := start(t, cfg)
			receive(t, begun)
			proxy.Freeze()
			defer proxy.Thaw()
			close(release)
			eventually(t, "the handler has returned", func() bool { return c.Stats().Handled+c.Stats().Failed == 1 })
			watch := redistest.StartWatch(t)
			c.end()
			receive(t, c.ended)
			if c.err != nil {
				t.Errorf("Run returned %v", c.err)
			}
			watch.Within(cfg.ShutdownTimeout+500*time.Millisecond, "the end")
		})
	}
}

// TestRedisFallsSilentUnderASweep: of a shard that has no connection of its own, so
// that nothing can be cut off for it alone. Who is in a hurry does not wait for it, and
// no handler is blamed.
func TestRedisFallsSilentUnderASweep(t *testing.T) {
	t.Parallel() // it is mostly waiting
	b := newBed(t, 1, steady)
	proxy := redistest.NewProxy(t, b.server.Addr)
	cfg := b.hurried("a", func(context.Context, consumer.Record) error { return nil })
	cfg.Redis.Addrs, cfg.MaxBlockedReaders = []string{proxy.Addr}, -1
	// Who waits for an answer waits for longer than a machine stands still.
	cfg.Redis.ReadTimeout, cfg.ShutdownTimeout = 10*time.Second, patience
	c := start(t, cfg)
	b.add(10)
	eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 10 })
	proxy.Freeze()
	defer proxy.Thaw()
	// What was read may have been lost, so what is pending is looked at.
	b.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	eventually(t, "it is looked at", func() bool {
		shards := c.Health().Shards
		return len(shards) == 1 && shards[0].State == consumer.ShardRecovering
	})
	hurry, done := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer done()
	watch := redistest.StartWatch(t)
	// A test that stands still here comes when all is over.
	if err := c.Close(hurry); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close returned %v", err)
	}
	receive(t, c.ended)
	if c.err != nil {
		t.Errorf("Run returned %v", c.err)
	}
	watch.Within(time.Second, "the end")
}

// TestTheSameIDsInAnotherStream: a stream is deleted while a record of it is handled,
// and another one has records with its ids. They are handled, and not taken for those
// that are in hand or have just been handled.
func TestTheSameIDsInAnotherStream(t *testing.T) {
	b := newBed(t, 1, steady)
	ctx := context.Background()
	begun, release := make(chan struct{}, 10), make(chan struct{})
	fresh := make(chan string, 10)
	c := start(t, b.config("a", func(_ context.Context, r consumer.Record) error {
		if r.Values["in"] == "old" {
			begun <- struct{}{}
			<-release
			return nil
		}
		fresh <- r.ID
		return nil
	}))
	fill := func(in string) {
		t.Helper()
		for i := range 3 {
			if err := b.redis.XAdd(ctx, &redis.XAddArgs{Stream: key(0), ID: fmt.Sprintf("1-%d", i+1), Values: []string{"in", in}}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill("old")
	receive(t, begun)
	b.do("DEL", key(0))
	eventually(t, "it is noticed", func() bool { return !c.Health().Healthy() })
	// First the group, or the consumer makes it.
	b.do("XGROUP", "CREATE", key(0), group, "0", "MKSTREAM")
	fill("new")
	eventually(t, "they are delivered", func() bool { return b.pending() == 3 })
	close(release)
	for i := range 3 {
		if id := receive(t, fresh); id != fmt.Sprintf("1-%d", i+1) {
			t.Errorf("%s was handled", id)
		}
	}
	eventually(t, "all is acknowledged", func() bool { return b.pending() == 0 })
}
