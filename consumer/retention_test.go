package consumer_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// drain has another group read and acknowledge all there is.
func (b *bed) drain(g string) {
	b.tb.Helper()
	ctx := context.Background()
	for i := range b.shards {
		for {
			got, err := b.redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: g, Consumer: "x", Streams: []string{key(i), ">"}, Count: 1000, Block: -1}).Result()
			if err != nil || len(got) == 0 {
				break
			}
			ids := []string{}
			for _, m := range got[0].Messages {
				ids = append(ids, m.ID)
			}
			if err := b.redis.XAck(ctx, key(i), g, ids...).Err(); err != nil {
				b.tb.Fatal(err)
			}
		}
	}
}

func (b *bed) length() (n int64) {
	b.tb.Helper()
	for i := range b.shards {
		l, err := b.redis.XLen(context.Background(), key(i)).Result()
		if err != nil {
			b.tb.Fatal(err)
		}
		n += l
	}
	return n
}

// TestRetention: what a second group has not read stays, and it is said who holds
// it; when it is done too, the streams shrink, and stay small while records flow.
func TestRetention(t *testing.T) {
	b := newBed(t, 2, steady)
	ctx := context.Background()
	for i := range b.shards {
		if err := b.redis.XGroupCreate(ctx, key(i), "audit", "0").Err(); err != nil {
			t.Fatal(err)
		}
	}
	l, r, logged := newJournal(), new(recorder), new(logBuffer)
	cfg := b.config("a", l.handler("a", nil))
	cfg.Observer, cfg.Logger = r, logged.logger()
	cfg.Retention.Interval = 100 * time.Millisecond
	c := start(t, cfg)
	b.add(22_000)
	l.await(t, 22_000)
	looks := func() (n int) {
		for _, e := range of[consumer.TrimmedEvent](r) {
			if e.Err == nil && e.HeldBy == "audit" && e.Length >= 11_000 && e.From != "" {
				n++
			}
		}
		return n
	}
	eventually(t, "both shards were looked at a few times", func() bool { return looks() >= 8 })
	if n := b.length(); n != 22_000 {
		t.Errorf("%d records are left, and a group has not read them", n)
	}
	if n := strings.Count(logged.String(), "held_by=audit"); n != 2 {
		t.Errorf("who holds it up was said %d times, want once a shard:\n%s", n, logged)
	}
	b.drain("audit")
	eventually(t, "all but the last blocks are gone", func() bool { return b.length() <= 200 })
	var most, memory int64
	for range 40 {
		b.add(500)
		l.await(t, b.next)
		b.drain("audit")
		eventually(t, "the streams are small again", func() bool {
			most = max(most, b.length())
			return b.length() <= 200
		})
		memory = max(memory, b.redis.MemoryUsage(ctx, key(0), 0).Val())
	}
	if most > 1000 || memory > 100_000 {
		t.Errorf("up to %d records were left, and up to %d bytes in a shard", most, memory)
	}
	// Before the end: the answer to the last look may be lost in it.
	eventually(t, "the stats count what is gone", func() bool { return c.Stats().Trimmed == uint64(b.next)-uint64(b.length()) })
	c.stop()
	l.clean(t)
	if distinct, again := l.handled(); distinct != b.next || again != 0 {
		t.Errorf("%d of %d were handled, %d of them twice", distinct, b.next, again)
	}
}

func TestRetentionOff(t *testing.T) {
	b := newBed(t, 1, steady)
	l, r := newJournal(), new(recorder)
	cfg := b.config("a", l.handler("a", nil))
	cfg.Observer, cfg.Retention = r, consumer.Retention{Off: true, Interval: 100 * time.Millisecond}
	start(t, cfg)
	b.add(1000)
	l.await(t, 1000)
	time.Sleep(300 * time.Millisecond) // three times the interval: nothing is to be seen
	if n := b.length(); n != 1000 || len(of[consumer.TrimmedEvent](r)) != 0 {
		t.Errorf("%d records are left, %d looks", n, len(of[consumer.TrimmedEvent](r)))
	}
}

// TestRetentionNotAllowed: reading goes on, and it is said once.
func TestRetentionNotAllowed(t *testing.T) {
	for _, tc := range []struct{ name, rule string }{
		{"no XTRIM", "-xtrim"},
		{"no scripts", "-@scripting"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, 2, steady)
			if err := b.redis.Do(context.Background(), "ACL", "SETUSER", "limited", "on", ">limited", "~*", "&*", "+@all", tc.rule).Err(); err != nil {
				t.Fatal(err)
			}
			l, logged := newJournal(), new(logBuffer)
			cfg := b.config("a", l.handler("a", nil))
			cfg.Logger, cfg.Redis.Username, cfg.Redis.Password = logged.logger(), "limited", "limited"
			cfg.Retention.Interval = 100 * time.Millisecond
			start(t, cfg)
			b.add(100)
			l.await(t, 100)
			eventually(t, "it is said", func() bool { return strings.Contains(logged.String(), "work=retention") })
			time.Sleep(300 * time.Millisecond) // three times the interval: nothing more is to be said
			b.add(100)
			l.await(t, 200)
			if n := strings.Count(logged.String(), "retention"); n != 1 {
				t.Errorf("it was said %d times:\n%s", n, logged)
			}
		})
	}
}

// TestRetentionOnACluster: shards on several nodes, each trimmed where it lies.
func TestRetentionOnACluster(t *testing.T) {
	const shards, records = 6, 300
	b := newClusterBed(t, 3, 0, shards, steady)
	l, r := newJournal(), new(recorder)
	cfg := b.config(l.handler("a", nil))
	cfg.Observer, cfg.Retention.Interval = r, 100*time.Millisecond
	c := start(t, cfg)
	for i := range shards * records {
		b.add(i % shards)
	}
	l.awaitNumbers(t, shards*records)
	eventually(t, "every shard is trimmed", func() bool {
		for i := range shards {
			if b.redis.XLen(context.Background(), key(i)).Val() > 100 {
				return false
			}
		}
		return true
	})
	// Before the end: it may break off the last one.
	for _, e := range of[consumer.TrimmedEvent](r) {
		if e.Err != nil {
			t.Errorf("shard %d: %v", e.Shard.Index, e.Err)
		}
	}
	c.stop()
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
}
