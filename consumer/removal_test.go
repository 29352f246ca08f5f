package consumer_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// undertaker lets removed shards go as the coordinator's adapter does, in more steps: in
// these tests nobody writes to them any more.
type undertaker struct{ client redis.UniversalClient }

func (u undertaker) LookAt(ctx context.Context, prefix string, indexes []int) ([]port.Shard, error) {
	var shards []port.Shard
	for _, i := range indexes {
		shard, err := u.look(ctx, routing.StreamKey(prefix, i))
		if err != nil {
			return nil, err
		}
		shard.Index = i
		shards = append(shards, shard)
	}
	return shards, nil
}

func (u undertaker) look(ctx context.Context, key string) (port.Shard, error) {
	if n, err := u.client.Exists(ctx, key).Result(); n == 0 || err != nil {
		return port.Shard{}, err
	}
	info, err := u.client.XInfoStream(ctx, key).Result()
	if err != nil {
		return port.Shard{}, err
	}
	shard := port.Shard{Exists: true, LastID: info.LastGeneratedID, Records: info.Length}
	groups, err := u.client.XInfoGroups(ctx, key).Result()
	if err != nil {
		return port.Shard{}, err
	}
	for _, g := range groups {
		next, err := u.client.XRangeN(ctx, key, "("+g.LastDeliveredID, "+", 1).Result()
		if err != nil {
			return port.Shard{}, err
		}
		c := port.Cursor{Group: g.Name, Pending: g.Pending}
		if len(next) > 0 {
			c.NextID, c.Unread = next[0].ID, 1
		}
		shard.Cursors = append(shard.Cursors, c)
	}
	return shard, nil
}

func (u undertaker) Retire(ctx context.Context, r port.Retirement) ([]port.RetireOutcome, error) {
	outcomes := make([]port.RetireOutcome, len(r.Shards))
	for i, s := range r.Shards {
		key := routing.StreamKey(r.Prefix, s.Index)
		now, err := u.look(ctx, key)
		switch {
		case err != nil:
			return nil, err
		case !now.Exists:
		case now.LastID != s.LastID:
			outcomes[i] = port.ShardKept
		default:
			if err := u.client.Unlink(ctx, key).Err(); err != nil {
				return nil, err
			}
		}
	}
	return outcomes, nil
}

func (u undertaker) Find(ctx context.Context, prefix string, first, end int) (found []int, err error) {
	for i := first; i < end; i++ {
		n, err := u.client.Exists(ctx, routing.StreamKey(prefix, i)).Result()
		if err != nil {
			return nil, err
		}
		if n > 0 {
			found = append(found, i)
		}
	}
	return found, nil
}

// newReshardingBed is newProvisionedBed with a coordinator that removes shards too.
func newReshardingBed(tb testing.TB, shards int) *bed {
	tb.Helper()
	s := redistest.Start(tb)
	b := &bed{tb: tb, server: s, redis: s.Client(), shards: shards}
	tb.Cleanup(func() { _ = b.redis.Close() })
	b.coord = newCoordinator(tb, shards, steady, func(p *service.Ports) {
		p.Streams, p.Shards = provisioner{b.redis}, undertaker{b.redis}
	})
	return b
}

// scale changes the shard count and waits until the change is done.
func (b *bed) scale(to int) {
	b.tb.Helper()
	ctx := context.Background()
	r, err := b.coord.ScaleStream(ctx, stream, protocol.Scale{TargetShardCount: &to, RequestedBy: "test", Reason: "test"})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.shards = to
	b.reaches(r.Migrations[0].ReshardingID, protocol.MigrationDeprecated)
}

// reaches waits until a change of the shard count has come to a state, or is done.
func (b *bed) reaches(id string, state protocol.MigrationState) {
	b.tb.Helper()
	eventually(b.tb, fmt.Sprintf("the change is %s", state), func() bool {
		m, err := b.coord.Migration(context.Background(), stream, id)
		return err == nil && (m.State == state || m.State == protocol.MigrationDeprecated)
	})
}

// scaleByHand changes the shard count to a lower one, and deletes the keys of the removed
// shards in Redis as soon as nobody writes to them, whoever reads them.
func (b *bed) scaleByHand(to int) {
	b.tb.Helper()
	ctx := context.Background()
	var keys []string
	var given protocol.Shards
	for i := to; i < b.shards; i++ {
		keys, given = append(keys, key(i)), append(given, protocol.ShardIndex(i))
	}
	r, err := b.coord.ScaleStream(ctx, stream, protocol.Scale{TargetShardCount: &to, RequestedBy: "test", Reason: "test"})
	if err != nil {
		b.tb.Fatal(err)
	}
	b.shards = to
	b.reaches(r.Migrations[0].ReshardingID, protocol.MigrationDraining)
	if err := b.redis.Del(ctx, keys...).Err(); err != nil {
		b.tb.Fatal(err)
	}
	// It is refused where the coordinator was faster; else it looks at once.
	_, _ = b.coord.GiveUp(ctx, stream, protocol.GiveUp{Shards: given, Order: protocol.Order{RequestedBy: "test", Reason: "test"}})
	b.reaches(r.Migrations[0].ReshardingID, protocol.MigrationDeprecated)
}

// held are the shards that consumers have, in order.
func held(consumers ...*running) (shards []int) {
	for _, c := range consumers {
		for _, s := range c.Health().Shards {
			shards = append(shards, s.Shard.Index)
		}
	}
	slices.Sort(shards)
	return shards
}

// vigil notes each trouble that the health of consumers tells of, until it is ended.
type vigil struct {
	over chan struct{}
	done sync.WaitGroup
	seen map[string]int
}

func keepVigil(consumers ...*running) *vigil {
	v := &vigil{over: make(chan struct{}), seen: map[string]int{}}
	v.done.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			for _, c := range consumers {
				for _, s := range c.Health().Shards {
					if !s.Trouble.OK() {
						v.seen[fmt.Sprintf("%s, shard %d: %s: %v", c.MemberID(), s.Shard.Index, s.Trouble.Kind, s.Trouble.Err)]++
					}
				}
			}
			select {
			case <-v.over:
				return
			case <-tick.C:
			}
		}
	})
	return v
}

// end returns what was seen.
func (v *vigil) end() map[string]int {
	close(v.over)
	v.done.Wait()
	return v.seen
}

// TestAShardIsRemoved: the coordinator takes it back, and its key goes; or its key goes
// while a reader waits for it, and a moment later the coordinator takes it back. That is no
// trouble: nobody is alarmed, the shard is let go of, and nothing is left behind in Redis.
func TestAShardIsRemoved(t *testing.T) {
	for _, mode := range []struct {
		name    string
		blocked int
		scale   func(b *bed, to int)
	}{
		{"blocked", 0, (*bed).scale}, {"polled", -1, (*bed).scale},
		{"by hand, blocked", 0, (*bed).scaleByHand}, {"by hand, polled", -1, (*bed).scaleByHand},
	} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel() // it is mostly waiting
			b := newReshardingBed(t, 6)
			var books [2]logbook
			l := newJournal()
			members := make([]*running, len(books))
			for i, id := range []string{"a", "b"} {
				// On a machine that stands still it takes longer until the coordinator has
				// taken the shard back.
				cfg := consumer.MissingFor(b.config(id, l.handler(id, nil)), patience)
				cfg.Logger, cfg.MaxBlockedReaders = books[i].logger(), mode.blocked
				members[i] = start(t, cfg)
			}
			eventually(t, "both have shards", func() bool {
				return len(held(members[0])) == 3 && len(held(members[1])) == 3
			})
			b.add(120)
			l.await(t, 120)
			for i := range books {
				books[i].reset()
			}
			v, watch := keepVigil(members...), redistest.StartWatch(t)
			mode.scale(b, 2)
			eventually(t, "the removed shards are let go of", func() bool { return slices.Equal(held(members...), []int{0, 1}) })
			b.add(40)
			l.await(t, 160)
			if seen := v.end(); len(seen) > 0 {
				t.Errorf("the health told of trouble: %v", seen)
			}
			for i := range books {
				books[i].soonRevoked(t, watch.Stood())
				for _, said := range books[i].find("") {
					if said.level > slog.LevelInfo {
						t.Errorf("%s: %s: %s %v", members[i].MemberID(), said.level, said.text, said.attrs)
					}
				}
				for shard := range 6 {
					lines := books[i].find("does not exist")
					if n := perShard(lines, shard); n > 1 || shard < 2 && n > 0 {
						t.Errorf("%s: %d lines about shard %d", members[i].MemberID(), n, shard)
					}
				}
			}
			b.expectOnly("a", "b")

			// The same shards come back, as other streams.
			b.scale(6)
			eventually(t, "the shards are back", func() bool { return slices.Equal(held(members...), []int{0, 1, 2, 3, 4, 5}) })
			b.add(120)
			l.await(t, 280)
			mode.scale(b, 0)
			eventually(t, "no shard is held", func() bool { return len(held(members...)) == 0 })
			b.expectOnly()
			for _, m := range members {
				m.stop()
			}
			l.clean(t)
			if n, again := l.handled(); n != 280 || again != 0 {
				t.Errorf("%d records were handled, %d of them twice, want 280 and none", n, again)
			}
		})
	}
}

// soonRevoked fails the test if a shard that was missing was not taken back before that
// counts as trouble, or as late as stood and what a machine holds up account for.
func (b *logbook) soonRevoked(tb testing.TB, stood time.Duration) {
	tb.Helper()
	revoked := b.find("shard revoked")
	for _, missing := range b.find("does not exist") {
		for _, r := range revoked {
			if d := r.at.Sub(missing.at); r.attrs["shard"] == missing.attrs["shard"] && d > 2*time.Second+redistest.HeldUp+stood {
				tb.Errorf("shard %s was missing for %s before it was taken back", r.attrs["shard"], d)
			}
		}
	}
}

// TestAShardIsGivenUpWithARecordInHand: an operator gives up a removed shard whose record is
// being handled. The handler comes to its end and its record is acknowledged before the
// shard goes.
func TestAShardIsGivenUpWithARecordInHand(t *testing.T) {
	b := newReshardingBed(t, 2)
	l := newJournal()
	begun, finish := make(chan struct{}), make(chan struct{})
	cfg := b.config("a", l.handler("a", func(ctx context.Context, r consumer.Record) error {
		if r.Shard == 0 {
			return nil
		}
		close(begun)
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}))
	var book logbook
	cfg.Logger = book.logger()
	c := start(t, cfg)
	eventually(t, "it has both shards", func() bool { return slices.Equal(held(c), []int{0, 1}) })
	b.add(2)
	receive(t, begun)
	ctx, to := context.Background(), 1
	if _, err := b.coord.ScaleStream(ctx, stream, protocol.Scale{TargetShardCount: &to, RequestedBy: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	b.shards = 1
	if _, err := b.coord.GiveUp(ctx, stream, protocol.GiveUp{Shards: protocol.Shards{1}, Order: protocol.Order{RequestedBy: "test", Reason: "test"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the shard is revoked", func() bool { return len(book.find("shard revoked")) == 1 })
	if b.redis.Exists(ctx, key(1)).Val() == 0 {
		t.Error("the key went before the handler had come to its end")
	}
	close(finish)
	eventually(t, "the shard is let go of", func() bool { return slices.Equal(held(c), []int{0}) })
	eventually(t, "the record is acknowledged", func() bool { return c.Stats().Acknowledged == 2 })
	eventually(t, "the key is gone", func() bool { return b.redis.Exists(ctx, key(1)).Val() == 0 })
	b.add(5)
	l.await(t, 7)
	b.expectOnly("a")
	for _, said := range book.find("") {
		if said.level > slog.LevelInfo {
			t.Errorf("%s: %s %v", said.level, said.text, said.attrs)
		}
	}
	c.stop()
	l.clean(t)
}

// expectOnly fails the test unless Redis holds the shards of the stream and nothing else,
// and no other consumer names than these.
func (b *bed) expectOnly(names ...string) {
	b.tb.Helper()
	ctx := context.Background()
	var want []string
	for i := range b.shards {
		want = append(want, key(i))
		consumers, err := b.redis.XInfoConsumers(ctx, key(i), group).Result()
		if err != nil {
			b.tb.Fatal(err)
		}
		for _, c := range consumers {
			if !slices.Contains(names, c.Name) {
				b.tb.Errorf("shard %d has a consumer %q", i, c.Name)
			}
		}
	}
	there, err := b.redis.Keys(ctx, "*").Result()
	if err != nil {
		b.tb.Fatal(err)
	}
	slices.Sort(there)
	if !slices.Equal(there, want) {
		b.tb.Errorf("Redis holds %q, want %q", there, want)
	}
}

// TestAMissingStreamIsTroubleAfterAWhile: where the coordinator neither creates a stream
// again nor takes its shard back, that is said.
func TestAMissingStreamIsTroubleAfterAWhile(t *testing.T) {
	// missed is a consumer, which tells its log, of a stream that is deleted, no earlier than
	// at the time.
	missed := func(t *testing.T, book *logbook, change func(consumer.Config) consumer.Config) (*running, time.Time) {
		t.Helper()
		b := newBed(t, 1, steady) // its coordinator creates nothing
		l := newJournal()
		cfg := change(b.config("a", l.handler("a", nil)))
		cfg.Logger = book.logger()
		c := start(t, cfg)
		b.add(1)
		l.await(t, 1)
		book.reset()
		at := time.Now()
		if err := b.redis.Del(context.Background(), key(0)).Err(); err != nil {
			t.Fatal(err)
		}
		return c, at
	}
	t.Run("at first", func(t *testing.T) {
		var book logbook
		c, _ := missed(t, &book, func(cfg consumer.Config) consumer.Config { return consumer.MissingFor(cfg, 2*patience) })
		eventually(t, "it is seen to be missing", func() bool {
			h := c.Health()
			return len(h.Shards) == 1 && h.Shards[0].State == consumer.ShardMissing && h.Healthy()
		})
		if n := len(book.find("cannot be read")); n != 0 {
			t.Errorf("%d lines about trouble", n)
		}
	})
	t.Run("after a while", func(t *testing.T) {
		var book logbook
		c, deleted := missed(t, &book, func(cfg consumer.Config) consumer.Config { return cfg })
		eventually(t, "it counts as trouble", func() bool {
			h := c.Health()
			return len(h.Shards) == 1 && h.Shards[0].State == consumer.ShardBroken && h.Shards[0].Trouble.Kind == "stream-missing"
		})
		eventually(t, "the log tells of it", func() bool { return len(book.find("cannot be read")) > 0 })
		missing, broken := book.find("does not exist"), book.find("cannot be read")
		if len(missing) != 1 || missing[0].level != slog.LevelInfo || broken[0].level != slog.LevelWarn {
			t.Fatalf("the log told: %v, then %v", missing, broken)
		}
		if d := broken[0].at.Sub(deleted); d < 2*time.Second {
			t.Errorf("it was trouble after %s, want no earlier than 2s", d)
		}
	})
}
