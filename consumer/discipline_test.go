package consumer_test

import (
	"context"
	"math/bits"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// commands counts the commands that the server was sent, refused ones too, but for
// the look itself.
func (b *bed) commands() (n int) {
	b.tb.Helper()
	text, err := b.redis.Info(context.Background(), "commandstats").Result()
	if err != nil {
		b.tb.Fatal(err)
	}
	for _, l := range strings.Split(text, "\n") {
		name, stats, found := strings.Cut(strings.TrimSpace(l), ":")
		// The watch asks once for a node, not for a shard.
		if !found || name == "cmdstat_info" || name == "cmdstat_ping" {
			continue
		}
		for _, field := range strings.Split(stats, ",") {
			if what, value, _ := strings.Cut(field, "="); what == "calls" || what == "rejected_calls" {
				i, _ := strconv.Atoi(value)
				n += i
			}
		}
	}
	return n
}

// rate returns how many commands a second the server is sent, measured over d. The
// time is that around both looks, so a look that is held up makes it no higher.
func (b *bed) rate(d time.Duration) float64 {
	b.tb.Helper()
	begin := time.Now()
	before := b.commands()
	time.Sleep(d)
	return float64(b.commands()-before) / time.Since(begin).Seconds()
}

// mostLines is how many lines about one trouble there may be since it began, and at
// most one more: they come at distances that double.
func mostLines(began time.Time) int { return bits.Len(uint(time.Since(began).Seconds())) + 2 }

// awaitCalm waits until the pauses between attempts have grown, so that the server is
// sent no more than so many commands a second.
func (b *bed) awaitCalm(perSecond float64) {
	b.tb.Helper()
	eventually(b.tb, "the pauses have grown", func() bool { return b.rate(500*time.Millisecond) <= perSecond })
}

// do sends one command.
func (b *bed) do(args ...any) {
	b.tb.Helper()
	if err := b.redis.Do(context.Background(), args...).Err(); err != nil {
		b.tb.Fatalf("%v: %v", args, err)
	}
}

// TestWhatStaysBroken: whatever keeps a shard from being read for long costs few
// commands and few lines, is there to be seen, and is over as soon as its cause is.
func TestWhatStaysBroken(t *testing.T) {
	acl := func(b *bed, rules ...any) { b.do(append([]any{"ACL", "SETUSER", "plain"}, rules...)...) }
	cut := func(b *bed) { b.do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") }
	for _, tc := range []struct {
		name          string
		breaks, mends func(b *bed)
		kind          string
		advice        string
		// polled: without a connection of its own too, where it comes about otherwise.
		polled bool
	}{
		{
			"the user may not read", func(b *bed) { acl(b, "-xreadgroup") }, func(b *bed) { acl(b, "+xreadgroup") },
			"no-permission", "ACL SETUSER plain +xreadgroup", true,
		},
		{
			"the user may not look at what is pending", func(b *bed) { acl(b, "-xpending", "-xreadgroup") }, func(b *bed) { acl(b, "+xpending", "+xreadgroup") },
			"no-permission", "ACL SETUSER plain +x", false,
		},
		{
			"the stream is gone", func(b *bed) { b.do("DEL", key(0), key(1)) }, func(b *bed) { b.provision() },
			"stream-missing", "coordinator", true,
		},
		{
			"something else is there", func(b *bed) {
				b.do("SET", key(0), "x")
				b.do("SET", key(1), "x")
			}, func(b *bed) {
				b.do("DEL", key(0), key(1))
				b.provision()
			}, "not-a-stream", "move it away", false,
		},
		{"the password is another", func(b *bed) {
			acl(b, "resetpass", ">other")
			cut(b)
		}, func(b *bed) { acl(b, "resetpass", ">secret") }, "login-refused", "Redis.Password", true},
		{"no connection is to be had", func(b *bed) {
			b.do("CONFIG", "SET", "maxclients", 1)
			cut(b)
		}, func(b *bed) { b.do("CONFIG", "SET", "maxclients", 100) }, "max-clients", "MaxBlockedReaders", false},
	} {
		for _, mode := range []struct {
			name    string
			blocked int
		}{{"blocked", 0}, {"polled", -1}} {
			if mode.blocked < 0 && !tc.polled {
				continue
			}
			t.Run(tc.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel() // it is mostly waiting
				b := newBed(t, 2, steady)
				acl(b, "on", ">secret", "~*", "+@all")
				var book logbook
				l := newJournal()
				cfg := b.config("a", l.handler("a", nil))
				cfg.Redis.Username, cfg.Redis.Password = "plain", "secret"
				cfg.Logger, cfg.MaxBlockedReaders = book.logger(), mode.blocked
				// A blocked read that began before is not looked at again.
				cfg.BlockTime = 100 * time.Millisecond
				c := start(t, cfg)
				b.add(10)
				l.await(t, 10)
				eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 10 })
				book.reset()
				broken := time.Now()
				tc.breaks(b)
				eventually(t, "the trouble is seen", func() bool {
					h := c.Health()
					return len(h.Shards) == 2 && !h.Healthy() && h.Shards[0].Trouble.Kind == tc.kind && h.Shards[1].Trouble.Kind == tc.kind
				})
				trouble := c.Health().Shards[0].Trouble
				if !strings.Contains(trouble.Advice, tc.advice) || trouble.Err == nil || trouble.Attempts < 1 || trouble.Since.Before(broken) {
					t.Errorf("the trouble is told as %+v", trouble)
				}
				b.awaitCalm(2 * 20)
				rate := b.rate(2*time.Second) / 2
				if rate > 20 {
					t.Errorf("%.1f commands a second for each shard", rate)
				}
				for i := range 2 {
					if n := perShard(book.find(""), i); n > int(time.Since(broken).Seconds())+1 {
						t.Errorf("shard %d: %d lines in %s", i, n, time.Since(broken))
						for _, said := range book.find("") {
							t.Log(said.text, said.attrs)
						}
					}
				}
				tc.mends(b)
				watch := redistest.StartWatch(t)
				b.add(10)
				l.await(t, 20)
				watch.Within(2*time.Second, "reading goes on")
				eventually(t, "all is well", func() bool { return c.Health().Healthy() })
				eventually(t, "the log tells that it is over", func() bool { return len(book.find("read again")) == 2 })
				t.Logf("%.1f commands a second, %d lines", rate, len(book.find("")))
			})
		}
	}
}

// TestWhatKeepsAcknowledgementsBack: the same for acknowledgements.
func TestWhatKeepsAcknowledgementsBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newBed(t, 1, steady)
	if err := b.redis.Do(ctx, "ACL", "SETUSER", "plain", "on", ">secret", "~*", "+@all").Err(); err != nil {
		t.Fatal(err)
	}
	var book logbook
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.Redis.Username, cfg.Redis.Password, cfg.Logger = "plain", "secret", book.logger()
	c := start(t, cfg)
	b.add(1)
	eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 1 })
	broken := time.Now()
	if err := b.redis.Do(ctx, "ACL", "SETUSER", "plain", "-xack").Err(); err != nil {
		t.Fatal(err)
	}
	b.add(10)
	l.await(t, 11)
	eventually(t, "the trouble is told", func() bool { return len(book.find("could not be acknowledged")) > 0 })
	b.awaitCalm(20)
	if rate := b.rate(3 * time.Second); rate > 20 {
		t.Errorf("%.1f commands a second", rate)
	}
	said := book.find("could not be acknowledged")
	if len(said) < 1 || len(said) > mostLines(broken) || !strings.Contains(said[0].attrs["advice"], "ACL SETUSER plain +xack") {
		t.Errorf("%d lines: %v", len(said), said)
	}
	eventually(t, "10 records are told to be unacknowledged", func() bool { return c.Health().Shards[0].Unacknowledged == 10 })
	if err := b.redis.Do(ctx, "ACL", "SETUSER", "plain", "+xack").Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is acknowledged", func() bool { return b.pending() == 0 })
	eventually(t, "it is told", func() bool { return len(book.find("acknowledged again")) == 1 })
	if _, again := l.handled(); again != 0 {
		t.Errorf("%d records were handled twice", again)
	}
}

// TestTheCoordinatorStaysAway: one line now and then, and Health tells.
func TestTheCoordinatorStaysAway(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, protocol.Timings{HeartbeatInterval: 50 * time.Millisecond, Lease: 15 * time.Second, RebalanceTimeout: 15 * time.Second})
	var book logbook
	cfg := b.config("a", func(context.Context, consumer.Record) error { return nil })
	cfg.Logger = book.logger()
	c := start(t, cfg)
	eventually(t, "all is well", func() bool { return c.Health().Healthy() && len(c.Health().Shards) == 1 })
	away := time.Now()
	b.coord.setAway(true)
	eventually(t, "the trouble is seen", func() bool { return c.Health().Coordinator.Kind == "no-answer" })
	eventually(t, "the log tells of it", func() bool { return len(book.find("did not answer")) > 0 })
	time.Sleep(3 * time.Second) // some attempts, of which few are told of
	if n := len(book.find("did not answer")); n > mostLines(away) {
		t.Errorf("%d lines in %s", n, time.Since(away))
	}
	b.coord.setAway(false)
	eventually(t, "all is well", func() bool { return c.Health().Healthy() })
	eventually(t, "the log tells that it is over", func() bool { return len(book.find("answers again")) > 0 })
	if n := len(book.find("answers again")); n != 1 {
		t.Errorf("%d lines tell that it is over", n)
	}
}

// TestManyShardsAndASmallPool: the pool of the application's options is not what
// acknowledgements wait for.
func TestManyShardsAndASmallPool(t *testing.T) {
	t.Parallel()
	b := newBed(t, 64, steady)
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.Redis.PoolSize, cfg.Redis.MaxActiveConns = 10, 10
	cfg.Redis.PoolTimeout = 6 * time.Second
	c := start(t, cfg)
	eventually(t, "all readers are blocked", func() bool {
		return strings.Contains(b.redis.Info(context.Background(), "clients").Val(), "blocked_clients:64")
	})
	var slow []time.Duration
	watch := redistest.StartWatch(t)
	for i := range 100 {
		begin := watch.Ran()
		b.add(1)
		eventually(t, "it is acknowledged", func() bool { return c.Stats().Acknowledged == uint64(i+1) })
		if d := watch.Ran() - begin; d > 500*time.Millisecond {
			slow = append(slow, d)
		}
	}
	if len(slow) > 5 {
		t.Errorf("slow acknowledgements: %v", slow)
	}
}
