package producer_test

import (
	"context"
	"errors"
	"runtime"
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

// goroutines returns the stacks, by id, of the goroutines that run code of this
// module or of the Redis client, but not of tests.
func goroutines() map[string]string {
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	found := make(map[string]string)
	for _, stack := range strings.Split(string(buf), "\n\n") {
		ours := strings.Contains(stack, "/rsc/producer.") || strings.Contains(stack, "/go-redis/")
		test := strings.Contains(stack, "redistest.") || strings.Contains(stack, "producer_test.")
		// One goroutine for the life of the process, whatever the clients.
		clock := strings.Contains(stack, "startGlobalTimeCache")
		if id, _, ok := strings.Cut(stack, " ["); ok && ours && !test && !clock {
			found[id] = stack
		}
	}
	return found
}

// since returns the stacks of the goroutines that came after before was taken.
func since(before map[string]string) string {
	var left []string
	for id, stack := range goroutines() {
		if _, ok := before[id]; !ok {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}

func wantNoGoroutines(t *testing.T, before map[string]string) {
	t.Helper()
	deadline := time.Now().Add(redistest.Patience)
	for left := since(before); left != ""; left = since(before) {
		if time.Now().After(deadline) {
			t.Fatalf("goroutines are left:\n%s", left)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestCloseUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	before := goroutines()
	for range 5 {
		p, err := producer.New(producer.Config{
			Transport: newCoordinator(4), Stream: stream, Logger: quiet(), Redis: options(server.Addr),
		})
		if err != nil {
			t.Fatal(err)
		}
		var confirmed, refused atomic.Int64
		var running sync.WaitGroup
		started := server.Client.XLen(t.Context(), "orders:0").Val()
		for g := range 8 {
			running.Go(func() {
				for i := 0; ; i++ {
					var err error
					if g%2 == 0 {
						_, err = p.Publish(t.Context(), message("k"+strconv.Itoa(g), "x"))
					} else {
						_, err = p.PublishBatch(t.Context(), numbered(20, 20))
					}
					if err == nil {
						confirmed.Add(1)
						continue
					}
					// A call is either done whole or refused whole: nothing is cut off.
					if !errors.Is(err, producer.ErrClosed) {
						t.Error(err)
					}
					refused.Add(1)
					return
				}
			})
		}
		eventually(t, "some load", func() bool { return server.Client.XLen(t.Context(), "orders:0").Val() > started+100 })
		// Not while it asks the coordinator, which is one of the test.
		eventually(t, "the goroutine of an open producer", func() bool { return strings.Contains(since(before), "(*router).run") })
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		running.Wait()
		if refused.Load() != 8 || confirmed.Load() == 0 {
			t.Errorf("%d calls confirmed, %d refused", confirmed.Load(), refused.Load())
		}
		wantNoGoroutines(t, before)
	}
}

func TestCloseIsIdempotent(t *testing.T) {
	p := open(t, newCoordinator(1), "127.0.0.1:1")
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			if err := p.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	_, err := p.Publish(t.Context(), message("k", "x"))
	wantError(t, err, producer.ErrClosed)
	results, err := p.PublishBatch(t.Context(), numbered(2, 2))
	wantError(t, err, producer.ErrClosed)
	if results != nil {
		t.Error("there are results")
	}
}

// Calls that wait for something that may never come are ended by Close.
func TestCloseEndsWaits(t *testing.T) {
	away := func(c *coordinator) { c.err = errAway }
	silent := func(c *coordinator) { c.answers = 1 }
	tests := []struct {
		name        string
		reply       string
		coordinator func(*coordinator)
		want        *producer.PublishError
	}{
		{"for the first routing", "", away, producer.ErrClosed},
		{"to send again", "-LOADING busy\r\n", nil, producer.ErrRedisRefused},
		{"for a fresh routing", "$-1\r\n", silent, producer.ErrShardMissing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := goroutines()
				stub := redistest.NewPipeStub(t, func([]string) string { return tt.reply })
				c := newCoordinator(1)
				if tt.coordinator != nil {
					tt.coordinator(c)
				}
				p := open(t, c, stub.Addr, piped(stub), func(cfg *producer.Config) { cfg.RetryFor = time.Hour })
				done := make(chan error, 1)
				go func() {
					_, err := p.Publish(t.Context(), message("k", "x"))
					done <- err
				}()
				time.Sleep(3 * time.Second)
				began := time.Now()
				if err := p.Close(t.Context()); err != nil {
					t.Error(err)
				}
				err := <-done
				if d := time.Since(began); d != 0 {
					t.Errorf("it took %s", d)
				}
				wantError(t, err, tt.want)
				if !errors.Is(err, producer.ErrClosed) {
					t.Errorf("%v does not say that the producer was closed", err)
				}
				wantNoGoroutines(t, before)
			})
		})
	}
}

// A server that answers nothing does not hold Close up for longer than its
// context allows.
func TestCloseOfAStuckProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		stub := redistest.NewPipeStub(t, func([]string) string {
			<-never
			return ""
		})
		defer close(never)
		before := goroutines()
		p := begin(t, newCoordinator(1), stub.Addr, piped(stub))
		done := make(chan error, 1)
		go func() {
			_, err := p.Publish(t.Context(), message("k", "x"))
			done <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "under way") {
			t.Errorf("Close: %v", err)
		}
		wantError(t, <-done, producer.ErrOutcomeUnknown)
		if d := time.Since(began); d != 100*time.Millisecond {
			t.Errorf("it took %s", d)
		}
		if err := p.Close(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second Close says %v", err)
		}
		wantNoGoroutines(t, before)
	})
}

// A Transport that does not honour its context does not hold Close up either.
func TestCloseWhileTheTransportHangs(t *testing.T) {
	asked, never := make(chan struct{}), make(chan struct{})
	c := newCoordinator(1)
	c.onCall = func() {
		close(asked)
		<-never
	}
	p, err := producer.New(producer.Config{Transport: c, Stream: stream, Logger: quiet(), Redis: options("127.0.0.1:1")})
	if err != nil {
		t.Fatal(err)
	}
	defer close(never)
	<-asked
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "transport") {
		t.Errorf("Close: %v", err)
	}
}

// Close has what Send took stored, also when it comes before the first routing,
// and no goroutine is left.
func TestCloseFlushes(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	before := goroutines()
	for round := range 3 {
		p, err := producer.New(producer.Config{
			Transport: newCoordinator(4), Stream: stream, Logger: quiet(), Redis: options(server.Addr),
		})
		if err != nil {
			t.Fatal(err)
		}
		futures := send(t, p, numbered(3000, 100)...)
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, f := range futures {
			select {
			case <-f.Done():
			default:
				t.Fatalf("message %d has no outcome", i)
			}
			if _, err := f.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		_, err = p.Send(t.Context(), message("k", "x"))
		wantError(t, err, producer.ErrClosed)
		_, err = p.TrySend(t.Context(), message("k", "x"))
		wantError(t, err, producer.ErrClosed)
		if err := p.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		total := 0
		for shard := range 4 {
			total += len(payloads(t, server.Client, shard))
		}
		if want := 3000 * (round + 1); total != want {
			t.Errorf("%d records are stored, want %d", total, want)
		}
		wantNoGoroutines(t, before)
	}
}

// Many goroutines send while Close comes: whatever was taken has an outcome.
func TestCloseWhileSending(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	before := goroutines()
	p, err := producer.New(producer.Config{
		Transport: newCoordinator(4), Stream: stream, Logger: quiet(), Redis: options(server.Addr), MaxBufferedMessages: 100,
	})
	if err != nil {
		t.Fatal(err)
	}
	var taken, stored, other atomic.Int64
	var running sync.WaitGroup
	for g := range 8 {
		running.Go(func() {
			for {
				err := p.SendFunc(t.Context(), message("k"+strconv.Itoa(g), "x"), func(r producer.Result) {
					if r.Err == nil {
						stored.Add(1)
					} else {
						other.Add(1)
					}
				})
				if err != nil {
					wantClosed(t, err)
					return
				}
				taken.Add(1)
			}
		})
	}
	eventually(t, "some load", func() bool { return p.Stats().Published > 2000 })
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	running.Wait()
	if taken.Load() != stored.Load() || other.Load() != 0 {
		t.Errorf("%d taken, %d stored, %d failed", taken.Load(), stored.Load(), other.Load())
	}
	wantNoGoroutines(t, before)
}

func wantClosed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, producer.ErrClosed) {
		t.Error(err)
	}
}

// When the context of Close ends first, every future has its outcome all the
// same: what was under way is unknown, and the rest was certainly not sent.
func TestCloseThatCannotFlush(t *testing.T) {
	for name, tt := range map[string]struct {
		reply       func(never <-chan struct{}) string
		coordinator func(*coordinator)
		first, rest *producer.PublishError
	}{
		"no answer":   {func(never <-chan struct{}) string { <-never; return "" }, nil, producer.ErrOutcomeUnknown, producer.ErrClosed},
		"no routing":  {nil, func(c *coordinator) { c.err = errAway }, producer.ErrClosed, producer.ErrClosed},
		"no progress": {func(<-chan struct{}) string { return "-LOADING busy\r\n" }, nil, producer.ErrRedisRefused, producer.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never := make(chan struct{})
				defer close(never)
				stub := redistest.NewPipeStub(t, func([]string) string { return tt.reply(never) })
				before := goroutines()
				c := newCoordinator(1)
				if tt.coordinator != nil {
					tt.coordinator(c)
				}
				p := begin(t, c, stub.Addr, piped(stub), func(cfg *producer.Config) {
					cfg.RetryFor, cfg.PipelineMessages = time.Hour, 1
				})
				futures := send(t, p, numbered(50, 50)...)
				time.Sleep(time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				began := time.Now()
				if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "50 messages") {
					t.Errorf("Close: %v", err)
				}
				if d := time.Since(began); d != 100*time.Millisecond {
					t.Errorf("Close took %s", d)
				}
				for i, f := range futures {
					select {
					case <-f.Done():
					default:
						t.Fatalf("message %d has no outcome", i)
					}
					_, err := f.Wait(t.Context())
					want := tt.rest
					if i == 0 {
						want = tt.first
					}
					wantError(t, err, want)
					if want != producer.ErrOutcomeUnknown && !errors.Is(err, producer.ErrClosed) {
						t.Errorf("message %d: %v does not say that the producer was closed", i, err)
					}
				}
				wantNoGoroutines(t, before)
			})
		})
	}
}

// Goroutines that wait for room are let go by Close.
func TestCloseEndsWaitsForRoom(t *testing.T) {
	stub, arrived, release := blocked(t)
	p := open(t, newCoordinator(1), stub.Addr, func(cfg *producer.Config) { cfg.MaxBufferedMessages = 1 })
	futures := send(t, p, message("k", "1"))
	<-arrived
	refused := make(chan error, 1)
	waits := watch(t.Context())
	go func() {
		_, err := p.Send(waits, message("k", "2"))
		refused <- err
	}()
	<-waits.asked
	closed := make(chan error, 1)
	go func() { closed <- p.Close(t.Context()) }()
	wantError(t, <-refused, producer.ErrClosed)
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if got := firstOf(outcomes(t, futures)); got != "ok" {
		t.Error(got)
	}
}
