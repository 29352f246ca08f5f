package producer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// script is a Transport whose answers a test changes while time passes.
type script struct {
	mu    sync.Mutex
	times []time.Time // of the requests
	next  func(ctx context.Context) (*protocol.Routing, error)
}

func (s *script) Routing(ctx context.Context) (*protocol.Routing, error) {
	s.mu.Lock()
	s.times = append(s.times, time.Now())
	next := s.next
	s.mu.Unlock()
	return next(ctx)
}

func (s *script) answer(next func(ctx context.Context) (*protocol.Routing, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = next
}

func (s *script) requests() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.times...)
}

var errAway = errors.New("away")

func away(context.Context) (*protocol.Routing, error) { return nil, errAway }

func granting(shards int, lease time.Duration) func(context.Context) (*protocol.Routing, error) {
	return func(context.Context) (*protocol.Routing, error) { return routingOf(shards, lease), nil }
}

// startRouter starts a router inside a bubble of testing/synctest.
func startRouter(t *testing.T, s *script, interval time.Duration, log *slog.Logger) *router {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := newRouter(&Config{Stream: "orders", Group: "billing", RefreshInterval: interval, Logger: log}, s, new(stats), nil)
	r.start()
	t.Cleanup(func() {
		if err := r.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestRefreshInterval(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		configured, lease    time.Duration
		shortest, atTheMostX time.Duration
	}{
		{"default", 0, time.Hour, 10 * time.Second, 11250 * time.Millisecond},
		{"a third of the lease", 0, 15 * time.Second, 5 * time.Second, 5625 * time.Millisecond},
		{"as configured", 2 * time.Second, time.Hour, 2 * time.Second, 2250 * time.Millisecond},
		{"configured too long for the lease", time.Hour, 15 * time.Second, 5 * time.Second, 5625 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{next: granting(2, tt.lease)}
				startRouter(t, s, tt.configured, nil)
				time.Sleep(10 * tt.atTheMostX)
				times := s.requests()
				if len(times) < 10 {
					t.Fatalf("%d requests", len(times))
				}
				for i := range times[1:] {
					if d := times[i+1].Sub(times[i]); d < tt.shortest || d > tt.atTheMostX {
						t.Errorf("request %d came %s after the one before, want %s to %s", i+1, d, tt.shortest, tt.atTheMostX)
					}
				}
			})
		})
	}
}

// While the coordinator is away it is asked at most about once a second, however
// many callers there are, and the lease is used up to its end and not beyond.
func TestRouterWhileTheCoordinatorIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := &script{next: granting(2, 30*time.Second)}
		r := startRouter(t, s, 0, slog.New(slog.NewTextHandler(&logged, nil)))
		synctest.Wait()
		s.answer(away)
		time.Sleep(29 * time.Second)
		snap, perr := r.acquire(t.Context(), nil)
		if perr != nil {
			t.Fatalf("refused under the lease: %v", perr)
		}
		// The last success may have been the first request or one a moment later.
		time.Sleep(time.Until(snap.ends))
		began := time.Now()
		if _, perr := r.acquire(t.Context(), nil); perr == nil || !errors.Is(perr, ErrRoutingExpired) || !errors.Is(perr, errAway) {
			t.Fatalf("at the end of the lease: %v", perr)
		}
		if time.Since(began) != 0 {
			t.Errorf("the refusal took %s", time.Since(began))
		}
		before := len(s.requests())
		for range 1000 {
			if _, perr := r.acquire(t.Context(), nil); perr == nil {
				t.Fatal("granted")
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n := len(s.requests()) - before; n < 5 || n > 12 {
			t.Errorf("%d requests in 10 s", n)
		}

		s.answer(granting(2, 30*time.Second))
		back := time.Now()
		for {
			if _, perr := r.acquire(t.Context(), nil); perr == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if d := time.Since(back); d > 1200*time.Millisecond {
			t.Errorf("resuming took %s", d)
		}
		synctest.Wait()
		for message, want := range map[string]int{
			"routing cannot be refreshed": 1, "routing lease is over": 1, "routing is refreshed again": 1, "msg=routing ": 1,
		} {
			if got := strings.Count(logged.String(), message); got != want {
				t.Errorf("%q is logged %d times, want %d", message, got, want)
			}
		}
	})
}

// Those who wait for the first routing do not make the producer ask faster.
func TestWaitingCallersCauseNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{next: away}
		r := startRouter(t, s, 0, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				if _, perr := r.acquire(ctx, nil); perr == nil || !errors.Is(perr, ErrNoRouting) || !errors.Is(perr, errAway) {
					t.Errorf("got %v", perr)
				}
			})
		}
		callers.Wait()
		if n := len(s.requests()); n < 8 || n > 14 {
			t.Errorf("%d requests in 10 s", n)
		}
	})
}

// After a suspension the lease is over although nothing failed: it is worth
// asking once before refusing.
func TestRouterAfterASuspension(t *testing.T) {
	for name, tt := range map[string]struct {
		next func(context.Context) (*protocol.Routing, error)
		want *PublishError
	}{
		"coordinator there": {granting(2, 30*time.Second), nil},
		"coordinator away":  {away, ErrRoutingExpired},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{next: granting(2, 30*time.Second)}
				r := startRouter(t, s, 0, nil)
				synctest.Wait()
				old := *r.current.Load()
				old.endsWall = old.endsWall.Add(-time.Hour)
				r.current.Store(&old)
				s.answer(tt.next)
				_, perr := r.acquire(t.Context(), nil)
				if (perr == nil) != (tt.want == nil) || (perr != nil && !errors.Is(perr, tt.want)) {
					t.Errorf("got %v", perr)
				}
				if n := len(s.requests()); n != 2 {
					t.Errorf("%d requests, want 2", n)
				}
			})
		})
	}
}

// The lease counts from the moment the request was sent, so an answer that took
// longer than its own lease is worth nothing.
func TestAnswerThatTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{next: func(context.Context) (*protocol.Routing, error) {
			time.Sleep(2 * time.Second)
			return routingOf(2, time.Second), nil
		}}
		r := startRouter(t, s, 0, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, perr := r.acquire(ctx, nil); perr == nil || !strings.Contains(perr.Error(), "took 2s, longer than the routing lease of 1s") {
			t.Errorf("got %v", perr)
		}
		s.answer(func(context.Context) (*protocol.Routing, error) {
			time.Sleep(time.Second)
			return routingOf(2, 3*time.Second), nil
		})
		if _, perr := r.acquire(t.Context(), nil); perr != nil {
			t.Fatal(perr)
		}
		if left := time.Until(r.current.Load().ends); left != 2*time.Second {
			t.Errorf("%s are left of the lease, want 2s", left)
		}
	})
}

// A request that swallows its answer is given up.
func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{next: func(ctx context.Context) (*protocol.Routing, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		r := startRouter(t, s, 0, nil)
		time.Sleep(routingTimeout)
		synctest.Wait()
		if _, ok := r.display(); ok {
			t.Error("there is a routing")
		}
		s.answer(granting(2, 30*time.Second))
		if _, perr := r.acquire(t.Context(), nil); perr != nil {
			t.Error(perr)
		}
	})
}

// refresh returns the answer to a request that was sent after the call, even
// when one is under way, and many callers share one request.
func TestRefreshAsksAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{next: granting(4, time.Hour)}
		r := startRouter(t, s, 10*time.Second, nil)
		synctest.Wait()
		slow := make(chan struct{})
		s.answer(func(context.Context) (*protocol.Routing, error) {
			<-slow
			return routingOf(4, time.Hour), nil
		})
		time.Sleep(12 * time.Second) // the second request is under way
		s.answer(granting(2, time.Hour))
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				snap, asked, err := r.refresh(t.Context(), nil, never)
				if err != nil || !asked || len(snap.keys) != 2 {
					t.Errorf("got %v, %v: the answer to an older request", snap, err)
				}
			})
		}
		synctest.Wait()
		close(slow)
		callers.Wait()
		if n := len(s.requests()); n != 3 {
			t.Errorf("%d requests, want 3", n)
		}
		s.answer(away)
		if _, _, err := r.refresh(t.Context(), nil, never); !errors.Is(err, errAway) {
			t.Errorf("got %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, _, err := r.refresh(ctx, nil, never); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// never is for those who need the answer to a new question.
func never(*snapshot) bool { return false }

// Those who find out that their routing is stale while somebody else has asked already
// take that answer, if it leads elsewhere, and do not wait for another.
func TestRefreshTakesAnAnswerOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{next: granting(4, time.Hour)}
		r := startRouter(t, s, 10*time.Second, nil)
		synctest.Wait()
		slow := make(chan struct{})
		s.answer(func(context.Context) (*protocol.Routing, error) {
			<-slow
			return routingOf(2, time.Hour), nil
		})
		time.Sleep(12 * time.Second) // the second request is under way
		fewer := func(s *snapshot) bool { return len(s.keys) < 4 }
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				snap, asked, err := r.refresh(t.Context(), nil, fewer)
				if err != nil || asked || len(snap.keys) != 2 {
					t.Errorf("got %v, %t, %v", snap, asked, err)
				}
			})
		}
		synctest.Wait()
		close(slow)
		callers.Wait()
		if n := len(s.requests()); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		// It is there: nobody waits.
		if _, asked, err := r.refresh(t.Context(), nil, fewer); err != nil || asked {
			t.Errorf("got %t, %v", asked, err)
		}
	})
}

// Requests keep their distance however often a fresh routing is asked for.
func TestRefreshesKeepTheirDistance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{next: granting(2, time.Hour)}
		r := startRouter(t, s, 0, nil)
		for range 50 {
			if _, _, err := r.refresh(t.Context(), nil, never); err != nil {
				t.Fatal(err)
			}
		}
		times := s.requests()
		for i := range times[1:] {
			if d := times[i+1].Sub(times[i]); d < requestGap {
				t.Fatalf("two requests within %s", d)
			}
		}
	})
}

func TestVersionsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		s := &script{next: granting(2, 30*time.Second)}
		startRouter(t, s, 0, slog.New(slog.NewTextHandler(&logged, nil)))
		time.Sleep(time.Minute)
		s.answer(func(context.Context) (*protocol.Routing, error) {
			r := routingOf(3, 30*time.Second)
			r.MetadataVersion = 2
			return r, nil
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := strings.Count(logged.String(), "msg=routing "); got != 2 || !strings.Contains(logged.String(), "shards=3 metadata_version=2") {
			t.Errorf("logged:\n%s", &logged)
		}
	})
}

// A stream without shards is asked for again soon while somebody publishes, and as
// seldom as others while nobody does.
func TestRouterWithoutShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{next: granting(0, 30*time.Second)}
		r := startRouter(t, s, 0, nil)
		synctest.Wait()
		time.Sleep(time.Minute)
		if n := len(s.requests()); n > 7 {
			t.Errorf("%d requests in a minute in which nobody publishes", n)
		}

		m := &Message{Key: "k"}
		publish := func() *PublishError {
			snap, perr := r.acquire(t.Context(), nil)
			if perr == nil {
				_, perr = r.shardOf(snap, m)
			}
			return perr
		}
		_ = publish() // the first asks at once
		synctest.Wait()
		before := len(s.requests())
		for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(5 * time.Millisecond) {
			if perr := publish(); perr == nil || !errors.Is(perr, ErrNoShards) {
				t.Fatalf("got %v", perr)
			}
		}
		times := s.requests()[before-1:]
		for i := range times[1:] {
			if d := times[i+1].Sub(times[i]); d < emptyGap || d > 500*time.Millisecond {
				t.Errorf("request %d came %s after the one before, want %s to 500ms", i+1, d, emptyGap)
			}
		}
		if n := len(times) - 1; n < 19 || n > 25 {
			t.Errorf("%d requests in 10 s", n)
		}

		s.answer(granting(2, 30*time.Second))
		back := time.Now()
		for publish() != nil {
			time.Sleep(5 * time.Millisecond)
		}
		if d := time.Since(back); d > 500*time.Millisecond {
			t.Errorf("publishing went on %s after there were shards again", d)
		}
	})
}
