package service_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

func (f *fakeStreams) lose(shards ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range shards {
		delete(f.shards["orders"], i)
	}
}

// reportMissing sends a heartbeat that says that shards are missing in Redis.
func (b *beat) reportMissing(t *testing.T, c *service.Coordinator, shards ...protocol.ShardIndex) {
	t.Helper()
	q := b.next()
	for _, s := range shards {
		q.ShardProgress = append(q.ShardProgress, protocol.ShardProgress{Shard: s, Missing: true})
	}
	b.last = c.Heartbeat(t.Context(), "orders", "billing", q)
}

// bedOfShards is a coordinator with a stream of four shards that a member owns.
func bedOfShards(t *testing.T) (*service.Coordinator, *fakeStreams, *beat) {
	t.Helper()
	redis := new(fakeStreams)
	c := start(t, memstore.New(), func(_ *service.Config, p *service.Ports) { p.Streams = redis })
	if _, err := c.CreateStream(t.Context(), "orders", shards(4)); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 4, a)
	return c, redis, a
}

func TestShardsReportedMissingAreCreatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, redis, a := bedOfShards(t)
		redis.lose(1, 2)
		before := redis.count("Provision")
		a.reportMissing(t, c, 1, 2)
		time.Sleep(200 * time.Millisecond)
		if groups, ok := redis.on(4); !ok || !slices.Equal(groups, []string{"billing"}) {
			t.Errorf("the shards are not back with their group: %v", redis.shards)
		}
		if n := redis.count("Provision") - before; n != 1 {
			t.Errorf("two neighbours took %d calls", n)
		}
	})
}

func TestRedisIsAwayWhenShardsAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, redis, a := bedOfShards(t)
		redis.lose(0, 1, 2, 3)
		redis.set(func(context.Context, string) error { return errAway })
		before := redis.count("Provision")
		a.reportMissing(t, c, 0, 1, 2, 3)
		time.Sleep(2 * time.Second)
		if n := redis.count("Provision") - before; n < 2 || n > 10 {
			t.Errorf("%d attempts in two seconds", n)
		}
		redis.set(nil)
		time.Sleep(1100 * time.Millisecond)
		if _, ok := redis.on(4); !ok {
			t.Errorf("the shards are not back: %v", redis.shards)
		}
		// It gives up in the end, and the next report begins anew.
		redis.lose(0)
		redis.set(func(context.Context, string) error { return errAway })
		a.reportMissing(t, c, 0)
		time.Sleep(time.Minute)
		before = redis.count("Provision")
		time.Sleep(time.Minute)
		if n := redis.count("Provision") - before; n != 0 {
			t.Errorf("%d attempts although nobody asks", n)
		}
		redis.set(nil)
		settle(t, c, 4, &beat{id: "b", incarnation: "b1"})
	})
}

func TestOnlyWhatTheRecordSaysIsCreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, redis, a := bedOfShards(t)
		before := redis.count("Provision")
		a.reportMissing(t, c, -1, 4, 5, 1<<20)
		q := a.next()
		q.ShardProgress = []protocol.ShardProgress{{Shard: 0, Missing: true}}
		c.Heartbeat(t.Context(), "nothing", "billing", q)
		time.Sleep(time.Second)
		if n := redis.count("Provision") - before; n != 0 {
			t.Errorf("%d calls for shards that do not exist", n)
		}
		// A group that is being deleted does not come back.
		redis.set(func(_ context.Context, call string) error {
			if call == "RemoveGroup" {
				return errAway
			}
			return nil
		})
		asked := protocol.Delete{RequestedBy: "test", Reason: "test", Force: true, DeleteData: true}
		if _, err := c.DeleteGroup(t.Context(), "orders", "billing", asked); !errors.Is(err, errAway) {
			t.Fatalf("the deletion: %v", err)
		}
		redis.lose(0)
		a.reportMissing(t, c, 0)
		time.Sleep(time.Second)
		redis.mu.Lock()
		defer redis.mu.Unlock()
		if groups, there := redis.shards["orders"][0]; !there || len(groups) != 0 {
			t.Errorf("the shard is there: %t, with groups %v", there, groups)
		}
	})
}
