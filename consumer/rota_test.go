package consumer_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
)

// TestMoreShardsThanConnections: beyond the limit, shards are read without a
// connection of their own: all of them, soon, and at little cost while idle.
func TestMoreShardsThanConnections(t *testing.T) {
	t.Parallel()
	const shards = 600
	b := newBed(t, shards, steady)
	l := newJournal()
	watch := redistest.StartWatch(t)
	cfg := b.config("a", l.handler("a", nil))
	cfg.MaxBlockedReaders = 8
	// One that is not looked at in its turn comes late by far.
	cfg.BlockTime = time.Minute
	c := start(t, cfg)
	eventually(t, "all shards are read", func() bool {
		h := c.Health()
		own, polled := 0, 0
		for _, s := range h.Shards {
			switch {
			case s.State != consumer.ShardReading:
			case s.Polled:
				polled++
			default:
				own++
			}
		}
		return own == 8 && polled == shards-8
	})
	clients := func() int { return strings.Count(b.redis.ClientList(context.Background()).Val(), " laddr=") }
	// Its readers, the shared connections, the rota, and the test's own with what it
	// uses to look.
	eventually(t, "few connections", func() bool { return clients() <= 8+8+1+2 })
	b.add(2 * shards)
	l.await(t, 2*shards)
	b.awaitCalm(25 * shards)
	if rate := b.rate(2*time.Second) / shards; rate > 25 {
		t.Errorf("%.1f commands a second for each idle shard", rate)
	}
	watch.Reset()
	for i := range 100 {
		err := b.redis.Do(context.Background(), "XADD", key(8+i*5), "*", "n", "x").Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	l.await(t, 2*shards+100)
	watch.Within(time.Second, "100 records in as many shards")
	l.clean(t)
}

// TestRoomForAReader: when shards with a connection go, those without get theirs.
func TestRoomForAReader(t *testing.T) {
	t.Parallel()
	b := newBed(t, 4, steady)
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.MaxBlockedReaders = 2
	c := start(t, cfg)
	own := func() (own, all int) {
		for _, s := range c.Health().Shards {
			if all++; !s.Polled && s.State == consumer.ShardReading {
				own++
			}
		}
		return own, all
	}
	eventually(t, "two of four have one", func() bool {
		n, all := own()
		return n == 2 && all == 4
	})
	other := start(t, b.config("b", l.handler("b", nil)))
	eventually(t, "both that are left have one", func() bool {
		n, all := own()
		return n == 2 && all == 2
	})
	b.add(40)
	l.await(t, 40)
	other.stop()
	c.stop()
	l.clean(t)
}

// TestManyDroppedReplies: a hundred replies of reads are lost on their way, which
// records were in them is not known, and yet each is handled, once, and soon.
func TestManyDroppedReplies(t *testing.T) {
	for _, mode := range []struct {
		name    string
		blocked int
	}{{"blocked", 0}, {"polled", -1}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			const drops = 100
			b := newBed(t, 4, steady)
			proxy := redistest.NewProxy(t, b.server.Addr)
			l := newJournal()
			watch := redistest.StartWatch(t)
			var mu sync.Mutex
			var worst time.Duration
			cfg := b.config("a", l.handler("a", func(_ context.Context, r consumer.Record) error {
				at, err := time.ParseDuration(r.Values["at"])
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				worst = max(worst, watch.Ran()-at)
				return nil
			}))
			cfg.Redis.Addrs, cfg.MaxBlockedReaders = []string{proxy.Addr}, mode.blocked
			c := start(t, cfg)
			added := 0
			add := func() {
				at := watch.Ran().String()
				for i := range 4 {
					if err := b.redis.Do(context.Background(), "XADD", key(i), "*", "n", "x", "at", at).Err(); err != nil {
						t.Fatal(err)
					}
					added++
				}
			}
			add()
			l.await(t, added)
			for round := range drops {
				proxy.DropReplies(1, "xreadgroup")
				eventually(t, fmt.Sprintf("round %d: a reply is dropped", round), func() bool {
					if proxy.Dropped() {
						return true
					}
					add()
					return false
				})
				for range 10 {
					add()
				}
			}
			l.await(t, added)
			eventually(t, "nothing is pending", func() bool { return b.pending() == 0 })
			l.clean(t)
			if distinct, again := l.handled(); distinct != added || again != 0 {
				t.Errorf("%d of %d records were handled, %d twice", distinct, added, again)
			}
			if worst > 2*time.Second+redistest.HeldUp {
				t.Errorf("a record came %s late", worst)
			}
			t.Logf("%d records, %d recovered, the worst %s late", added, c.Stats().Recovered, worst)
		})
	}
}
