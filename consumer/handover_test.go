package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// TestTakesOverWhatIsPendingFirst: an earlier owner died with records in hand;
// some of them were deleted since. All the rest comes first, in order.
func TestTakesOverWhatIsPendingFirst(t *testing.T) {
	b := newBed(t, 1, steady)
	b.add(25)
	ctx := context.Background()
	read, err := b.redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "dead", Streams: []string{key(0), ">"}, Count: 20}).Result()
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{}
	for _, m := range read[0].Messages {
		ids = append(ids, m.ID)
	}
	// Another took some of them over, so they do not lie in the order of ids.
	if err := b.redis.XClaim(ctx, &redis.XClaimArgs{Stream: key(0), Group: group, Consumer: "also dead", Messages: []string{ids[17], ids[3]}}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := b.redis.XDel(ctx, key(0), ids[2], ids[3], ids[11]).Err(); err != nil {
		t.Fatal(err)
	}
	l := newJournal()
	cfg := b.config("a", l.handler("a", nil))
	cfg.BatchSize = 4
	c := start(t, cfg)
	l.await(t, 22)
	c.stop()
	l.clean(t)
	for _, r := range l.all() {
		want := 1
		switch {
		case r.ID == ids[17]:
			want = 3
		case !idLess(ids[19], r.ID):
			want = 2
		}
		if r.Deliveries != want {
			t.Errorf("record %s has %d deliveries, want %d", r.ID, r.Deliveries, want)
		}
	}
	if s := c.Stats(); s.Recovered != 17 || s.Deleted != 3 {
		t.Errorf("stats %+v, want 17 recovered and 3 deleted", s)
	}
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
}

// TestHandsOverInOrder: members come and go while records flow.
func TestHandsOverInOrder(t *testing.T) {
	b := newBed(t, 6, steady)
	l := newJournal()
	var stop atomic.Bool
	var producing sync.WaitGroup
	producing.Go(func() {
		for !stop.Load() {
			b.add(30)
			time.Sleep(5 * time.Millisecond)
		}
	})
	slow := func(context.Context, consumer.Record) error {
		time.Sleep(200 * time.Microsecond)
		return nil
	}
	members := map[string]*running{}
	for _, id := range []string{"a", "b", "c"} {
		members[id] = start(t, b.config(id, l.handler(id, slow)))
		n, _ := l.handled()
		l.await(t, n+200)
	}
	members["a"].stop()
	n, _ := l.handled()
	l.await(t, n+200)
	members["d"] = start(t, b.config("d", l.handler("d", slow)))
	n, _ = l.handled()
	l.await(t, n+200)
	stop.Store(true)
	producing.Wait()
	l.await(t, b.next)
	for _, id := range []string{"b", "c", "d"} {
		members[id].stop()
	}
	l.clean(t)
	distinct, again := l.handled()
	if distinct != b.next || again != 0 {
		t.Errorf("%d of %d records were handled, %d of them twice", distinct, b.next, again)
	}
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
}

// TestRevokeDuringASlowHandler: what is begun is finished and acknowledged; what is
// behind it was read already, and is the next owner's, who counts it for the first
// time.
func TestRevokeDuringASlowHandler(t *testing.T) {
	b := newBed(t, 2, steady)
	b.add(20)
	l := newJournal()
	release := make(chan struct{})
	var waiting atomic.Int32
	slow := func(ctx context.Context, _ consumer.Record) error {
		waiting.Add(1)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	a := start(t, b.config("a", l.handler("a", slow)))
	// Seven keys in two shards; behind them three records of each shard wait.
	eventually(t, "a has a record of each key in hand", func() bool { return waiting.Load() == 14 && b.pending() == 20 })
	var revoked atomic.Bool
	b.coord.watch(func(q *protocol.Heartbeat, _ *protocol.HeartbeatResponse) {
		if q.MemberID == "a" && len(q.RevokingShards) > 0 {
			if row := q.RevokingShards[0]; row.State == protocol.RevokeDraining && row.InFlight > 0 {
				revoked.Store(true)
			}
		}
	})
	second := start(t, b.config("b", l.handler("b", nil)))
	eventually(t, "a reports that it drains", revoked.Load)
	if n, _ := l.handled(); n != 0 {
		t.Errorf("%d records were handled while their shard's owner worked", n)
	}
	inHand(t, a, 7)
	close(release)
	l.await(t, 20)
	l.clean(t)
	if _, again := l.handled(); again != 0 {
		t.Errorf("%d records were handled twice", again)
	}
	if s := second.Stats(); s.Recovered != 3 {
		t.Errorf("b took %d records over, want the 3 that a had read and not begun", s.Recovered)
	}
	for _, r := range l.all() {
		if r.Deliveries != 1 {
			t.Errorf("record %s has %d deliveries, and was begun once", r.ID, r.Deliveries)
		}
	}
}

// stopClock is a coordinator's clock that can be stopped: nobody is late by it then.
type stopClock struct {
	start time.Time

	mu      sync.Mutex
	stopped bool
	at      time.Duration
	// lost is how long it was stopped.
	lost time.Duration
}

func (c *stopClock) Wall() time.Time { return c.start.Add(c.Mono()) }

func (c *stopClock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.at = time.Since(c.start) - c.lost
	}
	return c.at
}

func (c *stopClock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

func (c *stopClock) goOn() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped, c.lost = false, time.Since(c.start)-c.at
}

// TestRevokeTimeoutCancelsTheHandler: a handler that does not finish is
// cancelled in time for the shard to be let go of without being fenced.
func TestRevokeTimeoutCancelsTheHandler(t *testing.T) {
	t.Parallel() // it is mostly waiting
	// The lease is not to end: it lasts longer than a machine stands still.
	timings := protocol.Timings{HeartbeatInterval: 100 * time.Millisecond, Lease: 6 * time.Second, RebalanceTimeout: 6 * time.Second}
	clock := &stopClock{start: time.Now()}
	b := newBed(t, 2, timings, func(p *service.Ports) { p.Clock = clock })
	b.add(2)
	l := newJournal()
	causes := make(chan error, 2)
	var waiting atomic.Int32
	stubborn := func(ctx context.Context, _ consumer.Record) error {
		waiting.Add(1)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return context.Cause(ctx)
	}
	cfg := b.config("a", l.handler("a", stubborn))
	var book logbook
	cfg.ShutdownTimeout, cfg.MaxWait, cfg.Logger = time.Second, -1, book.logger()
	a := start(t, cfg)
	eventually(t, "a has a record of each shard in hand", func() bool { return waiting.Load() == 2 })
	start(t, b.config("b", l.handler("b", nil)))
	eventually(t, "a is to let a shard go", func() bool { return len(book.find("shard revoked")) == 1 })
	// Whatever holds a up from here on, it is not late. That it gives itself less time than
	// it has is to be seen.
	clock.stop()
	within, err := time.ParseDuration(book.find("shard revoked")[0].attrs["within"])
	if most := timings.RebalanceTimeout - protocol.LeaseMargin(timings.RebalanceTimeout); err != nil || within > most {
		t.Errorf("a gives itself %s, %v, want %s at most", within, err, most)
	}
	l.await(t, 1)
	if cause := receive(t, causes); !errors.Is(cause, consumer.ErrRevokeTimeout) {
		t.Errorf("the handler's context ended with %v", cause)
	}
	// It may be too late for its goodbye: then its lease has to end.
	clock.goOn()
	a.end()
	if cause := receive(t, causes); !errors.Is(cause, consumer.ErrShutdownTimeout) {
		t.Errorf("the other handler's context ended with %v", cause)
	}
	l.await(t, 2)
	l.clean(t)
}

// TestErrorsAndPanicsAreTriedAgain: in front of their lane, so that order is kept.
func TestErrorsAndPanicsAreTriedAgain(t *testing.T) {
	b := newBed(t, 1, steady)
	b.add(10)
	l := newJournal()
	var calls [10]int
	moody := func(_ context.Context, r consumer.Record) error {
		var n int
		if _, err := fmt.Sscan(r.Values["n"], &n); err != nil {
			return err
		}
		calls[n]++
		switch {
		case n == 3 && calls[n] < 3:
			return errors.New("not now")
		case n == 5 && calls[n] < 2:
			panic("oh")
		}
		return nil
	}
	c := start(t, b.config("a", l.handler("a", moody)))
	l.await(t, 10)
	c.stop()
	l.clean(t)
	if calls[3] != 3 || calls[5] != 2 {
		t.Errorf("calls %v", calls)
	}
	if s := c.Stats(); s.Failed != 3 || s.Handled != 10 {
		t.Errorf("stats %+v", s)
	}
}

// TestLeaseEndStopsEverything: the coordinator is away. Reading stops when the
// lease ends, nothing is acknowledged after that, and all goes on when it is back.
func TestLeaseEndStopsEverything(t *testing.T) {
	b := newBed(t, 2, fast)
	l := newJournal()
	causes := make(chan error, 100)
	var block atomic.Bool
	var blocked atomic.Int32
	c := start(t, b.config("a", l.handler("a", func(ctx context.Context, _ consumer.Record) error {
		if !block.Load() {
			return nil
		}
		blocked.Add(1)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		// It says that all went well, but too late.
		return nil
	})))
	b.add(10)
	l.await(t, 10)
	eventually(t, "all is acknowledged", func() bool { return b.pending() == 0 })
	block.Store(true)
	b.add(4)
	eventually(t, "the handlers run", func() bool { return blocked.Load() >= 4 && b.pending() == 4 })
	b.coord.setAway(true)
	watch := redistest.StartWatch(t)
	for range 4 {
		if cause := receive(t, causes); !errors.Is(cause, consumer.ErrLeaseEnded) {
			t.Errorf("the handler's context ended with %v", cause)
		}
	}
	watch.Within(fast.Lease, "the end of the lease without a coordinator")
	eventually(t, "the lease is over", func() bool { return c.LeaseLeft() <= 0 })
	time.Sleep(100 * time.Millisecond) // ten times as long as acknowledgements are collected
	if n := b.pending(); n != 4 {
		t.Errorf("%d records are pending, and 4 were not handled in time", n)
	}
	block.Store(false)
	b.coord.setAway(false)
	eventually(t, "the rest is handled and acknowledged", func() bool { return b.pending() == 0 })
	b.add(4)
	l.await(t, 18)
	c.stop()
}

// TestTwinWaits: of two processes with one id the one started last works.
func TestTwinWaits(t *testing.T) {
	b := newBed(t, 2, steady)
	l := newJournal()
	causes := make(chan error, 8)
	var first atomic.Int32
	old := start(t, b.config("a", func(ctx context.Context, _ consumer.Record) error {
		if first.Add(1) > 2 {
			return nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return context.Cause(ctx)
	}))
	b.add(2)
	eventually(t, "the first has both shards", func() bool { return first.Load() == 2 })
	young := start(t, b.config("a", l.handler("young", nil)))
	if cause := receive(t, causes); !errors.Is(cause, consumer.ErrFenced) {
		t.Errorf("the context of the first ended with %v", cause)
	}
	l.await(t, 2)
	b.add(20)
	l.await(t, 22)
	l.clean(t)
	if n := first.Load(); n != 2 {
		t.Errorf("the first went on: %d calls", n)
	}
	// When the second leaves, the first may work again.
	young.stop()
	b.add(2)
	eventually(t, "the first goes on", func() bool { return first.Load() > 2 })
	old.stop()
}

// TestStopsInTime: Run returns at the shutdown timeout, whatever handlers do.
func TestStopsInTime(t *testing.T) {
	b := newBed(t, 1, steady)
	b.add(1)
	stuck := make(chan struct{})
	var begun atomic.Bool
	cfg := b.hurried("a", func(context.Context, consumer.Record) error {
		begun.Store(true)
		<-stuck
		return nil
	})
	cfg.ShutdownTimeout = 300 * time.Millisecond
	c := start(t, cfg)
	eventually(t, "the handler runs", begun.Load)
	watch := redistest.StartWatch(t)
	c.stop()
	if !errors.Is(c.err, consumer.ErrStuck) {
		t.Errorf("Run returned %v", c.err)
	}
	watch.Within(cfg.ShutdownTimeout+500*time.Millisecond, "the stop")
	close(stuck)
}

func TestCloseWaitsAndCanBeCutShort(t *testing.T) {
	b := newBed(t, 1, steady)
	b.add(1)
	var begun atomic.Bool
	c := start(t, b.config("a", func(ctx context.Context, _ consumer.Record) error {
		begun.Store(true)
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	eventually(t, "the handler runs", begun.Load)
	ctx, done := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer done()
	if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close returned %v", err)
	}
	receive(t, c.ended) // with Close
	for range 2 {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("Close again: %v", err)
		}
	}
	if err := c.Run(context.Background()); !errors.Is(err, consumer.ErrClosed) {
		t.Errorf("Run again: %v", err)
	}
}

func TestCloseBeforeRun(t *testing.T) {
	b := newCoordinator(t, 1, fast)
	c, err := consumer.New(consumer.Config{
		Transport: b, Stream: stream, Group: group,
		Handler: func(context.Context, consumer.Record) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := c.Run(context.Background()); !errors.Is(err, consumer.ErrClosed) {
		t.Errorf("Run: %v", err)
	}
}

// deliverLate adds a record that is delivered to the old owner, and one after it.
func (b *bed) deliverLate() {
	b.tb.Helper()
	ctx := context.Background()
	_, err := b.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.XAdd(ctx, &redis.XAddArgs{Stream: key(0), Values: []string{"n", "to the old owner"}})
		p.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "old", Streams: []string{key(0), ">"}, Block: -1})
		p.XAdd(ctx, &redis.XAddArgs{Stream: key(0), Values: []string{"n", "to us"}})
		return nil
	})
	if err != nil {
		b.tb.Fatal(err)
	}
}

// TestALateDeliveryToTheOldOwner: a reader of an earlier owner that was paused is
// served after the new owner has looked at the pending list. Within a lease time of
// the take-over, that comes in order.
func TestALateDeliveryToTheOldOwner(t *testing.T) {
	b := newBed(t, 1, steady)
	l := newJournal()
	start(t, b.config("a", l.handler("a", nil)))
	b.add(1)
	l.await(t, 1)
	b.deliverLate()
	l.await(t, 3)
	l.clean(t)
	for i, want := range []string{"to the old owner", "to us"} {
		if got := l.all()[1+i].Values["n"]; got != want {
			t.Errorf("record %d is %q, want %q", 1+i, got, want)
		}
	}
	eventually(t, "all is acknowledged", func() bool { return b.pending() == 0 })
}

// TestALaterDeliveryToTheOldOwner: one that comes after that is found by the sweep,
// within a lease time.
func TestALaterDeliveryToTheOldOwner(t *testing.T) {
	b := newBed(t, 1, fast)
	l := newJournal()
	start(t, b.config("a", l.handler("a", nil)))
	b.add(1)
	l.await(t, 1)
	time.Sleep(fast.Lease)
	b.deliverLate()
	watch := redistest.StartWatch(t)
	l.await(t, 3)
	watch.Within(fast.Lease+fast.Lease/2, "it is found")
	eventually(t, "all is acknowledged", func() bool { return b.pending() == 0 })
}

// TestLeavesNothingBehind: no goroutine of ours, and none of the Redis client,
// outlives Run; in Redis no connection does.
func TestLeavesNothingBehind(t *testing.T) {
	b := newBed(t, 4, steady)
	l := newJournal()
	for round := range 3 {
		c := start(t, b.config("a", l.handler("a", nil)))
		b.add(100)
		l.await(t, 100*(round+1))
		c.stop()
	}
	for deadline := time.Now().Add(patience); leftovers() != ""; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left behind:\n%s", leftovers())
		}
	}
	connections := func() (others []string) {
		for line := range strings.Lines(b.redis.ClientList(context.Background()).Val()) {
			if !strings.Contains(line, redistest.ClientName) {
				others = append(others, line)
			}
		}
		return others
	}
	for deadline := time.Now().Add(patience); len(connections()) > 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("connections are left behind: %q", connections())
		}
	}
	if distinct, again := l.handled(); distinct != 300 || again != 0 {
		t.Errorf("%d records were handled, %d twice", distinct, again)
	}
}

// leftovers returns the stacks of goroutines that run our code or wait in the
// pool of a Redis client.
func leftovers() string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var ours []string
	for _, stack := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(stack, "testing.(*M).Run") {
			continue // it runs the tests
		}
		if strings.Contains(stack, "rsc/consumer.") || strings.Contains(stack, "go-redis/v9/internal/pool") {
			ours = append(ours, stack)
		}
	}
	return strings.Join(ours, "\n\n")
}
