package consumer_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// provisioner creates shards as the coordinator's adapter does.
type provisioner struct{ client redis.UniversalClient }

func (p provisioner) Provision(ctx context.Context, what port.Provision) error {
	for i := what.First; i < what.End; i++ {
		for _, g := range what.Groups {
			err := p.client.XGroupCreateMkStream(ctx, routing.StreamKey(what.Prefix, i), g, "0").Err()
			if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
				return err
			}
		}
	}
	return nil
}

func (provisioner) Remove(context.Context, string, int, int) error              { return nil }
func (provisioner) RemoveGroup(context.Context, string, string, int, int) error { return nil }
func (p provisioner) Ping(ctx context.Context) error                            { return p.client.Ping(ctx).Err() }

// newProvisionedBed is newBed with a coordinator that creates the shards itself, and
// has its metadata elsewhere.
func newProvisionedBed(tb testing.TB, shards int, timings protocol.Timings) *bed {
	tb.Helper()
	s := redistest.Start(tb)
	b := &bed{tb: tb, server: s, redis: s.Client(), shards: shards}
	tb.Cleanup(func() { _ = b.redis.Close() })
	b.coord = newCoordinator(tb, shards, timings, func(p *service.Ports) { p.Streams = provisioner{b.redis} })
	return b
}

// awaitShards waits until the streams of all shards are there.
func (b *bed) awaitShards() {
	b.tb.Helper()
	eventually(b.tb, "the shards are there", func() bool {
		for i := range b.shards {
			if groups, err := b.redis.XInfoGroups(context.Background(), key(i)).Result(); err != nil || len(groups) != 1 {
				return false
			}
		}
		return true
	})
}

// TestRedisIsEmptied: everything that Redis held is gone, while the coordinator knows
// what there was. The shards come back and are read within two seconds.
func TestRedisIsEmptied(t *testing.T) {
	for _, tc := range []struct {
		name string
		// empty takes everything away.
		empty func(b *bed)
		mode  int
	}{
		{"FLUSHALL", func(b *bed) { b.redis.FlushAll(context.Background()) }, 0},
		{"FLUSHALL of polled shards", func(b *bed) { b.redis.FlushAll(context.Background()) }, -1},
		{"a restart without persistence", func(b *bed) {
			b.server.Kill()
			b.server.Restart()
		}, 0},
		{"one key deleted", func(b *bed) { b.redis.Del(context.Background(), key(1)) }, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := newProvisionedBed(t, 3, steady)
			var book logbook
			l := newJournal()
			cfg := b.config("a", l.handler("a", nil))
			cfg.Logger, cfg.MaxBlockedReaders = book.logger(), tc.mode
			c := start(t, cfg)
			b.awaitShards()
			b.add(30)
			l.await(t, 30)
			eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 30 })
			begin, watch := time.Now(), redistest.StartWatch(t)
			tc.empty(b)
			b.awaitShards()
			there := time.Since(begin)
			b.add(30)
			l.await(t, 60)
			watch.Within(2*time.Second, fmt.Sprintf("reading goes on, of which %s until the shards were there", there))
			c.stop()
			l.clean(t)
			if _, again := l.handled(); again != 0 {
				t.Errorf("%d records were handled twice", again)
			}
			for i := range 3 {
				if n := perShard(book.find("cannot be read"), i); n > mostLines(begin) {
					t.Errorf("shard %d: %d lines within %s", i, n, time.Since(begin))
				}
			}
		})
	}
}

func perShard(lines []line, shard int) (n int) {
	for _, l := range lines {
		if l.attrs["shard"] == strconv.Itoa(shard) {
			n++
		}
	}
	return n
}

// TestTheGroupOfALongStreamIsDestroyed: the records that were handled are not
// handled again, only those in hand may be.
func TestTheGroupOfALongStreamIsDestroyed(t *testing.T) {
	b := newBed(t, 1, steady)
	l := newJournal()
	c := start(t, b.config("a", l.handler("a", nil)))
	const processed = 10_000
	for range processed / 1000 {
		b.add(1000)
	}
	l.await(t, processed)
	eventually(t, "nothing is in hand", func() bool {
		h := c.Health().Shards[0]
		return h.InHand == 0 && h.Unacknowledged == 0
	})
	// While more come in.
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 10 {
			b.add(100)
		}
	}()
	for range 3 {
		if err := b.redis.XGroupDestroy(context.Background(), key(0), group).Err(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the group is made again", func() bool {
			return b.redis.XInfoConsumers(context.Background(), key(0), group).Err() == nil
		})
	}
	<-done
	l.await(t, processed+1000)
	eventually(t, "nothing is pending", func() bool { return b.pending() == 0 })
	l.clean(t)
	_, again := l.handled()
	// Only what came meanwhile may have been in hand.
	times := map[string]int{}
	for _, r := range l.all() {
		times[r.Values["n"]]++
	}
	for i := range processed {
		if n := times[strconv.Itoa(i)]; n != 1 {
			t.Errorf("record %d was handled %d times", i, n)
		}
	}
	t.Logf("%d records were handled twice", again)
	c.stop()
}

// TestAnOlderStateOfTheStream: a failover to a replica that was behind takes back
// acknowledgements, deliveries and records. Nothing that is there is skipped; what
// was handled and is pending or new again is handled again.
func TestAnOlderStateOfTheStream(t *testing.T) {
	for _, tc := range []struct {
		name string
		// lost is whether the group is gone too.
		lost bool
	}{{"with the group", false}, {"without it", true}} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, 1, steady)
			l := newJournal()
			var book logbook
			cfg := b.config("a", l.handler("a", nil))
			cfg.Logger = book.logger()
			c := start(t, cfg)
			b.add(10)
			l.await(t, 10)
			eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 10 })
			ctx := context.Background()
			old, err := b.redis.Dump(ctx, key(0)).Result()
			if err != nil {
				t.Fatal(err)
			}
			b.add(20)
			l.await(t, 30)
			eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 30 })
			_, err = b.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.RestoreReplace(ctx, key(0), 0, old)
				if tc.lost {
					p.XGroupDestroy(ctx, key(0), group)
				}
				// The clock of the new master is behind: its ids are lower than those
				// that were lost.
				for i := range 5 {
					p.Do(ctx, "XADD", key(0), "NOMKSTREAM", lastID(l, 10)+"-"+strconv.Itoa(100+i), "n", strconv.Itoa(1000+i))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			// Its clients are cut off, as in a failover.
			b.redis.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			eventually(t, "what is there now is handled", func() bool { return l.numbers() == 35 })
			eventually(t, "nothing is pending", func() bool { return b.pending() == 0 })
			_, again := l.handled()
			if want := map[bool]int{false: 0, true: 10}[tc.lost]; again != want {
				t.Errorf("%d records were handled twice, want %d", again, want)
			}
			if !tc.lost {
				eventually(t, "the log tells that the group went back", func() bool { return len(book.find("went back")) == 1 })
			}
			if tc.lost && len(book.find("created again")) != 1 {
				t.Errorf("the log tells %d times that the group was created", len(book.find("created again")))
			}
		})
	}
}

// lastID returns the time of the n-th record that was handled.
func lastID(l *journal, n int) string {
	ms, _, _ := strings.Cut(l.all()[n-1].ID, "-")
	return ms
}

// TestClaimOfDeletedRecords: of ten pending records three were deleted. Seven are
// handled, and three are acknowledged and counted.
func TestClaimOfDeletedRecords(t *testing.T) {
	b := newBed(t, 1, steady)
	ctx := context.Background()
	b.add(10)
	read, err := b.redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "dead", Streams: []string{key(0), ">"}, Count: 10}).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{0, 4, 9} {
		if err := b.redis.XDel(ctx, key(0), read[0].Messages[i].ID).Err(); err != nil {
			t.Fatal(err)
		}
	}
	l := newJournal()
	c := start(t, b.config("a", l.handler("a", nil)))
	l.await(t, 7)
	eventually(t, "nothing is pending", func() bool { return b.pending() == 0 })
	if s := c.Stats(); s.Recovered != 7 || s.Deleted != 3 {
		t.Errorf("%+v", s)
	}
	l.clean(t)
}
