package consumer_test

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

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

const (
	stream = "orders"
	group  = "billing"
)

// patience bounds the waits for what must come; nothing waits that long.
const patience = redistest.Patience

// fast are timings for tests in which a lease is to end. A machine that stands still
// for half a second ends one too: where none must end, take steady.
var fast = protocol.Timings{HeartbeatInterval: 100 * time.Millisecond, Lease: time.Second, RebalanceTimeout: 2 * time.Second}

var steady = protocol.Timings{HeartbeatInterval: 100 * time.Millisecond, Lease: 15 * time.Second, RebalanceTimeout: 15 * time.Second}

// coordinator is the real one, in this process, behind the Transport interface.
type coordinator struct {
	*service.Coordinator

	mu sync.Mutex
	// away makes heartbeats fail.
	away bool
	// seen, if set, sees every heartbeat: when it is sent, without an answer, and
	// when it was answered.
	seen func(q *protocol.Heartbeat, r *protocol.HeartbeatResponse)
}

func newCoordinator(tb testing.TB, shards int, timings protocol.Timings, change ...func(*service.Ports)) *coordinator {
	tb.Helper()
	ports := service.Ports{Store: memstore.New(), Mutex: new(memstore.Mutex)}
	for _, c := range change {
		c(&ports)
	}
	c, err := service.New(service.Config{
		ID: "test", Timings: timings, TickInterval: 20 * time.Millisecond, RoutingLease: time.Second, Logger: quiet(),
	}, ports)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	tb.Cleanup(func() {
		stop()
		running.Wait()
		ctx, done := context.WithTimeout(context.Background(), patience)
		defer done()
		if err := c.Close(ctx); err != nil {
			tb.Errorf("close the coordinator: %v", err)
		}
	})
	if _, err := c.CreateStream(ctx, stream, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"}); err != nil {
		tb.Fatal(err)
	}
	return &coordinator{Coordinator: c}
}

var errAway = errors.New("the coordinator is away")

func (c *coordinator) Heartbeat(ctx context.Context, q *protocol.Heartbeat) (*protocol.HeartbeatResponse, error) {
	c.mu.Lock()
	away, seen := c.away, c.seen
	c.mu.Unlock()
	if away {
		return nil, errAway
	}
	if seen != nil {
		seen(q, nil)
	}
	r := c.Coordinator.Heartbeat(ctx, stream, group, q)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	away = c.away
	c.mu.Unlock()
	if away {
		return nil, errAway
	}
	if seen != nil {
		seen(q, &r)
	}
	return &r, nil
}

func (c *coordinator) setAway(away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = away
}

func (c *coordinator) watch(seen func(q *protocol.Heartbeat, r *protocol.HeartbeatResponse)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = seen
}

// quiet keeps what tests provoke out of their output.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// bed is a Redis with a provisioned stream, and a coordinator.
type bed struct {
	tb     testing.TB
	server *redistest.Server
	redis  *redis.Client
	coord  *coordinator
	shards int
	next   int
}

func newBed(tb testing.TB, shards int, timings protocol.Timings, change ...func(*service.Ports)) *bed {
	tb.Helper()
	s := redistest.Start(tb)
	b := &bed{tb: tb, server: s, redis: s.Client(), coord: newCoordinator(tb, shards, timings, change...), shards: shards}
	tb.Cleanup(func() { _ = b.redis.Close() })
	b.provision()
	return b
}

func (b *bed) provision() {
	b.tb.Helper()
	for i := range b.shards {
		if err := b.redis.XGroupCreateMkStream(context.Background(), key(i), group, "0").Err(); err != nil {
			b.tb.Fatal(err)
		}
	}
}

func key(shard int) string { return routing.StreamKey(stream, shard) }

// add appends n records, in turn to each shard; the payloads count up.
func (b *bed) add(n int) {
	b.tb.Helper()
	_, err := b.redis.Pipelined(context.Background(), func(p redis.Pipeliner) error {
		for range n {
			p.XAdd(context.Background(), &redis.XAddArgs{
				Stream: key(b.next % b.shards), NoMkStream: true,
				Values: []string{consumer.KeyField, "k" + strconv.Itoa(b.next%7), "n", strconv.Itoa(b.next)},
			})
			b.next++
		}
		return nil
	})
	if err != nil {
		b.tb.Fatal(err)
	}
}

// pending counts what is pending in all shards.
func (b *bed) pending() int {
	b.tb.Helper()
	n := 0
	for i := range b.shards {
		p, err := b.redis.XPending(context.Background(), key(i), group).Result()
		if err != nil {
			b.tb.Fatal(err)
		}
		n += int(p.Count)
	}
	return n
}

// config is that of a member that waits for a machine which stands still for a while:
// nothing is given up because of it. What ends by giving up takes hurried.
func (b *bed) config(id string, h consumer.Handler) consumer.Config {
	cfg := consumer.Unhurried(b.hurried(id, h))
	cfg.Redis.ReadTimeout, cfg.ShutdownTimeout = patience, patience
	return cfg
}

// hurried is config with the waits of the defaults, for tests with servers that are
// silent and with handlers that do not return.
func (b *bed) hurried(id string, h consumer.Handler) consumer.Config {
	return consumer.Config{
		Transport: b.coord, Stream: stream, Group: group, MemberID: id, Handler: h,
		Redis: redis.UniversalOptions{Addrs: []string{b.server.Addr}}, Logger: quiet(), ShutdownTimeout: 5 * time.Second,
	}
}

// isRead waits until a consumer has so many shards, has looked at what is pending in
// each, and waits for what is new.
func isRead(tb testing.TB, c *running, shards int) {
	tb.Helper()
	eventually(tb, "all shards are read", func() bool {
		n := 0
		for _, s := range c.Health().Shards {
			if s.State == consumer.ShardReading {
				n++
			}
		}
		return n == shards
	})
}

// inHand waits until a consumer has so many records of a shard in hand that it lets go of:
// those that were not begun are given back by then, and none begins any more.
func inHand(tb testing.TB, c *running, records int) {
	tb.Helper()
	eventually(tb, "what was not begun is given back", func() bool {
		for _, s := range c.Health().Shards {
			if s.State == consumer.ShardDraining && s.InHand == records {
				return true
			}
		}
		return false
	})
}

// running is a consumer whose Run is under way.
type running struct {
	*consumer.Consumer
	tb  testing.TB
	end context.CancelFunc
	// ended is closed when Run has returned err.
	ended chan struct{}
	err   error
}

func start(tb testing.TB, cfg consumer.Config) *running {
	tb.Helper()
	c, err := consumer.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	r := &running{Consumer: c, tb: tb, end: end, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = c.Run(ctx)
	}()
	tb.Cleanup(r.stop)
	return r
}

// stop ends Run and waits for it.
func (r *running) stop() {
	r.tb.Helper()
	r.end()
	select {
	case <-r.ended:
	case <-time.After(2 * patience):
		r.tb.Fatal("Run does not return")
	}
	if r.err != nil && !errors.Is(r.err, consumer.ErrStuck) {
		r.tb.Errorf("Run: %v", r.err)
	}
}

// journal keeps what handlers saw, and watches over the promises: never two
// handlers of one key in a shard at a time, and order within such a lane.
type journal struct {
	mu      sync.Mutex
	records []consumer.Record
	count   map[string]int
	active  map[laneID]string
	last    map[laneID]string
	wrong   []string
}

// laneID names the records that are kept in order.
type laneID struct {
	shard int
	key   string
}

func newJournal() *journal {
	return &journal{count: map[string]int{}, active: map[laneID]string{}, last: map[laneID]string{}}
}

func (l *journal) begin(who string, r consumer.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := laneID{r.Shard, r.Key}
	if other, busy := l.active[lane]; busy {
		l.wrong = append(l.wrong, fmt.Sprintf("%v is handled by %s and %s", lane, other, who))
	}
	l.active[lane] = who
	id := fmt.Sprintf("%d/%s", r.Shard, r.ID)
	if l.count[id] == 0 && !idLess(l.last[lane], r.ID) {
		l.wrong = append(l.wrong, fmt.Sprintf("%v: %s after %s", lane, r.ID, l.last[lane]))
	}
}

func (l *journal) finish(r consumer.Record, handled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := laneID{r.Shard, r.Key}
	delete(l.active, lane)
	if !handled {
		return
	}
	l.records = append(l.records, r)
	l.count[fmt.Sprintf("%d/%s", r.Shard, r.ID)]++
	if idLess(l.last[lane], r.ID) {
		l.last[lane] = r.ID
	}
}

func idLess(a, b string) bool {
	if a == "" {
		return b != ""
	}
	am, as, _ := strings.Cut(a, "-")
	bm, bs, _ := strings.Cut(b, "-")
	if len(am) != len(bm) {
		return len(am) < len(bm)
	}
	if am != bm {
		return am < bm
	}
	if len(as) != len(bs) {
		return len(as) < len(bs)
	}
	return as < bs
}

// handler makes a Handler that keeps the log around do.
func (l *journal) handler(who string, do consumer.Handler) consumer.Handler {
	return func(ctx context.Context, r consumer.Record) (err error) {
		l.begin(who, r)
		handled := false
		defer func() { l.finish(r, handled) }()
		if do != nil {
			err = do(ctx, r)
		}
		handled = err == nil
		return err
	}
}

// handled returns how many different records were handled, and how many more
// than once.
func (l *journal) handled() (distinct, again int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.count {
		if n > 1 {
			again++
		}
	}
	return len(l.count), again
}

func (l *journal) all() []consumer.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]consumer.Record(nil), l.records...)
}

// clean fails the test if a promise was broken.
func (l *journal) clean(tb testing.TB) {
	tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, w := range l.wrong {
		if i == 10 {
			tb.Errorf("and %d more", len(l.wrong)-i)
			break
		}
		tb.Error(w)
	}
}

// eventually waits until holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	atLast(tb, patience, what, holds)
}

// atLast is eventually with a limit of its own.
func atLast(tb testing.TB, limit time.Duration, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("in vain: %s", what)
		}
	}
}

// receive waits for a value.
func receive[T any](tb testing.TB, c <-chan T) (v T) {
	tb.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		tb.Fatal("in vain: a value")
	}
	return v
}

// await waits until n different records were handled.
func (l *journal) await(tb testing.TB, n int) {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		got, _ := l.handled()
		if got >= n {
			return
		}
		if time.Now().After(deadline) {
			l.clean(tb)
			tb.Fatalf("%d of %d records were handled", got, n)
		}
	}
}
