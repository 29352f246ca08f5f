package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// blocked reports whether a reader waits on the server.
func (b *bed) blocked() bool {
	b.tb.Helper()
	for line := range strings.Lines(b.redis.ClientList(context.Background()).Val()) {
		if strings.Contains(line, "cmd=xreadgroup") && strings.Contains(line, " flags=b ") {
			return true
		}
	}
	return false
}

// TestCloseRace: whole consumers are closed while they read and a record arrives,
// a little before or a little after. Close is quick, and the record is handled
// once, by this consumer or at once by the next.
func TestCloseRace(t *testing.T) {
	const lanes, rounds = 4, 250
	var mu sync.Mutex
	var stops []time.Duration
	var racing sync.WaitGroup
	for lane := range lanes {
		// Each on servers of its own, or their joins would wait for each other.
		b := newBed(t, 1, steady)
		racing.Go(func() {
			took := closeRace(t, b, rand.New(rand.NewPCG(uint64(lane), 1)), rounds)
			mu.Lock()
			defer mu.Unlock()
			stops = append(stops, took...)
		})
	}
	machine := pings(t, &racing)
	if t.Failed() {
		return
	}
	p99 := percentile(stops, 99)
	t.Logf("%d stops: half of them took up to %s, p99 %s, the longest %s; p99 of a PING beside them %s",
		len(stops), percentile(stops, 50), p99, percentile(stops, 100), machine)
	// A stop is a handful of round trips, each of which a busy machine holds up.
	if limit := 200*time.Millisecond + 5*machine; p99 >= limit {
		t.Errorf("p99 of the stops is %s, want less than %s", p99, limit)
	}
	for deadline := time.Now().Add(patience); leftovers() != ""; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("left behind:\n%s", leftovers())
		}
	}
}

// pings asks a server of its own until work is done, and returns the p99 of the
// round trips: what the machine itself holds up.
func pings(t *testing.T, work *sync.WaitGroup) time.Duration {
	t.Helper()
	client := redistest.Start(t).Client()
	defer func() { _ = client.Close() }()
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	var took []time.Duration
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case <-done:
			return percentile(took, 99)
		case <-pause.C:
		}
		begin := time.Now()
		if err := client.Ping(context.Background()).Err(); err != nil {
			t.Error(err)
		}
		took = append(took, time.Since(begin))
	}
}

func percentile(d []time.Duration, p int) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[min(len(d)*p/100, len(d)-1)]
}

func closeRace(t *testing.T, b *bed, random *rand.Rand, rounds int) (stops []time.Duration) {
	t.Helper()
	ctx := context.Background()
	l := newJournal()
	watch := redistest.StartWatch(t)
	begin := func(round int) (*consumer.Consumer, chan error, error) {
		c, err := consumer.New(b.config(fmt.Sprintf("m%d", round), l.handler("m", nil)))
		if err != nil {
			return nil, nil, err
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		return c, ended, nil
	}
	inTime := func(what string, holds func() bool) bool {
		for deadline := time.Now().Add(patience); !holds(); time.Sleep(500 * time.Microsecond) {
			if time.Now().After(deadline) {
				t.Errorf("in vain: %s", what)
				return false
			}
		}
		return true
	}
	for round := range rounds {
		c, ended, err := begin(round)
		if err != nil {
			t.Error(err)
			return stops
		}
		if !inTime("it reads", func() bool { return c.LeaseLeft() > 0 && (round%4 == 0 || b.blocked()) }) {
			return stops
		}
		// What the last one left comes at once.
		if !inTime("all that was there before is handled", func() bool { n, _ := l.handled(); return round%4 == 0 || n == round }) {
			return stops
		}
		early, late := time.Duration(random.IntN(1500))*time.Microsecond, time.Duration(random.IntN(1500))*time.Microsecond
		var adding sync.WaitGroup
		adding.Go(func() {
			time.Sleep(early)
			if err := b.redis.XAdd(ctx, &redis.XAddArgs{Stream: key(0), Values: []string{"n", "1"}}).Err(); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(late)
		asked := watch.Ran()
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		stops = append(stops, watch.Ran()-asked)
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		adding.Wait()
	}
	c, ended, err := begin(rounds)
	if err != nil {
		t.Error(err)
		return stops
	}
	inTime("every record is handled", func() bool { n, _ := l.handled(); return c.LeaseLeft() > 0 && n == rounds })
	if err := c.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	l.clean(t)
	if distinct, again := l.handled(); distinct != rounds || again != 0 {
		t.Errorf("%d of %d records were handled, %d of them twice", distinct, rounds, again)
	}
	for _, r := range l.all() {
		if r.Deliveries != 1 {
			t.Errorf("record %s was handed out %d times", r.ID, r.Deliveries)
		}
	}
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
	return stops
}

// TestCloseFromEverywhere: any number of calls, at the same time, with contexts
// that last and such that do not. All of them return in time, and Run with them.
func TestCloseFromEverywhere(t *testing.T) {
	b := newBed(t, 3, steady)
	b.add(30)
	l := newJournal()
	var begun atomic.Bool
	c := start(t, b.config("a", l.handler("a", func(ctx context.Context, _ consumer.Record) error {
		begun.Store(true)
		<-ctx.Done() // until it is cut short
		return context.Cause(ctx)
	})))
	eventually(t, "handlers are at work", begun.Load)
	watch := redistest.StartWatch(t)
	var closing sync.WaitGroup
	for i := range 20 {
		closing.Go(func() {
			ctx, done := context.WithTimeout(context.Background(), patience)
			want := error(nil)
			if i%2 == 0 {
				ctx, done = context.WithTimeout(context.Background(), time.Duration(i)*10*time.Millisecond)
				want = context.DeadlineExceeded
			}
			defer done()
			// One that comes when all is over returns nil, whatever its context.
			if err := c.Close(ctx); err != nil && !errors.Is(err, want) {
				t.Errorf("Close: %v", err)
			}
		})
	}
	closing.Wait()
	watch.Within(2*time.Second, "closing")
	receive(t, c.ended) // every Close has returned
}

// TestShutdownWithManyInHand: a member that is told to stop has 500 records in
// hand, a few of them begun. Those are finished; the others begin elsewhere within
// a second, and the delivery that never became one does not count.
func TestShutdownWithManyInHand(t *testing.T) {
	b := newBed(t, 1, steady)
	const busy, total = 4, 500
	for i := range total {
		if err := b.redis.XAdd(context.Background(), &redis.XAddArgs{
			Stream: key(0), Values: []string{consumer.KeyField, fmt.Sprint("k", i), "n", fmt.Sprint(i)},
		}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	release := make(chan struct{})
	first, second := newTally(), newTally()
	cfg := b.config("a", func(_ context.Context, r consumer.Record) error {
		first.note(r)
		<-release
		return nil
	})
	cfg.Concurrency = busy
	a := start(t, cfg)
	eventually(t, "all are read and some are begun", func() bool { return first.size() == busy && b.pending() == total })
	next := start(t, b.config("b", func(_ context.Context, r consumer.Record) error {
		second.note(r)
		return nil
	}))
	// It must be there before the other goes, or its join is measured.
	eventually(t, "the other one waits", func() bool { return next.LeaseLeft() > 0 })
	leaving := make(chan struct{})
	var once sync.Once
	b.coord.watch(func(q *protocol.Heartbeat, _ *protocol.HeartbeatResponse) {
		if q.MemberID == "a" && (len(q.RevokingShards) > 0 || q.MemberEpoch < 0) {
			once.Do(func() { close(leaving) })
		}
	})
	watch := redistest.StartWatch(t)
	a.end()
	receive(t, leaving)
	// It may say so before it has come to letting nothing begin any more.
	inHand(t, a, busy)
	close(release)
	eventually(t, "the rest begins elsewhere", func() bool { return second.size() == total-busy })
	watch.Within(time.Second, fmt.Sprintf("%d records begin elsewhere", total-busy))
	t.Logf("%d records began elsewhere within %s", total-busy, watch.Ran())
	a.stop()
	if n := first.size(); n != busy {
		t.Errorf("the first one began %d", n)
	}
	for _, r := range second.all() {
		if r.Deliveries != 1 {
			t.Errorf("record %s counts %d deliveries", r.ID, r.Deliveries)
		}
	}
	eventually(t, "nothing is pending", func() bool { return b.pending() == 0 })
}

// tally keeps the records that were begun.
type tally struct {
	mu      sync.Mutex
	records map[string]consumer.Record
}

func newTally() *tally { return &tally{records: map[string]consumer.Record{}} }

func (c *tally) note(r consumer.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.records[r.ID] = r
}

func (c *tally) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.records)
}

func (c *tally) all() (records []consumer.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.records {
		records = append(records, r)
	}
	return records
}
