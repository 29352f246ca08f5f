package producer_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

// outcomes waits for futures and writes them as codes does.
func outcomes(tb testing.TB, futures []*producer.Future) (string, []producer.Result) {
	tb.Helper()
	results := make([]producer.Result, len(futures))
	for i, f := range futures {
		results[i].Receipt, results[i].Err = f.Wait(tb.Context())
	}
	return codes(results), results
}

func send(tb testing.TB, p *producer.Producer, messages ...producer.Message) []*producer.Future {
	tb.Helper()
	futures := make([]*producer.Future, len(messages))
	for i, m := range messages {
		f, err := p.Send(tb.Context(), m)
		if err != nil {
			tb.Fatal(err)
		}
		futures[i] = f
	}
	return futures
}

func TestSendKeepsOrderPerKey(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 8)
	// Nine of ten are sent before there is a routing, so they go in full pipelines.
	c, sent := newCoordinator(8), make(chan struct{})
	c.onCall = func() { <-sent }
	p := open(t, c, server.Addr, func(cfg *producer.Config) { cfg.PipelineMessages, cfg.RetryFor = 64, time.Minute })
	const n, keys = 5000, 50
	messages := numbered(n, keys)
	futures := send(t, p, messages[:n*9/10]...)
	close(sent)
	futures = append(futures, send(t, p, messages[n*9/10:]...)...)
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := p.Stats(); s.Published != n || s.Buffered != 0 || s.BufferedBytes != 0 || s.Attempts != n || s.Exchanges >= n/4 {
		t.Errorf("stats %+v", s)
	}
	for i, f := range futures {
		select {
		case <-f.Done():
		default:
			t.Fatalf("message %d has no outcome after Flush", i)
		}
		receipt, err := f.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		stored := server.Client.XRange(t.Context(), receipt.StreamKey, receipt.ID, receipt.ID).Val()
		if len(stored) != 1 || stored[0].Values["payload"] != strconv.Itoa(i) {
			t.Fatalf("message %d: receipt %+v, there is %v", i, receipt, stored)
		}
	}
	wantInOrder(t, server.Client, 8, n)
}

func TestSendRefusesWhatCannotBeARecord(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	p := open(t, newCoordinator(1), server.Addr)
	first := send(t, p, message("k", "1"))
	_, err := p.Send(t.Context(), producer.Message{Key: "k"})
	wantError(t, err, producer.ErrInvalidMessage)
	if got, _ := outcomes(t, first); got != "ok" {
		t.Error(got)
	}
	// Now that the routing is there, a shard that is not is refused at once.
	_, err = p.Send(t.Context(), producer.Message{Shard: producer.OnShard(7), Payload: []byte("x")})
	wantError(t, err, producer.ErrNoSuchShard)
	// What was not taken holds nothing back and is no failure of the producer.
	if got, _ := outcomes(t, send(t, p, message("k", "2"))); got != "ok" {
		t.Error(got)
	}
	if s := p.Stats(); s.Published != 2 || len(s.Failed) != 0 || s.Buffered != 0 {
		t.Errorf("stats %+v", s)
	}
}

// Without a routing nobody knows the shards; what cannot be placed once it is
// there ends with an error, and holds its unit back.
func TestSendBeforeTheRouting(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	c := newCoordinator(1)
	c.set(func(c *coordinator) { c.err = errAway })
	p := open(t, c, server.Addr, func(cfg *producer.Config) { cfg.RetryFor = time.Minute })
	futures := send(t, p, message("k", "1"), producer.Message{Shard: producer.OnShard(7), Payload: []byte("x")}, message("k", "2"))
	eventually(t, "an attempt", func() bool { return c.asked() > 1 })
	c.set(func(c *coordinator) { c.err = nil })
	if got, want := firstOf(outcomes(t, futures)), "ok NO_SUCH_SHARD ok"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func firstOf(a string, _ []producer.Result) string { return a }

// When the lease is over what is sent is refused at once, and nobody keeps looking
// whether it still is: in a bubble time would then never go on.
func TestSendWhenTheLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := redistest.NewPipeStub(t, func([]string) string { return redistest.Bulk("1-1") })
		c := newCoordinator(1)
		p := open(t, c, stub.Addr, piped(stub))
		outcome := func(want string) {
			t.Helper()
			if got := firstOf(outcomes(t, send(t, p, message("k", "1")))); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		outcome("ok")
		c.set(func(c *coordinator) { c.err = errAway })
		known, _ := p.Routing()
		time.Sleep(time.Until(known.ExpiresAt) - time.Nanosecond)
		outcome("ok")
		time.Sleep(time.Nanosecond)
		outcome("ROUTING_EXPIRED")
		c.set(func(c *coordinator) { c.err = nil })
		time.Sleep(2 * time.Second)
		outcome("ok")
	})
}

// blocked returns a stub that answers nothing until release is called.
func blocked(t *testing.T) (stub *redistest.Stub, arrived chan struct{}, release func()) {
	t.Helper()
	arrived = make(chan struct{}, 1000)
	answer := make(chan struct{})
	var once sync.Once
	release = func() { once.Do(func() { close(answer) }) }
	stub = redistest.NewStub(t, func([]string) string {
		arrived <- struct{}{}
		<-answer
		return redistest.Bulk("1-1")
	})
	t.Cleanup(release)
	return stub, arrived, release
}

func TestBackPressure(t *testing.T) {
	for name, change := range map[string]func(*producer.Config){
		"by messages": func(cfg *producer.Config) { cfg.MaxBufferedMessages = 10 },
		"by bytes": func(cfg *producer.Config) {
			cfg.MaxMessageBytes, cfg.MaxBufferedBytes = 100, 10*len("rsc-keykpayloadx")
		},
	} {
		t.Run(name, func(t *testing.T) {
			stub, arrived, release := blocked(t)
			p := open(t, newCoordinator(1), stub.Addr, change)
			var futures []*producer.Future
			for range 10 {
				futures = append(futures, send(t, p, message("k", "x"))...)
			}
			<-arrived
			_, err := p.TrySend(t.Context(), message("k", "x"))
			wantError(t, err, producer.ErrBufferFull)
			reason := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			impatient := watch(ctx)
			go func() {
				<-impatient.asked
				cancel(reason)
			}()
			_, err = p.Send(impatient, message("k", "x"))
			wantError(t, err, producer.ErrCanceled, "room in the buffer")
			if !errors.Is(err, reason) {
				t.Errorf("%v does not tell the cause", err)
			}
			// Those who wait get in when there is room.
			waiting := make(chan error, 3)
			for range cap(waiting) {
				waits := watch(t.Context())
				go func() {
					f, err := p.Send(waits, message("k", "x"))
					if err == nil {
						_, err = f.Wait(t.Context())
					}
					waiting <- err
				}()
				<-waits.asked
			}
			release()
			for range cap(waiting) {
				if err := <-waiting; err != nil {
					t.Error(err)
				}
			}
			if got, _ := outcomes(t, futures); strings.Trim(got, "ok ") != "" {
				t.Error(got)
			}
			if s := p.Stats(); s.Buffered != 0 || s.BufferedBytes != 0 || s.Published != 13 {
				t.Errorf("stats %+v", s)
			}
		})
	}
}

// A message whose context ended after it was taken is stored all the same, one whose
// context had ended is not taken, and a wait that ends early is not the outcome.
func TestContextsOfSend(t *testing.T) {
	stub, arrived, release := blocked(t)
	p := open(t, newCoordinator(1), stub.Addr)
	ctx, cancel := context.WithCancel(t.Context())
	f, err := p.Send(ctx, message("k", "x"))
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	cancel()
	_, err = f.Wait(ctx)
	var outcome *producer.PublishError
	if !errors.Is(err, context.Canceled) || errors.As(err, &outcome) {
		t.Errorf("a wait that ended early says %v", err)
	}
	release()
	if _, err := f.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := f.Wait(ctx); err != nil {
		t.Errorf("an outcome that is there is not told: %v", err)
	}
	if receipt, err := f.Wait(t.Context()); err != nil || receipt.ID != "1-1" {
		t.Errorf("the second time: %+v, %v", receipt, err)
	}
	// A loop that sends until its context ends comes to its end.
	_, err = p.Send(ctx, message("k", "y"))
	wantError(t, err, producer.ErrCanceled, "before the message was taken")
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not tell the cause", err)
	}
	err = p.SendFunc(ctx, message("k", "y"), func(producer.Result) { t.Error("called for a message that was not taken") })
	wantError(t, err, producer.ErrCanceled)
}

func TestFlushWaitsForWhatCameBefore(t *testing.T) {
	var answers sync.Map // payload → channel
	stub := redistest.NewStub(t, func(args []string) string {
		if answer, ok := answers.Load(args[len(args)-1]); ok {
			<-answer.(chan struct{}) //nolint:errcheck // a panic tells enough
		}
		return redistest.Bulk("1-1")
	})
	before, after := make(chan struct{}), make(chan struct{})
	answers.Store("before", before)
	answers.Store("after", after)
	defer close(after)
	p := open(t, newCoordinator(4), stub.Addr)
	if err := p.Flush(t.Context()); err != nil {
		t.Errorf("nothing to flush: %v", err)
	}
	eventually(t, "the routing", func() bool { _, ok := p.Routing(); return ok })
	first := send(t, p, producer.Message{Shard: producer.OnShard(0), Payload: []byte("before")})
	eventually(t, "the first message to be under way", func() bool { return len(stub.Seen()) == 1 })
	flushed := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("flushed although nothing was answered: %v", err)
	}
	waits := watch(t.Context())
	go func() { flushed <- p.Flush(waits) }()
	<-waits.asked
	second := send(t, p, producer.Message{Shard: producer.OnShard(1), Payload: []byte("after")})
	close(before)
	if err := <-flushed; err != nil {
		t.Error(err)
	}
	if _, err := first[0].Wait(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-second[0].Done():
		t.Error("the second message has an outcome, so this test shows nothing")
	default:
	}
}

func TestCallbacksComeInOrder(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	p := open(t, newCoordinator(4), server.Addr, func(cfg *producer.Config) { cfg.PipelineMessages = 8 })
	const n, keys = 2000, 7
	var mu sync.Mutex
	last := make(map[int]int)
	for i, m := range numbered(n, keys) {
		err := p.SendFunc(t.Context(), m, func(r producer.Result) {
			mu.Lock()
			defer mu.Unlock()
			if r.Err != nil || r.Receipt.ID == "" {
				t.Error(r)
			}
			if last[i%keys] > i {
				t.Errorf("message %d is told of behind message %d", i, last[i%keys])
			}
			last[i%keys] = i
			last[-1]++
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := p.SendFunc(t.Context(), message("k0", "nobody asks"), nil); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last[-1] != n {
		t.Errorf("%d calls, want %d", last[-1], n)
	}
}

// behind sends a message that is kept from the server until release is called: what is
// sent meanwhile stands behind it, and goes in full pipelines however slow the test is.
func behind(t *testing.T, p *producer.Producer, proxy *redistest.Proxy, m producer.Message) (future []*producer.Future, release func()) {
	t.Helper()
	release = proxy.Hold("NOMKSTREAM")
	future = send(t, p, m)
	eventually(t, "the first request", func() bool { return proxy.Held() == 1 })
	return future, release
}

// What stands behind a message of unknown outcome is not sent; other keys go on.
func TestSendAfterALostReply(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	proxy := redistest.NewProxy(t, server.Addr)
	p := open(t, newCoordinator(1), proxy.Addr, func(cfg *producer.Config) {
		cfg.RetryFor, cfg.PipelineMessages = time.Minute, 4
	})
	first, release := behind(t, p, proxy, message("k", "first"))
	futures := send(t, p, append(numbered(8, 2), message("k2", "8"))...)
	proxy.LoseReply("NOMKSTREAM", 4)
	release()
	if got := firstOf(outcomes(t, first)); got != "ok" {
		t.Fatal(got)
	}
	// Of the first four, two are confirmed. k0 and k1 are in doubt from then on.
	want := "ok ok OUTCOME_UNKNOWN OUTCOME_UNKNOWN EARLIER_FAILED EARLIER_FAILED EARLIER_FAILED EARLIER_FAILED ok"
	got, results := outcomes(t, futures)
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !errors.Is(results[4].Err, producer.ErrOutcomeUnknown) {
		t.Errorf("%v does not tell what failed before", results[4].Err)
	}
	if got, want := payloads(t, server.Client, 0), []string{"first", "0", "1", "2", "3", "8"}; !reflect.DeepEqual(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	// A message sent after the outcome was known begins a new chain.
	if got := firstOf(outcomes(t, send(t, p, message("k0", "again")))); got != "ok" {
		t.Error(got)
	}
	if s := p.Stats(); s.Unknown != 2 || s.Failed["OUTCOME_UNKNOWN"] != 2 || s.Failed["EARLIER_FAILED"] != 4 || s.Published != 5 {
		t.Errorf("stats %+v", s)
	}
}

// A refusal that passes is waited out, in order, with one message at a time.
func TestSendWaitsOutAPassingRefusal(t *testing.T) {
	var tries atomic.Int32 // of the first message
	stub := redistest.NewStub(t, func(args []string) string {
		if args[len(args)-1] == "0" {
			tries.Add(1)
		}
		if tries.Load() <= 3 {
			return "-LOADING Redis is loading the dataset in memory\r\n"
		}
		return redistest.Bulk("1-1")
	})
	p := open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) { cfg.RetryFor = time.Minute })
	futures := send(t, p, numbered(50, 5)...)
	if got, _ := outcomes(t, futures); strings.Trim(got, "ok ") != "" {
		t.Fatal(got)
	}
	seen := stub.Seen()
	if n := len(seen); n > 50+50+2 {
		t.Errorf("%d commands: the retries were not of one message each", n)
	}
	for i, args := range seen[len(seen)-50:] {
		if body := args[len(args)-1]; body != strconv.Itoa(i) {
			t.Fatalf("%s was sent where %d belongs", body, i)
		}
	}
}

func TestSendGivesUp(t *testing.T) {
	for name, tt := range map[string]struct {
		retryFor time.Duration
		answer   string
		want     string
	}{
		"passing, with time":    {200 * time.Millisecond, "-LOADING busy\r\n", "REDIS_REFUSED"},
		"passing, without time": {-1, "-LOADING busy\r\n", "REDIS_REFUSED"},
		"for good":              {time.Minute, "-WRONGTYPE no\r\n", "REDIS_REFUSED"},
		"missing":               {time.Minute, "$-1\r\n", "SHARD_MISSING"},
	} {
		t.Run(name, func(t *testing.T) {
			// Send refuses what comes after the first has failed.
			sent := make(chan struct{})
			release := sync.OnceFunc(func() { close(sent) })
			defer release()
			stub := redistest.NewStub(t, func([]string) string {
				<-sent
				return tt.answer
			})
			p := open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) { cfg.RetryFor = tt.retryFor })
			futures := send(t, p, numbered(100, 1)...)
			release()
			got, results := outcomes(t, futures)
			if !strings.HasPrefix(got, tt.want+" ") {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			for _, r := range results[1:] {
				if !errors.Is(r.Err, producer.ErrEarlierFailed) && !errors.Is(r.Err, details(t, results[0].Err)) {
					t.Fatalf("got %v", r.Err)
				}
			}
		})
	}
}

// RetryFor counts for each message by itself: one that comes in the middle of an
// outage does not end with those that were there before.
func TestSendGivesEachMessageItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const retryFor = 2 * time.Second
		stub := redistest.NewPipeStub(t, func([]string) string { return "-LOADING busy\r\n" })
		r := new(recorder)
		p := open(t, newCoordinator(1), stub.Addr, piped(stub), func(cfg *producer.Config) { cfg.RetryFor, cfg.Observer = retryFor, r })
		futures := send(t, p, message("a", "1"))
		time.Sleep(retryFor / 2)
		futures = append(futures, send(t, p, message("b", "2"))...)
		outcomes(t, futures)
		for _, e := range r.failed {
			// There is an attempt every half second at least, which ends it.
			if e.Latency < retryFor || e.Latency > retryFor+500*time.Millisecond {
				t.Errorf("given up after %s", e.Latency)
			}
		}
		if len(r.failed) != 2 {
			t.Errorf("%d failed", len(r.failed))
		}
	})
}

// A broken server is not flooded: what is buffered waits, and one message a time
// finds out whether the trouble is over.
func TestSendDoesNotFloodABrokenServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const retryFor = 2 * time.Second
		stub := redistest.NewPipeStub(t, func([]string) string { return "-LOADING busy\r\n" })
		p := open(t, newCoordinator(1), stub.Addr, piped(stub), func(cfg *producer.Config) { cfg.RetryFor = retryFor })
		began := time.Now()
		futures := send(t, p, numbered(2000, 2000)...)
		for _, f := range futures {
			if _, err := f.Wait(t.Context()); err == nil {
				t.Fatal("stored")
			}
		}
		if d := time.Since(began); d < retryFor || d > retryFor+500*time.Millisecond {
			t.Errorf("given up after %s", d)
		}
		// The first pipeline, of 500 at most, and then one message at a time: after 20 ms,
		// 40 ms, …, 500 ms.
		if n := len(stub.Seen()); n > 515 {
			t.Errorf("%d commands in two seconds", n)
		}
	})
}

// The stream has fewer shards than the producer knows: it asks again, and the
// messages of the shard that was given up find their place.
func TestSendToAShardThatWasGivenUp(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	c := newCoordinator(4)
	p := open(t, c, server.Addr)
	const n, keys = 400, 40
	messages := numbered(n, keys)
	send(t, p, messages[:n/2]...)
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := 0
	for shard := range 4 {
		before += len(payloads(t, server.Client, shard))
	}
	server.Client.Del(t.Context(), "orders:2", "orders:3")
	c.set(func(c *coordinator) { c.shards = 2 })
	got, results := outcomes(t, send(t, p, messages[n/2:]...))
	if strings.Trim(got, "ok ") != "" {
		t.Fatal(got)
	}
	for _, r := range results {
		if r.Receipt.Shard >= 2 {
			t.Fatalf("stored in shard %d of 2", r.Receipt.Shard)
		}
	}
	// It is counted when those who waited for it have gone on already.
	eventually(t, "the change to be counted", func() bool { return p.Stats().RoutingChanges > 0 })
	if before != n/2 || p.Stats().RoutingChanges != 1 {
		t.Errorf("%d stored at first, %d changes of the routing", before, p.Stats().RoutingChanges)
	}
	// Order per key, apart from what was stored before the keys moved.
	last := make(map[string]int)
	for shard := range 2 {
		for _, r := range server.Client.XRange(t.Context(), "orders:"+strconv.Itoa(shard), "-", "+").Val() {
			i, _ := strconv.Atoi(fmt.Sprint(r.Values["payload"]))
			key := fmt.Sprint(r.Values["rsc-key"])
			if previous, ok := last[key]; ok && i < previous {
				t.Fatalf("key %s: %d behind %d", key, i, previous)
			}
			last[key] = i
		}
	}
	// One that is really missing is an error of its own shard only.
	server.Client.Del(t.Context(), "orders:1")
	got, results = outcomes(t, send(t, p, numbered(40, 40)...))
	for i, r := range results {
		if missing := errors.Is(r.Err, producer.ErrShardMissing); r.Err != nil && !missing {
			t.Errorf("message %d: %v", i, r.Err)
		}
	}
	if !strings.Contains(got, "ok") || !strings.Contains(got, "SHARD_MISSING") {
		t.Errorf("got %s", got)
	}
}

// More shards: the tracks are made anew under load, and nothing is lost.
func TestSendWhileTheStreamGrows(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 2)
	c := newCoordinator(2)
	p := open(t, c, server.Addr, func(cfg *producer.Config) { cfg.RefreshInterval = 100 * time.Millisecond })
	for shard := 2; shard < 8; shard++ {
		server.Client.XGroupCreateMkStream(t.Context(), "orders:"+strconv.Itoa(shard), "g", "0")
	}
	var futures []*producer.Future
	for i := 0; p.Stats().RoutingChanges < 3; i++ {
		futures = append(futures, send(t, p, message("k"+strconv.Itoa(i%100), strconv.Itoa(i)))...)
		if i%2000 == 1999 {
			c.set(func(c *coordinator) { c.shards = 2 + (c.shards+1)%6 })
		}
	}
	got, results := outcomes(t, futures)
	if strings.Trim(got, "ok ") != "" {
		t.Fatal(got)
	}
	total := 0
	for shard := range 8 {
		total += len(payloads(t, server.Client, shard))
	}
	if total != len(results) {
		t.Errorf("%d stored, %d confirmed", total, len(results))
	}
}

// A full pipeline leaves at once, and Close does not wait either.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := redistest.NewPipeStub(t, func([]string) string { return redistest.Bulk("1-1") })
		p := open(t, newCoordinator(4), stub.Addr, piped(stub), func(cfg *producer.Config) { cfg.Linger, cfg.PipelineMessages = time.Second, 100 })
		synctest.Wait() // the routing is there
		began := time.Now()
		futures := send(t, p, numbered(1050, 50)...)
		if got, _ := outcomes(t, futures[:100]); strings.Trim(got, "ok ") != "" {
			t.Error(got)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("it took %s", d)
		}
		// A track is with one courier at a time, so those that come while it is under way
		// fill a pipeline of their own.
		if s := p.Stats(); s.Published != 1050 || s.Exchanges > 13 {
			t.Errorf("stats %+v", s)
		}
	})
}

// What trickles in leaves together, whichever shards it is for.
func TestLingerOverSeveralShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stub := redistest.NewPipeStub(t, func([]string) string { return redistest.Bulk("1-1") })
		p := open(t, newCoordinator(4), stub.Addr, piped(stub), func(cfg *producer.Config) { cfg.Linger = time.Second })
		synctest.Wait() // the routing is there
		var futures []*producer.Future
		for _, m := range numbered(40, 20) { // for two seconds
			futures = append(futures, send(t, p, m)...)
			time.Sleep(50 * time.Millisecond)
		}
		began := time.Now()
		if got, _ := outcomes(t, futures); strings.Trim(got, "ok ") != "" {
			t.Error(got)
		}
		if d := time.Since(began); d > time.Second {
			t.Errorf("the last message waited for %s", d)
		}
		if s := p.Stats(); s.Exchanges > 3 {
			t.Errorf("%d requests for %d messages in two seconds, want one a second", s.Exchanges, s.Published)
		}
	})
}

// refiller sends another message of the same key while a failure is being made
// known: after it was decided, and before the future is done.
type refiller struct {
	producer.NopObserver
	send func()
	once sync.Once
}

func (r *refiller) Failed(producer.FailedEvent) { r.once.Do(r.send) }

// The chain of a key ends when the future of the message that failed is done, and
// not a moment before: until then nobody can know.
func TestChainEndsWithTheFuture(t *testing.T) {
	stub := redistest.NewStub(t, func(args []string) string {
		if args[len(args)-1] == "fails" {
			return "-WRONGTYPE no\r\n"
		}
		return redistest.Bulk("1-1")
	})
	r := new(refiller)
	p := open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) { cfg.Observer = r })
	var during, other error
	r.send = func() {
		_, during = p.TrySend(t.Context(), message("k", "too early"))
		_, other = p.TrySend(t.Context(), message("other", "unaffected"))
	}
	again := make(chan *producer.Future, 1)
	err := p.SendFunc(t.Context(), message("k", "fails"), func(producer.Result) {
		f, err := p.TrySend(t.Context(), message("k", "again"))
		if err != nil {
			t.Error(err)
		}
		again <- f
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := firstOf(outcomes(t, []*producer.Future{<-again})); got != "ok" {
		t.Error(got)
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantError(t, during, producer.ErrEarlierFailed)
	if other != nil {
		t.Error(other)
	}
	if s := p.Stats(); s.Published != 2 || s.Buffered != 0 {
		t.Errorf("stats %+v", s)
	}
}

// A message that waits for new tracks stands behind those that are still under
// way on the old ones.
func TestChainOverAChangeOfTheRouting(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan struct{})
	stub := redistest.NewStub(t, func(args []string) string {
		if args[len(args)-1] == "first" {
			close(arrived)
			<-answer
			return ""
		}
		return redistest.Bulk("1-1")
	})
	c := newCoordinator(1)
	p := open(t, c, stub.Addr, func(cfg *producer.Config) { cfg.RefreshInterval = 100 * time.Millisecond })
	futures := send(t, p, message("k", "first"))
	<-arrived
	c.set(func(c *coordinator) { c.shards = 2 })
	eventually(t, "the change", func() bool { return p.Stats().RoutingChanges == 1 })
	futures = append(futures, send(t, p, message("k", "second"), message("other", "third"))...)
	close(answer)
	if got, want := firstOf(outcomes(t, futures)), "OUTCOME_UNKNOWN EARLIER_FAILED ok"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSendWithRetryUncertain(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	proxy := redistest.NewProxy(t, server.Addr)
	p := open(t, newCoordinator(1), proxy.Addr, func(cfg *producer.Config) {
		cfg.RetryUncertain, cfg.RetryFor, cfg.PipelineMessages = true, time.Minute, 3
	})
	first, release := behind(t, p, proxy, message("k", "first"))
	futures := send(t, p, numbered(5, 1)...)
	proxy.LoseReply("NOMKSTREAM", 2)
	release()
	if got := firstOf(outcomes(t, first)); got != "ok" {
		t.Fatal(got)
	}
	got, results := outcomes(t, futures)
	if got != "ok ok ok ok ok" {
		t.Fatal(got)
	}
	for i, r := range results {
		if want := i == 1 || i == 2; r.Receipt.Repeated != want {
			t.Errorf("message %d: repeated is %t", i, r.Receipt.Repeated)
		}
	}
	if got, want := payloads(t, server.Client, 0), []string{"first", "0", "1", "2", "1", "2", "3", "4"}; !reflect.DeepEqual(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
}
