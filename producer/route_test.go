package producer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

// The stream has fewer shards than the producer knows: the key is gone, the
// coordinator is asked once, and the message goes where it belongs now.
func TestStaleRouteIsRefreshed(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	c := newCoordinator(4)
	p := open(t, c, server.Addr)
	if _, err := p.Publish(t.Context(), message("user:1", "before")); err != nil {
		t.Fatal(err)
	}
	asked := c.asked()

	c.set(func(c *coordinator) { c.shards = 2 })
	server.Client.Del(t.Context(), "orders:2", "orders:3")
	receipt, err := p.Publish(t.Context(), message("user:1", "after")) // shard 3 of 4, 1 of 2
	if err != nil {
		t.Fatal(err)
	}
	if receipt.Shard != 1 || receipt.MetadataVersion != 102 {
		t.Errorf("receipt %+v", receipt)
	}
	if n := c.asked() - asked; n != 1 {
		t.Errorf("the coordinator was asked %d times, want once", n)
	}
	if server.Client.Exists(t.Context(), "orders:3").Val() != 0 {
		t.Error("the key that was given up exists again")
	}
}

func TestStaleRouteInABatch(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	c := newCoordinator(4)
	p := open(t, c, server.Addr, func(cfg *producer.Config) { cfg.PipelineMessages = 7 })
	eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })
	c.set(func(c *coordinator) { c.shards = 1 })
	server.Client.Del(t.Context(), "orders:1", "orders:2", "orders:3")
	results, err := p.PublishBatch(t.Context(), numbered(100, 10))
	if err != nil {
		t.Fatalf("%v: %s", err, codes(results))
	}
	next := make(map[string]int)
	for _, r := range server.Client.XRange(t.Context(), "orders:0", "-", "+").Val() {
		key := fmt.Sprint(r.Values["rsc-key"])
		var i int
		if _, err := fmt.Sscan(fmt.Sprint(r.Values["payload"]), &i); err != nil {
			t.Fatal(err)
		}
		if i/10 != next[key] {
			t.Fatalf("key %s: message %d is stored where number %d belongs", key, i, next[key])
		}
		next[key]++
	}
	if len(next) != 10 {
		t.Errorf("records of %d keys are stored, want 10", len(next))
	}
}

func TestMissingShardThatTheCoordinatorStillNames(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 2)
	server.Client.Del(t.Context(), "orders:1")
	c := newCoordinator(2)
	p := open(t, c, server.Addr)
	_, err := p.Publish(t.Context(), message("user:1", "x"))
	wantError(t, err, producer.ErrShardMissing, "publish to orders:1", "same Redis and database")
	if got := details(t, err); !got.Retryable || got.StreamKey != "orders:1" {
		t.Errorf("%+v", got)
	}
	if server.Client.Exists(t.Context(), "orders:1").Val() != 0 {
		t.Error("the producer created the key")
	}
	// The other shard is not touched by this.
	results, err := p.PublishBatch(t.Context(), []producer.Message{message("user:1", "1"), message("user:1", "2"), message("a", "3")})
	if got, want := codes(results), "SHARD_MISSING SHARD_MISSING ok"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	wantError(t, err, producer.ErrShardMissing, "2 of 3")
}

func TestMissingShardWhileTheCoordinatorIsAway(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	c := newCoordinator(1)
	p := open(t, c, server.Addr)
	eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })
	server.Client.Del(t.Context(), "orders:0")
	c.set(func(c *coordinator) { c.err = errAway })
	_, err := p.Publish(t.Context(), message("k", "x"))
	wantError(t, err, producer.ErrShardMissing, "orders:0", "could not be refreshed", "coordinator is away")
}

// A routing that changes with every answer does not keep a message going for ever.
func TestRouteThatNeverSettles(t *testing.T) {
	c := newCoordinator(1)
	c.onCall = func() { c.shards = 3 - c.shards } // 2, 1, 2, …: the key is on another shard each time
	stub := redistest.NewStub(t, func([]string) string { return "$-1\r\n" })
	p := open(t, c, stub.Addr)
	_, err := p.Publish(t.Context(), message("user:1", "x"))
	wantError(t, err, producer.ErrShardMissing)
	if n := len(stub.Seen()); n != 2 {
		t.Errorf("the message was sent %d times, want twice", n)
	}
}

// While the coordinator is away publishing goes on, until the lease ends; then it
// is refused; and it goes on when the coordinator is back.
func TestCoordinatorAway(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	c := newCoordinator(1)
	c.lease = time.Second
	p := open(t, c, server.Addr)
	if _, err := p.Publish(t.Context(), message("k", "1")); err != nil {
		t.Fatal(err)
	}
	c.set(func(c *coordinator) { c.err = errAway })
	eventually(t, "a refresh to fail", func() bool { r, _ := p.Routing(); return r.RefreshError != nil })
	known, _ := p.Routing()

	stored := 1
	var err error
	for err == nil {
		before := time.Now()
		if _, err = p.Publish(t.Context(), message("k", "x")); err == nil {
			stored++
			if !before.Before(known.ExpiresAt) {
				t.Fatalf("published %s after the lease", time.Since(known.ExpiresAt))
			}
		}
		if time.Since(known.ExpiresAt) > 5*time.Second {
			t.Fatal("publishing never stops")
		}
	}
	if time.Now().Before(known.ExpiresAt) {
		t.Errorf("refused before the lease ended: %v", err)
	}
	wantError(t, err, producer.ErrRoutingExpired, "lease is over", "coordinator is away")
	if stored < 10 {
		t.Errorf("only %d records were published under the lease", stored)
	}
	// Refused at once, without waiting for a coordinator.
	began := time.Now()
	results, err := p.PublishBatch(t.Context(), numbered(3, 3))
	wantError(t, err, producer.ErrRoutingExpired)
	if got, want := codes(results), "ROUTING_EXPIRED ROUTING_EXPIRED ROUTING_EXPIRED"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if d := time.Since(began); d > 500*time.Millisecond {
		t.Errorf("refusing took %s", d)
	}
	if n := server.Client.XLen(t.Context(), "orders:0").Val(); int(n) != stored {
		t.Errorf("%d records are stored, %d were confirmed", n, stored)
	}

	c.set(func(c *coordinator) { c.err = nil })
	back := time.Now()
	eventually(t, "publishing to resume", func() bool { _, err := p.Publish(t.Context(), message("k", "x")); return err == nil })
	if d := time.Since(back); d > 3*time.Second {
		t.Errorf("resuming took %s", d)
	}
}

// The lease is looked at before every part of a batch.
func TestLeaseThatEndsWithinABatch(t *testing.T) {
	c := newCoordinator(1)
	c.lease = 300 * time.Millisecond
	stub := redistest.NewStub(t, func([]string) string {
		c.set(func(c *coordinator) { c.err = errAway })
		time.Sleep(120 * time.Millisecond) // a slow server
		return redistest.Bulk("1-1")
	})
	p := open(t, c, stub.Addr, func(cfg *producer.Config) { cfg.PipelineMessages = 1 })
	results, err := p.PublishBatch(t.Context(), numbered(20, 20))
	wantError(t, err, producer.ErrRoutingExpired)
	ok := 0
	for _, r := range results {
		if r.Err == nil {
			ok++
			continue
		}
		wantError(t, r.Err, producer.ErrRoutingExpired)
	}
	if ok < 1 || ok > 3 || ok != len(stub.Seen()) {
		t.Errorf("%d of 20 slow messages were stored under the lease, the server saw %d", ok, len(stub.Seen()))
	}
}

func TestFirstPublishWaitsForTheRouting(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	c := newCoordinator(1)
	c.err = errAway
	p := open(t, c, server.Addr)

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := p.Publish(ctx, message("k", "x"))
	wantError(t, err, producer.ErrNoRouting, "coordinator is away")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v does not name the deadline", err)
	}

	done := make(chan error, 1)
	go func() {
		_, err := p.Publish(t.Context(), message("k", "x"))
		done <- err
	}()
	asked := c.asked()
	eventually(t, "two more attempts", func() bool { return c.asked() >= asked+2 })
	select {
	case err := <-done:
		t.Fatalf("the first publish did not wait: %v", err)
	default:
	}
	c.set(func(c *coordinator) { c.err = nil })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A refusal is not worth waiting for.
func TestCoordinatorThatRefuses(t *testing.T) {
	c := newCoordinator(1)
	c.err = protocol.ErrStreamNotFound
	p := open(t, c, "127.0.0.1:1")
	_, err := p.Publish(t.Context(), message("k", "x"))
	wantError(t, err, producer.ErrRoutingRefused, "check that the stream exists")
	if !errors.Is(err, protocol.ErrStreamNotFound) {
		t.Errorf("%v does not tell the cause", err)
	}
	c.set(func(c *coordinator) { c.err = protocol.ErrStoreUnavailable })
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	eventually(t, "a failure that passes to be waited out", func() bool {
		r, _ := p.Routing()
		return errors.Is(r.RefreshError, protocol.ErrStoreUnavailable)
	})
	_, err = p.Publish(ctx, message("k", "x"))
	wantError(t, err, producer.ErrNoRouting)
}
