package producer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
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
	c := seldom(newCoordinator(4))
	p := open(t, c, server.Addr, refreshSeldom)
	// Whoever waits for the first one has it asked for once more.
	eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })
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
	c := seldom(newCoordinator(1))
	c.onCall = func() { c.shards = 3 - c.shards } // 2, 1, 2, …: the key is on another shard each time
	stub := redistest.NewStub(t, func([]string) string { return "$-1\r\n" })
	p := open(t, c, stub.Addr, refreshSeldom)
	eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })
	_, err := p.Publish(t.Context(), message("user:1", "x"))
	wantError(t, err, producer.ErrShardMissing)
	if n := len(stub.Seen()); n != 2 {
		t.Errorf("the message was sent %d times, want twice", n)
	}
}

// While the coordinator is away publishing goes on, until the lease ends; then it
// is refused; and it goes on when the coordinator is back.
func TestCoordinatorAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := redistest.NewPipeStub(t, func([]string) string { return redistest.Bulk("1-1") })
		c := newCoordinator(1)
		p := open(t, c, stub.Addr, piped(stub))
		if _, err := p.Publish(t.Context(), message("k", "1")); err != nil {
			t.Fatal(err)
		}
		c.set(func(c *coordinator) { c.err = errAway })
		time.Sleep(15 * time.Second)
		known, _ := p.Routing()
		if known.RefreshError == nil {
			t.Error("no refresh has failed")
		}
		for time.Until(known.ExpiresAt) > 0 {
			if _, err := p.Publish(t.Context(), message("k", "x")); err != nil {
				t.Fatalf("%s before the lease ends: %v", time.Until(known.ExpiresAt), err)
			}
			time.Sleep(min(time.Second, time.Until(known.ExpiresAt)))
		}
		stored := len(stub.Seen())
		if stored < 10 {
			t.Errorf("only %d records were published under the lease", stored)
		}
		// Refused at once, without waiting for a coordinator.
		_, err := p.Publish(t.Context(), message("k", "x"))
		wantError(t, err, producer.ErrRoutingExpired, "lease is over", "coordinator is away")
		results, err := p.PublishBatch(t.Context(), numbered(3, 3))
		wantError(t, err, producer.ErrRoutingExpired)
		if got, want := codes(results), "ROUTING_EXPIRED ROUTING_EXPIRED ROUTING_EXPIRED"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if d := time.Since(known.ExpiresAt); d != 0 {
			t.Errorf("refusing took %s", d)
		}
		if n := len(stub.Seen()); n != stored {
			t.Errorf("%d records are stored, %d were confirmed", n, stored)
		}

		c.set(func(c *coordinator) { c.err = nil })
		time.Sleep(1200 * time.Millisecond) // the longest pause between two requests
		if _, err := p.Publish(t.Context(), message("k", "x")); err != nil {
			t.Errorf("with a coordinator again: %v", err)
		}
	})
}

// The lease is looked at before every part of a batch.
func TestLeaseThatEndsWithinABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator(1)
		c.lease = 300 * time.Millisecond
		stub := redistest.NewPipeStub(t, func([]string) string {
			c.set(func(c *coordinator) { c.err = errAway })
			time.Sleep(120 * time.Millisecond) // a slow server
			return redistest.Bulk("1-1")
		})
		p := open(t, c, stub.Addr, piped(stub), func(cfg *producer.Config) { cfg.PipelineMessages = 1 })
		results, err := p.PublishBatch(t.Context(), numbered(20, 20))
		wantError(t, err, producer.ErrRoutingExpired)
		if got, want := codes(results), "ok ok ok"+strings.Repeat(" ROUTING_EXPIRED", 17); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := len(stub.Seen()); n != 3 {
			t.Errorf("%d slow messages were stored, want those begun under the lease", n)
		}
	})
}

func TestFirstPublishWaitsForTheRouting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := redistest.NewPipeStub(t, func([]string) string { return redistest.Bulk("1-1") })
		c := newCoordinator(1)
		c.err = errAway
		p := open(t, c, stub.Addr, piped(stub))

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
		time.Sleep(time.Hour)
		select {
		case err := <-done:
			t.Fatalf("the first publish did not wait: %v", err)
		default:
		}
		c.set(func(c *coordinator) { c.err = nil })
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// A refusal is not worth waiting for.
func TestCoordinatorThatRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator(1)
		c.err = protocol.ErrStreamNotFound
		p := open(t, c, "127.0.0.1:1")
		_, err := p.Publish(t.Context(), message("k", "x"))
		wantError(t, err, producer.ErrRoutingRefused, "check that the stream exists")
		if !errors.Is(err, protocol.ErrStreamNotFound) {
			t.Errorf("%v does not tell the cause", err)
		}
		// A failure that passes is waited out.
		c.set(func(c *coordinator) { c.err = protocol.ErrStoreUnavailable })
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = p.Publish(ctx, message("k", "x"))
		wantError(t, err, producer.ErrNoRouting)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: it did not wait", err)
		}
	})
}
