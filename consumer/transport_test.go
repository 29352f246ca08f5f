package consumer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// watcher is a Lifecycle that keeps what it was told.
type watcher struct {
	mu   sync.Mutex
	told []string
	// onRevoked, if set, runs in Revoked.
	onRevoked func(ctx context.Context, s consumer.Shard)
}

func (w *watcher) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = append(w.told, fmt.Sprintf(format, args...))
}

func (w *watcher) all() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.told, "; ")
}

func (w *watcher) Assigned(ctx context.Context, s consumer.Shard) {
	if ctx.Err() != nil {
		w.note("assigned %d with a context that has ended", s.Index)
	}
	w.note("assigned %d", s.Index)
}

func (w *watcher) Revoked(ctx context.Context, s consumer.Shard) {
	if _, bounded := ctx.Deadline(); !bounded {
		w.note("revoked %d without a deadline", s.Index)
	}
	w.note("revoked %d", s.Index)
	if w.onRevoked != nil {
		w.onRevoked(ctx, s)
	}
}

func (w *watcher) Lost(s consumer.Shard, cause error) {
	var e *protocol.Error
	errors.As(cause, &e)
	w.note("lost %d: %s", s.Index, e.Code)
}

// serve puts a coordinator behind HTTP, as its adapter does.
func serve(tb testing.TB, c *coordinator, wrap func(http.Handler) http.Handler) *httptest.Server {
	tb.Helper()
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		q, err := protocol.DecodeHeartbeat(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		answer, err := c.Heartbeat(r.Context(), q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	if wrap != nil {
		h = wrap(h)
	}
	s := httptest.NewServer(h)
	tb.Cleanup(s.Close)
	return s
}

func overHTTP(w consumer.Lifecycle, urls ...string) consumer.Config {
	return consumer.Unhurried(consumer.Config{
		Coordinators: urls, Stream: stream, Group: group, MemberID: "a", Lifecycle: w,
		Logger: quiet(), ShutdownTimeout: patience,
	})
}

func TestOverHTTP(t *testing.T) {
	c := newCoordinator(t, 2, steady)
	var seen atomic.Value
	s := serve(t, c, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			seen.Store(fmt.Sprintf("%s %s %s:%s %s", r.Method, r.URL.EscapedPath(), user, password, r.Header.Get("Content-Type")))
			h.ServeHTTP(w, r)
		})
	})
	w := new(watcher)
	cfg := overHTTP(w, s.URL)
	cfg.MemberID, cfg.MemberName = "a b%ü", "worker"
	cfg.Credentials = consumer.BasicAuth("me", "secret")
	a := start(t, cfg)
	eventually(t, "both shards are assigned", func() bool { return strings.Count(w.all(), "assigned") == 2 })
	if got, want := seen.Load(), "POST /coord/v1/streams/orders/groups/billing/members/a%20b%25%C3%BC/heartbeat me:secret application/json"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if left := a.LeaseLeft(); left <= 0 || left > steady.Lease-protocol.LeaseMargin(steady.Lease) {
		t.Errorf("%s of the lease are left", left)
	}
	// A second member gets a shard as soon as the first has let go.
	second := new(watcher)
	cfg = overHTTP(second, s.URL)
	cfg.MemberID = "b"
	start(t, cfg)
	watch := redistest.StartWatch(t)
	eventually(t, "b gets a shard", func() bool { return strings.Contains(second.all(), "assigned") })
	watch.Within(time.Second, "b gets a shard")
	a.stop()
	if got := w.all(); strings.Count(got, "revoked") != 2 || strings.Contains(got, "lost") || strings.Contains(got, "without") {
		t.Errorf("a was told: %s", got)
	}
	if (a.Stats() != consumer.Stats{}) {
		t.Errorf("stats without a handler: %+v", a.Stats())
	}
}

// TestRevokedIsBounded: an application that does not let go loses the shard at
// the deadline, and a panic in a callback is no catastrophe.
func TestRevokedIsBounded(t *testing.T) {
	c := newCoordinator(t, 1, steady)
	w := &watcher{}
	causes := make(chan error, 1)
	w.onRevoked = func(ctx context.Context, _ consumer.Shard) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		panic("oh")
	}
	cfg := overHTTP(w)
	cfg.Transport, cfg.ShutdownTimeout = c, 300*time.Millisecond
	a := start(t, cfg)
	eventually(t, "the shard is assigned", func() bool { return w.all() == "assigned 0" })
	a.stop()
	if cause := receive(t, causes); !errors.Is(cause, consumer.ErrShutdownTimeout) {
		t.Errorf("the context ended with %v", cause)
	}
	if a.err != nil {
		t.Errorf("Run returned %v", a.err)
	}
}

// TestLifecycleLost: the coordinator deletes the group under the member.
func TestLifecycleLost(t *testing.T) {
	c := newCoordinator(t, 1, steady)
	w := new(watcher)
	cfg := overHTTP(w)
	cfg.Transport = c
	start(t, cfg)
	eventually(t, "the shard is assigned", func() bool { return w.all() == "assigned 0" })
	if _, err := c.DeleteGroup(context.Background(), stream, group, protocol.Delete{RequestedBy: "test", Reason: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the shard is lost", func() bool { return w.all() == "assigned 0; lost 0: FENCED" })
}

func TestAnotherCoordinatorIsAsked(t *testing.T) {
	c := newCoordinator(t, 1, steady)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	good := serve(t, c, nil)
	w := new(watcher)
	start(t, overHTTP(w, away.URL, good.URL))
	eventually(t, "the shard is assigned", func() bool { return w.all() == "assigned 0" })
}

// TestRefusalsOverHTTP: whatever answers, the consumer says so and goes on asking.
func TestRefusalsOverHTTP(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		body   string
		logged string
	}{
		{"no credentials", http.StatusUnauthorized, "", "UNAUTHORIZED"},
		{"not the role", http.StatusForbidden, `{"status":"GROUP_AUTHORIZATION_FAILED"}`, "FORBIDDEN"},
		{"a code", http.StatusConflict, `{"status":"CONFLICT","errorCode":"STATE_VERSION_CONFLICT","message":"again"}`, "STATE_VERSION_CONFLICT: again"},
		{"something else", http.StatusNotFound, "<html>", "check that this is the URL of a coordinator"},
		{"a load balancer alone", http.StatusBadGateway, "", "what stands in front of the coordinators reached none of them"},
		{"a redirect", http.StatusTemporaryRedirect, "", "307"},
		{"not JSON", http.StatusOK, "<html>", "decode the answer"},
		{"too much", http.StatusOK, strings.Repeat(" ", 8<<20) + "{}", "larger than 8388608 bytes"},
		{"nothing", http.StatusOK, "null", "is not the answer to the heartbeat"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCoordinator(t, 1, steady)
			logged := new(logBuffer)
			s := serve(t, c, func(h http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if strings.Contains(logged.String(), tc.logged) {
						h.ServeHTTP(w, r)
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Location", "http://127.0.0.1:1/")
					w.WriteHeader(tc.status)
					_, _ = io.WriteString(w, tc.body)
				})
			})
			w := new(watcher)
			cfg := overHTTP(w, s.URL)
			cfg.Logger = logged.logger()
			start(t, cfg)
			eventually(t, "the refusal is logged, and then the shard is assigned", func() bool { return w.all() == "assigned 0" })
			const want = "the coordinator answers again"
			if !strings.Contains(logged.String(), want) {
				t.Errorf("the log does not say %q:\n%s", want, logged)
			}
		})
	}
}

func TestCredentialsThatCannotBeHad(t *testing.T) {
	s := serve(t, newCoordinator(t, 1, steady), nil)
	w := new(watcher)
	logged := new(logBuffer)
	cfg := overHTTP(w, s.URL)
	cfg.Logger = logged.logger()
	var asked atomic.Int32
	cfg.Credentials = consumer.CredentialsFunc(func(context.Context) (string, error) {
		if asked.Add(1) == 1 {
			return "", errors.New("the token service is away")
		}
		return "Bearer token", nil
	})
	start(t, cfg)
	eventually(t, "the shard is assigned", func() bool { return w.all() == "assigned 0" })
	text := logged.String()
	if !strings.Contains(text, "the token service is away") || strings.Contains(text, "Bearer") {
		t.Errorf("the log:\n%s", text)
	}
}
