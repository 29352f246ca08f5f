package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
)

var errNotNow = errors.New("not now")

// addKeyed appends a record with a key to a shard, and returns its id.
func (b *bed) addKeyed(shard int, partition string, fields ...string) string {
	b.tb.Helper()
	id, err := b.redis.XAdd(context.Background(), &redis.XAddArgs{
		Stream: key(shard), NoMkStream: true, Values: append([]string{consumer.KeyField, partition}, fields...),
	}).Result()
	if err != nil {
		b.tb.Fatal(err)
	}
	return id
}

func (b *bed) letters() []redis.XMessage {
	b.tb.Helper()
	all, err := b.redis.XRange(context.Background(), stream+consumer.DeadLetterSuffix, "-", "+").Result()
	if err != nil {
		b.tb.Fatal(err)
	}
	return all
}

// TestAFailureHoldsUpItsKeyOnly: for as long as it takes.
func TestAFailureHoldsUpItsKeyOnly(t *testing.T) {
	b := newBed(t, 1, steady)
	var down atomic.Bool
	down.Store(true)
	l := newJournal()
	cfg := b.config("a", l.handler("a", func(_ context.Context, r consumer.Record) error {
		if r.Key == "bad" && down.Load() {
			return errNotNow
		}
		return nil
	}))
	cfg.Retry = consumer.Retry{First: 20 * time.Millisecond, Last: 50 * time.Millisecond}
	c := start(t, cfg)
	first := b.addKeyed(0, "bad")
	for i := range 300 {
		b.addKeyed(0, fmt.Sprint("good", i%10))
		if i%10 == 0 {
			b.addKeyed(0, "bad")
		}
	}
	l.await(t, 300)
	for _, r := range l.all() {
		if r.Key == "bad" {
			t.Error("a record of the bad key was handled")
		}
	}
	eventually(t, "it is tried several times", func() bool { return c.Stats().Retried >= 3 })
	// The count is in Redis, and says that nobody works on it.
	eventually(t, "the count in Redis rises", func() bool {
		p := b.redis.XPendingExt(context.Background(), &redis.XPendingExtArgs{Stream: key(0), Group: group, Start: first, End: first, Count: 1}).Val()
		return len(p) == 1 && p[0].RetryCount >= 3
	})
	down.Store(false)
	l.await(t, 331)
	c.stop()
	l.clean(t)
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
	s := c.Stats()
	if s.Handled != 331 || s.Retried != s.Failed || s.DeadLettered != 0 {
		t.Errorf("stats %+v", s)
	}
	for _, r := range l.all() {
		if r.ID == first && uint64(r.Deliveries) != s.Failed+1 {
			t.Errorf("the first has %d deliveries after %d failures", r.Deliveries, s.Failed)
		}
	}
}

// TestDeadLetters: what fails too often, or is rejected, moves on with its history,
// and its key goes on.
func TestDeadLetters(t *testing.T) {
	b := newBed(t, 2, steady)
	l := newJournal()
	var delayed []time.Time
	cfg := b.config("a", l.handler("a", func(_ context.Context, r consumer.Record) error {
		switch r.Values["do"] {
		case "fail":
			return fmt.Errorf("attempt %d: %w", r.Deliveries, errNotNow)
		case "panic":
			panic("oh")
		case "reject":
			return fmt.Errorf("parse: %w", consumer.Reject(errors.New("no number")))
		case "reject in silence":
			return consumer.Reject(nil)
		case "later":
			delayed = append(delayed, time.Now())
			if len(delayed) < 3 {
				return consumer.RetryAfter(150*time.Millisecond, nil)
			}
		}
		return nil
	}))
	cfg.Retry = consumer.Retry{First: time.Millisecond, Last: 5 * time.Millisecond, MaxDeliveries: 4}
	cfg.DeadLetter.Enabled = true
	c := start(t, cfg)
	failed := b.addKeyed(1, "k", "do", "fail", "x", "1", consumer.DeadLetterError, "of an earlier life")
	panicked := b.addKeyed(0, "p", "do", "panic")
	rejected := b.addKeyed(0, "r", "do", "reject")
	silent := b.addKeyed(0, "s", "do", "reject in silence")
	b.addKeyed(0, "later", "do", "later")
	for _, k := range []string{"k", "p", "r", "s"} {
		b.addKeyed(1, k, "x", "2")
	}
	// A foreign record is a record.
	if err := b.redis.XAdd(context.Background(), &redis.XAddArgs{Stream: key(0), Values: []string{"", "\xff\x00", "do", "fail"}}).Err(); err != nil {
		t.Fatal(err)
	}
	l.await(t, 5)
	eventually(t, "five dead letters", func() bool { return len(b.letters()) == 5 })
	c.stop()
	l.clean(t)
	byID := map[string]map[string]any{}
	for _, m := range b.letters() {
		byID[fmt.Sprint(m.Values[consumer.DeadLetterShard], "/", m.Values[consumer.DeadLetterID])] = m.Values
	}
	for id, want := range map[string][3]string{
		"1/" + failed:   {"attempt 4: not now", "4", "k"},
		"0/" + panicked: {"handler panicked: oh", "4", "p"},
		"0/" + rejected: {"parse: no number", "1", "r"},
		"0/" + silent:   {"the handler rejected the record", "1", "s"},
	} {
		v := byID[id]
		got := [3]string{fmt.Sprint(v[consumer.DeadLetterError]), fmt.Sprint(v[consumer.DeadLetterDeliveries]), fmt.Sprint(v[consumer.KeyField])}
		if got != want || v[consumer.DeadLetterGroup] != group || v[consumer.DeadLetterMember] != "a" {
			t.Errorf("%s: %v, want %v", id, v, want)
		}
	}
	if v := byID["1/"+failed]; v["x"] != "1" || len(v) != 9 {
		t.Errorf("the record's own fields: %v", v)
	}
	if len(delayed) != 3 || delayed[2].Sub(delayed[0]) < 300*time.Millisecond {
		t.Errorf("RetryAfter: tried at %v", delayed)
	}
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
	if s := c.Stats(); s.DeadLettered != 5 || s.Handled != 5 {
		t.Errorf("stats %+v", s)
	}
}

// TestWithoutADeadLetterStreamNothingIsDropped: not even what is rejected.
func TestWithoutADeadLetterStreamNothingIsDropped(t *testing.T) {
	b := newBed(t, 1, steady)
	l := newJournal()
	var calls atomic.Int32
	cfg := b.config("a", l.handler("a", func(context.Context, consumer.Record) error {
		if calls.Add(1) < 12 {
			return consumer.Reject(errNotNow)
		}
		return nil
	}))
	cfg.Retry = consumer.Retry{First: time.Millisecond, Last: 2 * time.Millisecond, Jitter: -1}
	start(t, cfg)
	b.add(1)
	l.await(t, 1)
	if n := b.redis.Exists(context.Background(), stream+consumer.DeadLetterSuffix).Val(); n != 0 {
		t.Error("there is a dead-letter stream")
	}
}

// TestADeadLetterThatCannotBeWritten: its record stays pending, and others go on.
// The next owner writes it without calling the handler again.
func TestADeadLetterThatCannotBeWritten(t *testing.T) {
	b := newBed(t, 1, steady)
	ctx := context.Background()
	dlq := stream + consumer.DeadLetterSuffix
	if err := b.redis.Set(ctx, dlq, "in the way", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var bad atomic.Int32
	handler := func(l *journal) consumer.Handler {
		return l.handler("a", func(_ context.Context, r consumer.Record) error {
			if r.Key == "bad" {
				bad.Add(1)
				return errNotNow
			}
			return nil
		})
	}
	l := newJournal()
	cfg := b.config("a", handler(l))
	cfg.Retry = consumer.Retry{First: time.Millisecond, Last: time.Millisecond, MaxDeliveries: 2}
	cfg.DeadLetter.Enabled = true
	c := start(t, cfg)
	b.addKeyed(0, "bad")
	for i := range 50 {
		b.addKeyed(0, fmt.Sprint(i))
	}
	l.await(t, 50)
	eventually(t, "it is tried twice", func() bool { return bad.Load() == 2 })
	eventually(t, "the others are acknowledged", func() bool { return b.pending() == 1 })
	c.stop()
	if n := b.pending(); n != 1 {
		t.Errorf("%d records are pending, want the one that was not written", n)
	}
	if err := b.redis.Del(ctx, dlq).Err(); err != nil {
		t.Fatal(err)
	}
	cfg.MemberID = "b"
	cfg.Handler = handler(newJournal())
	c = start(t, cfg)
	eventually(t, "it is a dead letter", func() bool { return len(b.letters()) == 1 })
	eventually(t, "nothing is pending", func() bool { return b.pending() == 0 })
	c.stop()
	if n := bad.Load(); n != 2 {
		t.Errorf("the handler was called %d times, want 2", n)
	}
	if text := fmt.Sprint(b.letters()[0].Values[consumer.DeadLetterError]); !strings.Contains(text, "failed") {
		t.Errorf("the reason is %q", text)
	}
}

// TestALostAnswerToADeadLetter: it is written again, and both say which record they
// are.
func TestALostAnswerToADeadLetter(t *testing.T) {
	b := newBed(t, 1, steady)
	proxy := redistest.NewProxy(t, b.server.Addr)
	cfg := b.config("a", func(context.Context, consumer.Record) error {
		// Not before: the look at the permissions names the stream too.
		proxy.DropReplies(1, stream+consumer.DeadLetterSuffix)
		return consumer.Reject(errNotNow)
	})
	cfg.Redis.Addrs = []string{proxy.Addr}
	cfg.DeadLetter = consumer.DeadLetter{Enabled: true, MaxLen: 1000}
	c := start(t, cfg)
	id := b.addKeyed(0, "k", "a", "1", "b", "2", "c", "3", "d", "4", "e", "5")
	eventually(t, "it is acknowledged", func() bool { return c.Stats().Acknowledged == 1 })
	c.stop()
	letters := b.letters()
	// Whoever compares them compares the fields as they stand.
	var texts []string
	raw, err := b.redis.Do(context.Background(), "XRANGE", stream+consumer.DeadLetterSuffix, "-", "+").Slice()
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range raw {
		parts, ok := letter.([]any)
		if !ok || len(parts) != 2 {
			t.Fatalf("a dead letter is %v", letter)
		}
		texts = append(texts, fmt.Sprint(parts[1]))
	}
	if len(slices.Compact(slices.Clone(texts))) != 1 {
		t.Errorf("they differ: %q", texts)
	}
	for _, m := range letters {
		if m.Values[consumer.DeadLetterID] != id || m.Values[consumer.DeadLetterShard] != "0" {
			t.Errorf("a dead letter of %v", m.Values)
		}
	}
	if len(letters) != 2 {
		t.Errorf("%d dead letters, want the same twice", len(letters))
	}
}

// TestTheDeadLetterStreamIsCut to about its length.
func TestTheDeadLetterStreamIsCut(t *testing.T) {
	b := newBed(t, 1, steady)
	cfg := b.config("a", func(context.Context, consumer.Record) error { return consumer.Reject(errNotNow) })
	cfg.DeadLetter = consumer.DeadLetter{Enabled: true, MaxLen: 10}
	c := start(t, cfg)
	b.add(1000)
	eventually(t, "nothing is pending", func() bool { return c.Stats().Acknowledged == 1000 })
	if n := b.redis.XLen(context.Background(), stream+consumer.DeadLetterSuffix).Val(); n > 250 {
		t.Errorf("it has %d records", n)
	}
}

// TestHandedOverWithoutBeingCounted: hundreds of records were read and not begun
// when the member shuts down. The next one begins them at once, and for the first
// time; what had failed is not taken for what ends processes.
func TestHandedOverWithoutBeingCounted(t *testing.T) {
	b := newBed(t, 2, steady)
	b.add(600)
	var begun atomic.Int32
	slow := b.config("a", func(_ context.Context, r consumer.Record) error {
		if begun.Add(1); r.Values["n"] == "0" {
			return errNotNow
		}
		time.Sleep(300 * time.Millisecond)
		return nil
	})
	slow.Concurrency = 4
	slow.Retry = consumer.Retry{First: 20 * time.Millisecond, Last: 20 * time.Millisecond}
	a := start(t, slow)
	eventually(t, "the buffer is full", func() bool { return b.pending() >= 500 && a.Stats().Retried >= 2 })
	a.stop()
	done := int(a.Stats().Handled)
	l := newJournal()
	c := start(t, b.config("b", l.handler("b", nil)))
	watch := redistest.StartWatch(t)
	l.await(t, 600-done)
	watch.Within(5*time.Second, "the rest is handled")
	c.stop()
	l.clean(t)
	for _, r := range l.all() {
		if n := r.Values["n"]; n != "0" && r.Deliveries != 1 {
			t.Errorf("record %s has %d deliveries and was begun once", n, r.Deliveries)
		} else if n == "0" && r.Deliveries < 3 {
			t.Errorf("the record that failed has %d deliveries", r.Deliveries)
		}
	}
	if s := c.Stats(); s.Suspects != 0 {
		t.Errorf("%d suspects, and no process ended", s.Suspects)
	}
	if _, again := l.handled(); again != 0 || begun.Load() < 4 {
		t.Errorf("%d records were handled again", again)
	}
}

// TestWhatFailedAndIsTakenOverUnbegun: it is known to have come to an end, also when
// the one who took it over lets it go without having begun.
func TestWhatFailedAndIsTakenOverUnbegun(t *testing.T) {
	b := newBed(t, 1, steady)
	ctx := context.Background()
	for range 10 {
		b.addKeyed(0, "first")
		id := b.addKeyed(0, "second")
		b.redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "gone", Streams: []string{key(0), ">"}})
		b.do("XCLAIM", key(0), group, "gone", 0, id, "RETRYCOUNT", 2, "TIME", 0)
	}
	begun, release := make(chan struct{}, 100), make(chan struct{})
	cfg := b.config("a", func(context.Context, consumer.Record) error {
		begun <- struct{}{}
		<-release
		return nil
	})
	cfg.Concurrency = 1
	a := start(t, cfg)
	receive(t, begun)
	eventually(t, "all is in hand", func() bool { return a.Stats().Recovered == 20 })
	a.end()
	inHand(t, a, 1)
	close(release)
	a.stop()
	l := newJournal()
	c := start(t, b.config("b", l.handler("b", nil)))
	eventually(t, "the rest is handled", func() bool { return b.pending() == 0 })
	c.stop()
	if n := c.Stats().Suspects; n != 0 {
		t.Errorf("%d records were suspected, and all had come to an end", n)
	}
	for _, r := range l.all() {
		if r.Key == "second" && r.Deliveries != 3 {
			t.Errorf("%s is said to be begun for the %dth time, want 3", r.ID, r.Deliveries)
		}
	}
}

// TestAHandlerCutShortIsNotCounted: the member gave it no time to finish.
func TestAHandlerCutShortIsNotCounted(t *testing.T) {
	t.Parallel() // it is mostly waiting
	b := newBed(t, 1, steady)
	b.add(1)
	watch := redistest.StartWatch(t)
	want := 1
	for range 3 {
		begun := make(chan int, 10)
		cfg := b.config("a", func(ctx context.Context, r consumer.Record) error {
			begun <- r.Deliveries
			<-ctx.Done()
			return context.Cause(ctx)
		})
		cfg.ShutdownTimeout = time.Second
		c := start(t, cfg)
		if n := receive(t, begun); n != want {
			t.Errorf("it has %d deliveries, want %d", n, want)
		}
		stood := watch.Stood()
		c.stop()
		left := b.redis.XPendingExt(t.Context(), &redis.XPendingExtArgs{Stream: key(0), Group: group, Start: "-", End: "+", Count: 1}).Val()
		if len(left) != 1 {
			t.Fatalf("pending is %v", left)
		}
		// A tenth of the time is left to count it back. A machine that stands still that
		// long misses it, and then it counts.
		if n := int(left[0].RetryCount); n >= want {
			if stood = watch.Stood() - stood; stood < 20*time.Millisecond {
				t.Errorf("it counts %d deliveries, and the machine stood still for %s only", n, stood)
			}
			want = n + 1
		}
	}
}

// TestHoldsWhatItMayInHand: a member with slow handlers leaves the rest to others.
func TestHoldsWhatItMayInHand(t *testing.T) {
	b := newBed(t, 4, steady)
	b.add(2000)
	release := make(chan struct{})
	cfg := b.config("a", func(context.Context, consumer.Record) error {
		<-release
		return nil
	})
	cfg.MaxInFlight = 50
	c := start(t, cfg)
	eventually(t, "it has what it may have", func() bool { return b.pending() >= 45 })
	time.Sleep(100 * time.Millisecond) // several reads
	if n := b.pending(); n > 50 {
		t.Errorf("%d records are pending, 50 may be", n)
	}
	close(release)
	eventually(t, "all are handled", func() bool { return c.Stats().Handled == 2000 })
	eventually(t, "all are acknowledged", func() bool { return b.pending() == 0 })
}

// TestHoldsFewBytes: records of 200 kB, and two megabytes for all.
func TestHoldsFewBytes(t *testing.T) {
	b := newBed(t, 4, steady)
	large := strings.Repeat("x", 200_000)
	for i := range 200 {
		b.addKeyed(i%4, strconv.Itoa(i), "v", large)
	}
	release := make(chan struct{})
	cfg := b.config("a", func(context.Context, consumer.Record) error {
		<-release
		return nil
	})
	cfg.MaxInFlightBytes = 2_000_000
	c := start(t, cfg)
	eventually(t, "it has what it may have", func() bool { return b.pending() >= 8 })
	time.Sleep(100 * time.Millisecond) // several reads
	if n := b.pending(); n > 10 {
		t.Errorf("%d records are pending, 10 may be", n)
	}
	close(release)
	eventually(t, "all are handled", func() bool { return c.Stats().Handled == 200 })
}

// TestOrderBy: what the application says goes before the partition key; records
// without a key are kept in order.
func TestOrderBy(t *testing.T) {
	b := newBed(t, 1, steady)
	var mu sync.Mutex
	active, most, least := 0, 0, 1
	begun := []string{}
	busy := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return most >= least
	}
	handler := func(_ context.Context, r consumer.Record) error {
		mu.Lock()
		begun = append(begun, r.Values["n"])
		active++
		most = max(most, active)
		mu.Unlock()
		time.Sleep(2 * time.Millisecond)
		eventually(t, "another one begins beside it", busy)
		mu.Lock()
		active--
		mu.Unlock()
		return nil
	}
	add := func() {
		for i := range 50 {
			if err := b.redis.XAdd(context.Background(), &redis.XAddArgs{Stream: key(0), Values: []string{"n", strconv.Itoa(i)}}).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	add()
	c := start(t, b.config("a", handler))
	eventually(t, "all are handled", func() bool { return c.Stats().Handled == 50 })
	c.stop()
	if most != 1 || !slices.IsSortedFunc(begun, func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return x - y
	}) {
		t.Errorf("%d at a time, in the order %v", most, begun)
	}
	add()
	most, least = 0, 2
	cfg := b.config("a", handler)
	cfg.OrderBy = func(r consumer.Record) string {
		if r.Values["n"] == "7" {
			panic("oh")
		}
		return r.ID
	}
	c = start(t, cfg)
	eventually(t, "all are handled", func() bool { return c.Stats().Handled == 50 })
	c.stop()
	if most < 2 || most > consumer.DefaultConcurrency {
		t.Errorf("%d at a time, each for itself", most)
	}
}

// TestASlowShardDoesNotStarveOthers, although it has a thousand records and the
// member few handlers.
func TestASlowShardDoesNotStarveOthers(t *testing.T) {
	b := newBed(t, 2, steady)
	for i := range 1000 {
		b.addKeyed(0, strconv.Itoa(i))
	}
	l := newJournal()
	cfg := b.config("a", l.handler("a", func(_ context.Context, r consumer.Record) error {
		if r.Shard == 0 {
			time.Sleep(20 * time.Millisecond)
		}
		return nil
	}))
	cfg.Concurrency, cfg.MaxInFlight = 2, 20
	start(t, cfg)
	l.await(t, 10)
	_, err := b.redis.TxPipelined(context.Background(), func(p redis.Pipeliner) error {
		for i := range 50 {
			p.XAdd(context.Background(), &redis.XAddArgs{Stream: key(1), Values: []string{consumer.KeyField, strconv.Itoa(i)}})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the other shard is handled", func() bool {
		n := 0
		for _, r := range l.all() {
			n += r.Shard
		}
		return n == 50
	})
	// How many of the slow shard came between those of the other, wherever the first was.
	between, slow, others := 0, 0, 0
	for _, r := range l.all() {
		switch {
		case r.Shard == 1:
			others++
			between, slow = between+slow, 0
		case others > 0:
			slow++
		}
	}
	if between > 500 {
		t.Errorf("meanwhile %d of the slow shard were handled", between)
	}
}

// TestOrderThroughFailuresAndHandOvers: many keys, members that come and go,
// handlers that take their time and fail. Each record is handled once, in the order
// of its key.
func TestOrderThroughFailuresAndHandOvers(t *testing.T) {
	b := newBed(t, 4, steady)
	l := newJournal()
	const total = 6000
	var adding sync.WaitGroup
	defer adding.Wait()
	adding.Go(func() {
		for n := 0; n < total; {
			_, err := b.redis.Pipelined(context.Background(), func(p redis.Pipeliner) error {
				for range 100 {
					k := n * 7919 % 200
					p.XAdd(context.Background(), &redis.XAddArgs{
						Stream: key(k % 4), NoMkStream: true, Values: []string{consumer.KeyField, strconv.Itoa(k), "n", strconv.Itoa(n)},
					})
					n++
				}
				return nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
	handler := func(id string) consumer.Handler {
		return l.handler(id, func(_ context.Context, r consumer.Record) error {
			n, err := strconv.Atoi(r.Values["n"])
			if err != nil {
				return err
			}
			time.Sleep(time.Duration(n%5) * time.Millisecond)
			if n%17 == 0 && r.Deliveries < 2 || n%31 == 0 && r.Deliveries < 3 {
				return errNotNow
			}
			return nil
		})
	}
	members := map[string]*running{}
	join := func(id string) {
		cfg := b.config(id, handler(id))
		cfg.Retry = consumer.Retry{First: 5 * time.Millisecond, Last: 20 * time.Millisecond}
		members[id] = start(t, cfg)
	}
	progress := func() {
		n, _ := l.handled()
		l.await(t, min(n+600, total))
	}
	var handled, retried, late, suspects uint64
	leave := func(id string) {
		members[id].stop()
		s := members[id].Stats()
		handled, retried, late, suspects = handled+s.Handled, retried+s.Retried, late+s.Late, suspects+s.Suspects
	}
	join("a")
	progress()
	join("b")
	progress()
	join("c")
	progress()
	leave("a")
	progress()
	join("d")
	leave("b")
	progress()
	for n, last := 0, -1; n < total; n, _ = l.handled() {
		// Each progress has a time of its own.
		if n == last {
			t.Fatalf("%d of %d records were handled", n, total)
		}
		last = n
		l.await(t, min(n+500, total))
	}
	leave("c")
	leave("d")
	l.clean(t)
	distinct, again := l.handled()
	if distinct != total || again != 0 || handled != total {
		t.Errorf("%d of %d records were handled, %d of them again", distinct, total, again)
	}
	if retried == 0 || late != 0 || suspects != 0 {
		t.Errorf("%d retried, %d late, %d suspects", retried, late, suspects)
	}
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending", n)
	}
}

// TestTheGroupIsMadeAnewBelowWhatIsInHand: the group is gone while a record is
// worked on and later ones are done. The new one begins before that record, so that
// it is not skipped if this member does not get to its end.
func TestTheGroupIsMadeAnewBelowWhatIsInHand(t *testing.T) {
	b := newBed(t, 1, steady)
	l := newJournal()
	release := make(chan struct{})
	var begun atomic.Int32
	c := start(t, b.config("a", l.handler("a", func(_ context.Context, r consumer.Record) error {
		if r.Key == "slow" {
			begun.Add(1)
			<-release
		}
		return nil
	})))
	before := b.addKeyed(0, "before")
	l.await(t, 1)
	slow := b.addKeyed(0, "slow")
	for i := range 50 {
		b.addKeyed(0, fmt.Sprint(i))
	}
	l.await(t, 51)
	eventually(t, "the others are acknowledged", func() bool { return c.Stats().Acknowledged == 51 })
	if err := b.redis.XGroupDestroy(context.Background(), key(0), group).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is pending in the new group", func() bool {
		p := b.redis.XPendingExt(context.Background(), &redis.XPendingExtArgs{Stream: key(0), Group: group, Start: "-", End: slow, Count: 10}).Val()
		return len(p) == 1 && p[0].ID == slow
	})
	// It came back to the member before these did: until then its end could be
	// taken for one in the old group.
	eventually(t, "the others were handled again", func() bool {
		_, again := l.handled()
		return again == 50
	})
	close(release)
	eventually(t, "nothing is pending", func() bool { return b.pending() == 0 })
	c.stop()
	l.clean(t)
	if begun.Load() != 1 {
		t.Errorf("it was begun %d times", begun.Load())
	}
	for _, r := range l.all() {
		if r.ID == before && l.count["0/"+before] != 1 {
			t.Error("what was handled before was handled again")
		}
	}
}

// TestALostLeaseCountsNoDelivery: the coordinator is away again and again while a
// handler runs. It is cut short each time, and is not taken for one that fails, nor
// for one that ends processes.
func TestALostLeaseCountsNoDelivery(t *testing.T) {
	b := newBed(t, 1, fast)
	var begun atomic.Int32
	var patient atomic.Bool
	cfg := b.config("a", func(ctx context.Context, r consumer.Record) error {
		if r.Deliveries != 1 {
			t.Errorf("record %s has %d deliveries", r.Values["n"], r.Deliveries)
		}
		begun.Add(1)
		if patient.Load() {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	cfg.DeadLetter.Enabled = true
	cfg.Retry.MaxDeliveries = 2
	c := start(t, cfg)
	for range 20 {
		b.addKeyed(0, "k")
	}
	// It may begin more often, since a machine that stands still ends the lease too.
	var before int32
	for range 4 {
		eventually(t, "it begins", func() bool { return begun.Load() > before && b.pending() == 20 })
		b.coord.setAway(true)
		eventually(t, "the lease ends", func() bool { return c.LeaseLeft() <= 0 })
		before = begun.Load()
		b.coord.setAway(false)
	}
	eventually(t, "it begins", func() bool { return begun.Load() > before })
	patient.Store(true)
	b.coord.setAway(true)
	eventually(t, "the lease ends", func() bool { return c.LeaseLeft() <= 0 })
	b.coord.setAway(false)
	eventually(t, "all are handled", func() bool { return c.Stats().Handled == 20 })
	if s := c.Stats(); s.DeadLettered != 0 || s.Suspects != 0 {
		t.Errorf("stats %+v", s)
	}
}
