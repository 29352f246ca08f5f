package producer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

const stream = "orders"

var errAway = errors.New("coordinator is away")

// coordinator is a Transport that a test tells what to answer.
type coordinator struct {
	mu     sync.Mutex
	shards int
	lease  time.Duration
	err    error
	calls  int
	onCall func() // runs inside each request
	// answers is how many requests are answered, 0 for all; the others wait for the end
	// of their context.
	answers int
}

func newCoordinator(shards int) *coordinator {
	return &coordinator{shards: shards, lease: 30 * time.Second}
}

func (c *coordinator) Routing(ctx context.Context) (*protocol.Routing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
	if c.answers > 0 && c.calls > c.answers {
		c.mu.Unlock()
		<-ctx.Done()
		c.mu.Lock()
		return nil, context.Cause(ctx)
	}
	if c.onCall != nil {
		c.onCall()
	}
	if c.err != nil {
		return nil, c.err
	}
	r := &protocol.Routing{
		StreamPrefix: stream, ConsumerGroup: stream, MetadataVersion: int64(100 + c.shards), ShardCount: c.shards,
		Shards: []protocol.RouteShard{}, RoutingLeaseMs: c.lease.Milliseconds(),
	}
	// Any order is allowed, so the last comes first.
	for i := c.shards - 1; i >= 0; i-- {
		key := routing.StreamKey(stream, i)
		r.Shards = append(r.Shards, protocol.RouteShard{ShardIndex: protocol.ShardIndex(i), StreamKey: key, RedisSlot: routing.Slot(key)})
	}
	return r, nil
}

func (c *coordinator) set(change func(*coordinator)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *coordinator) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls
}

// quiet keeps what tests provoke out of their output.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// options has the client wait for a server as long as the slowest machine may take: what
// it does when it has waited in vain is for tests that say so.
func options(addrs ...string) redis.UniversalOptions {
	return redis.UniversalOptions{
		Addrs: addrs, DialerRetries: 1, DialTimeout: redistest.Patience,
		ReadTimeout: redistest.Patience, WriteTimeout: redistest.Patience, PoolTimeout: redistest.Patience,
	}
}

// begin makes a producer for the server at addr that does not send anything again by
// itself.
func begin(tb testing.TB, c producer.Transport, addr string, change ...func(*producer.Config)) *producer.Producer {
	tb.Helper()
	cfg := producer.Config{
		Transport: c, Stream: stream, Logger: quiet(), RetryFor: -1,
		Redis: options(addr),
	}
	for _, f := range change {
		f(&cfg)
	}
	p, err := producer.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// open is begin, and closes the producer when the test ends.
func open(tb testing.TB, c producer.Transport, addr string, change ...func(*producer.Config)) *producer.Producer {
	tb.Helper()
	p := begin(tb, c, addr, change...)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
		defer cancel()
		if err := p.Close(ctx); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return p
}

// refreshSeldom and a coordinator that grants long leases leave it to the producer alone
// when the routing is asked for again.
func refreshSeldom(cfg *producer.Config) { cfg.RefreshInterval = time.Hour }

func seldom(c *coordinator) *coordinator {
	c.lease = 24 * time.Hour
	return c
}

// piped leads a producer in a bubble of testing/synctest to a stub of NewPipeStub.
func piped(stub *redistest.Stub) func(*producer.Config) {
	return func(cfg *producer.Config) { cfg.Redis.Dialer = stub.Dial }
}

// watched tells when somebody begins to wait for its end.
type watched struct {
	context.Context
	once  sync.Once
	asked chan struct{}
}

func watch(ctx context.Context) *watched { return &watched{Context: ctx, asked: make(chan struct{})} }

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

// provision creates the shards' keys, empty.
func provision(tb testing.TB, client redis.UniversalClient, shards int) {
	tb.Helper()
	for i := range shards {
		if err := client.XGroupCreateMkStream(tb.Context(), routing.StreamKey(stream, i), "g", "0").Err(); err != nil {
			tb.Fatal(err)
		}
	}
}

func message(key, body string) producer.Message {
	return producer.Message{Key: key, Payload: []byte(body)}
}

// numbered returns n messages over keys keys whose payloads count up.
func numbered(n, keys int) []producer.Message {
	out := make([]producer.Message, n)
	for i := range out {
		out[i] = message("k"+strconv.Itoa(i%keys), strconv.Itoa(i))
	}
	return out
}

// payloads returns what a shard holds, in order.
func payloads(tb testing.TB, client redis.UniversalClient, shard int) []string {
	tb.Helper()
	records, err := client.XRange(tb.Context(), routing.StreamKey(stream, shard), "-", "+").Result()
	if err != nil {
		tb.Fatal(err)
	}
	out := []string{}
	for _, r := range records {
		out = append(out, fmt.Sprint(r.Values[producer.PayloadField]))
	}
	return out
}

// wantError checks code, outcome and the words of an error.
func wantError(tb testing.TB, err error, want *producer.PublishError, words ...string) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("got %v, want %s", err, want.Code)
	}
	if got := details(tb, err); got.Outcome != want.Outcome {
		tb.Fatalf("outcome of %v is %s, want %s", err, details(tb, err).Outcome, want.Outcome)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			tb.Errorf("%q does not mention %q", err, w)
		}
	}
}

// details returns what an error says besides its text.
func details(tb testing.TB, err error) *producer.PublishError {
	tb.Helper()
	var got *producer.PublishError
	if !errors.As(err, &got) {
		tb.Fatalf("%v is no *PublishError", err)
	}
	return got
}

// codes writes the results of a batch as ok, or the code of the error.
func codes(results []producer.Result) string {
	var out []string
	for _, r := range results {
		var e *producer.PublishError
		switch {
		case r.Err == nil:
			out = append(out, "ok")
		case errors.As(r.Err, &e):
			out = append(out, e.Code)
		default:
			out = append(out, r.Err.Error())
		}
	}
	return strings.Join(out, " ")
}

func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	redistest.Eventually(tb, what, holds)
}
