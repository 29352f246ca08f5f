package blackbox

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// feedOld writes records with running numbers to all shards until it is stopped.
func feedOld(t *testing.T, redis *redisServer, shards int) (written func() int, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var n atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			err := redis.Client.XAdd(ctx, &goredis.XAddArgs{Stream: shardKey(i % shards), NoMkStream: true, Values: []any{"payload", fmt.Sprint(i)}}).Err()
			if err == nil {
				n.Add(1)
			} else if ctx.Err() == nil {
				t.Errorf("write record %d: %v", i, err)
			}
			pause(ctx, 5*time.Millisecond)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return func() int { return int(n.Load()) }, stop
}

// TestOldClientsLive takes clients of before through everything that happens to a
// coordinator: none of them is ever answered with something that ends it, and all that
// was written is handled.
func TestOldClientsLive(t *testing.T) {
	need(t, "redis-server")
	t.Parallel()
	const shards = 4
	metadata, records := startRedis(t, faultkit.Options{Durable: true}), startRedis(t, faultkit.Options{})
	c := startCoordinator(t, "--redis", metadata.url, "--set", "coordinator.streams.redis.url="+records.url, "--set", "coordinator.routing-lease=1s")
	c.CreateStream(stream, shards)
	if status, body := c.Call(http.MethodPost, "/coord/v1/streams/"+stream+"/groups/"+group, map[string]string{"requestedBy": "test"}); status != http.StatusCreated {
		t.Fatalf("create the group: %d %s", status, body)
	}
	handled := &ledger{handled: map[string]int{}}
	written, stopFeed := feedOld(t, records, shards)
	clients := map[string]*oldClient{}
	join := func(member string) { clients[member] = startOld(t, member, c, records, handled) }
	read := shards
	converge := func(what string) {
		t.Helper()
		faultkit.Eventually(t, 90*time.Second, what, func() bool {
			for _, o := range clients {
				o.alive()
			}
			members, held := c.holders()
			return members == len(clients) && held == read
		})
	}
	answers := func(what string) {
		t.Helper()
		faultkit.Eventually(t, 90*time.Second, what, func() bool {
			status, _ := c.Call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+"/members", nil)
			return status == http.StatusOK
		})
	}
	scale := func(to int) {
		t.Helper()
		faultkit.Eventually(t, 90*time.Second, fmt.Sprintf("the stream is scaled to %d shards", to), func() bool {
			status, body := c.Call(http.MethodPost, "/coord/v1/streams/"+stream+"/scale", map[string]any{"targetShardCount": to, "requestedBy": "test", "reason": "test"})
			if status != http.StatusAccepted && status != http.StatusConflict { // the change before is not done yet
				t.Fatalf("scale to %d: %d %s", to, status, body)
			}
			return status == http.StatusAccepted
		})
		read = to
	}

	join("a")
	converge("a reads all shards")
	join("b")
	converge("a and b share the shards")

	clients["b"].kill()
	delete(clients, "b")
	converge("a takes over what b has left behind")

	join("c")
	converge("a and c share the shards")
	c.Proc.Kill()
	c.Restart()
	converge("the coordinator has started again")

	scale(shards + 2)
	converge("a and c share more shards")
	scale(shards)
	converge("a and c share as many as before")
	faultkit.Eventually(t, 90*time.Second, "the removed shards are gone", func() bool {
		for _, o := range clients {
			o.alive() // no shard was removed while it read
		}
		n, err := records.Client.Exists(t.Context(), shardKey(shards), shardKey(shards+1)).Result()
		return err == nil && n == 0
	})

	// A hiccup of the store, shorter than a lease.
	metadata.Pause()
	before := clients["a"].retried.Load()
	faultkit.Eventually(t, 90*time.Second, "a is told to try again", func() bool {
		clients["a"].alive()
		return clients["a"].retried.Load() > before
	})
	metadata.Resume()
	answers("the store answers after the hiccup")
	converge("the store answers again")

	// The store is away for longer than a lease, and its process with it.
	metadata.Kill()
	time.Sleep(lease + lease/2)
	metadata.Restart()
	answers("the store answers after its restart")
	converge("the store has started again")

	// An operator takes a out of work, and puts it back.
	order := map[string]string{"requestedBy": "test", "reason": "test"}
	drain := "/coord/v1/streams/" + stream + "/groups/" + group + "/members/a/drain"
	if status, body := c.Call(http.MethodPost, drain, order); status != http.StatusOK {
		t.Fatalf("drain a: %d %s", status, body)
	}
	faultkit.Eventually(t, 90*time.Second, "c reads all shards", func() bool {
		clients["a"].alive()
		members, held := c.holders()
		return members == 1 && held == shards
	})
	if status, body := c.Call(http.MethodDelete, drain, order); status != http.StatusOK {
		t.Fatalf("put a back: %d %s", status, body)
	}
	converge("a and c share the shards again")

	// One coordinator shuts down in order, and another takes its place.
	c.Proc.Stop(startTimeout)
	c.Restart()
	converge("the coordinator has started once more")

	stopFeed()
	total := written()
	faultkit.Eventually(t, 90*time.Second, "all that was written is handled", func() bool {
		for _, o := range clients {
			o.alive()
		}
		// What b was given and did not acknowledge nobody of this kind recovers.
		return handled.distinct() >= total-int(records.pendingOf("b", shards))
	})
	for member, o := range clients {
		if o.reads.Load() == 0 {
			t.Errorf("%s has read nothing: nothing was tried", member)
		}
	}
	t.Logf("%d records, %d handled; a was told RETRY %d times", total, handled.distinct(), clients["a"].retried.Load())
}

// TestBacklogOfOneRecord: a scaler sees one record on one of many shards.
func TestBacklogOfOneRecord(t *testing.T) {
	need(t, "redis-server")
	const shards = 64
	redis := startRedis(t, faultkit.Options{})
	c := startCoordinator(t, "--redis", redis.url)
	c.CreateStream(stream, shards)
	if status, body := c.Call(http.MethodPost, "/coord/v1/streams/"+stream+"/groups/"+group, map[string]string{"requestedBy": "test"}); status != http.StatusCreated {
		t.Fatalf("create the group: %d %s", status, body)
	}
	backlog := func() (n int) {
		t.Helper()
		status, body := c.Call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+"/backlog", nil)
		var b struct {
			Backlog *int `json:"backlog"`
		}
		if err := json.Unmarshal(body, &b); err != nil || status != http.StatusOK || b.Backlog == nil {
			t.Fatalf("backlog: %d %s", status, body)
		}
		return *b.Backlog
	}
	if n := backlog(); n != 0 {
		t.Fatalf("the backlog of nothing is %d", n)
	}
	if err := redis.Client.XAdd(t.Context(), &goredis.XAddArgs{Stream: shardKey(37), NoMkStream: true, Values: []any{"payload", "one"}}).Err(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	faultkit.Eventually(t, startTimeout, "the record is seen", func() bool { return backlog() == 1 })
	t.Logf("one record on one of %d shards was seen after %s", shards, time.Since(began).Round(time.Millisecond))
}

// pendingOf counts the records that a consumer was given and has not acknowledged.
func (r *redisServer) pendingOf(consumer string, shards int) (n int64) {
	r.t.Helper()
	for shard := range shards {
		consumers, err := r.Client.XInfoConsumers(r.t.Context(), shardKey(shard), group).Result()
		if err != nil {
			r.t.Fatal(err)
		}
		for _, one := range consumers {
			if one.Name == consumer {
				n += one.Pending
			}
		}
	}
	return n
}
