package consumer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// loginServer issues tokens: token-1, token-2, … It stands in for the network, so
// that time can be false.
type loginServer struct {
	mu sync.Mutex
	// logins are the URLs that were asked.
	logins []string
	// down are hosts that cannot be reached, hung such that never answer.
	down, hung map[string]bool
	// status, if set, is what logins are answered.
	status int
	life   time.Duration
	// password is the one that is right.
	password string
	// body, if set, is answered instead of a token.
	body string
	// delay is how long a login takes.
	delay time.Duration
}

func (s *loginServer) RoundTrip(r *http.Request) (*http.Response, error) {
	var q struct{ Username, Password string }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.logins = append(s.logins, r.Method+" "+r.URL.String())
	n := len(s.logins)
	delay, status, life := s.delay, s.status, s.life
	down, hung, right, text := s.down[r.URL.Host], s.hung[r.URL.Host], q.Username == "me" && q.Password == s.password, s.body
	s.mu.Unlock()
	if hung {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	select {
	case <-time.After(delay):
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	if down {
		return nil, errors.New("connection refused")
	}
	switch {
	case status != 0:
	case !right:
		status = http.StatusUnauthorized
	default:
		status = http.StatusOK
	}
	if text == "" {
		text = fmt.Sprintf(`{"accessToken":"token-%d","tokenType":"Bearer","expiresInSeconds":%d}`, n, int(life/time.Second))
	}
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	_, _ = w.WriteString(text)
	return w.Result(), nil
}

func (s *loginServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *loginServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.logins)
}

func newLogin(tb testing.TB, s *loginServer, urls ...string) *consumer.Login {
	tb.Helper()
	if len(urls) == 0 {
		urls = []string{"http://a"}
	}
	l, err := consumer.NewLogin(consumer.LoginConfig{
		Coordinators: urls, Username: "me", Password: "secret", HTTPClient: &http.Client{Transport: s},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func present(tb testing.TB, l *consumer.Login, want string) {
	tb.Helper()
	got, err := l.Authorization(tb.Context())
	if err != nil || got != want {
		tb.Errorf("presents %q, %v; want %q", got, err, want)
	}
}

func TestLoginIsRenewedBeforeItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &loginServer{password: "secret", life: 100 * time.Second}
		l := newLogin(t, s, "http://a/base/")
		present(t, l, "Bearer token-1")
		if got := s.logins[0]; got != "POST http://a/base/auth/login" {
			t.Errorf("asked %s", got)
		}
		time.Sleep(79 * time.Second)
		present(t, l, "Bearer token-1")
		time.Sleep(2 * time.Second)
		present(t, l, "Bearer token-2")
		// Nobody can be reached: the old one serves as long as it is valid, and
		// each failure makes the next one wait longer.
		s.set(func() { s.down = map[string]bool{"a": true} })
		time.Sleep(81 * time.Second)
		before := s.count()
		for range 150 {
			present(t, l, "Bearer token-2")
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.count() - before; n < 3 || n > 12 {
			t.Errorf("asked %d times in 15 s", n)
		}
		time.Sleep(6 * time.Second)
		if _, err := l.Authorization(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("got %v", err)
		}
		s.set(func() { s.down = nil })
		time.Sleep(6 * time.Second)
		if got, err := l.Authorization(t.Context()); err != nil || got == "Bearer token-2" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestCallersShareOneLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &loginServer{password: "secret", life: time.Hour, delay: time.Second}
		l := newLogin(t, s)
		// The first gives up, which is no failure: another takes its place.
		impatient, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var callers sync.WaitGroup
		callers.Go(func() {
			if _, err := l.Authorization(impatient); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
		synctest.Wait()
		for range 50 {
			callers.Go(func() { present(t, l, "Bearer token-2") })
		}
		callers.Wait()
		if n := s.count(); n != 2 {
			t.Errorf("%d logins", n)
		}
		// So it is when a token ends, for all who ask with the refused one.
		for range 50 {
			callers.Go(func() {
				l.Refused("Bearer token-1")
				present(t, l, "Bearer token-2")
			})
		}
		callers.Wait()
		if n := s.count(); n != 2 {
			t.Errorf("%d logins: a token that was replaced long ago was minded", n)
		}
	})
}

func TestAWrongPasswordIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &loginServer{password: "other", life: time.Hour}
		l := newLogin(t, s)
		for range 600 {
			_, err := l.Authorization(t.Context())
			if !errors.Is(err, protocol.ErrUnauthorized) || strings.Contains(err.Error(), "secret") {
				t.Fatalf("got %v", err)
			}
			time.Sleep(time.Second)
		}
		if n := s.count(); n < 5 || n > 30 {
			t.Errorf("%d logins in 10 min", n)
		}
		s.set(func() { s.password = "secret" })
		time.Sleep(time.Minute)
		if _, err := l.Authorization(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestTokensThatAreNeverAccepted: logins succeed, and what they bring is refused.
func TestTokensThatAreNeverAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &loginServer{password: "secret", life: time.Hour}
		l := newLogin(t, s)
		for range 600 {
			got, err := l.Authorization(t.Context())
			if err == nil {
				l.Refused(got)
			} else if !errors.Is(err, protocol.ErrUnauthorized) || !strings.Contains(err.Error(), "token secret") {
				t.Fatalf("got %v", err)
			}
			time.Sleep(time.Second)
		}
		if n := s.count(); n < 5 || n > 30 {
			t.Errorf("%d logins in 10 min", n)
		}
	})
}

func TestLoginAsksAnotherCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &loginServer{password: "secret", life: time.Hour, down: map[string]bool{"a": true}, hung: map[string]bool{"b": true}}
		l := newLogin(t, s, "http://a", "http://b", "http://c")
		begun := time.Now()
		present(t, l, "Bearer token-3")
		if d := time.Since(begun); d != 5*time.Second {
			t.Errorf("it took %s", d)
		}
		time.Sleep(50 * time.Minute)
		present(t, l, "Bearer token-4")
		if got := s.logins[3]; got != "POST http://c/coord/v1/auth/login" {
			t.Errorf("asked %s, not the one that answered last", got)
		}
	})
}

func TestAnswersToALogin(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		body   string
		says   string
	}{
		{"forbidden", http.StatusForbidden, "{}", "its password is not known"},
		{"no such route", http.StatusNotFound, "{}", "use BasicAuth"},
		{"too often", http.StatusTooManyRequests, "{}", "too many logins"},
		{"ill", http.StatusInternalServerError, "{}", "answered 500"},
		{"a redirect", http.StatusTemporaryRedirect, "{}", "answered 307"},
		{"no token", http.StatusOK, "{}", "holds no accessToken"},
		{"not a token", http.StatusOK, `{"accessToken":"a\r\nb"}`, "holds no accessToken"},
		{"not JSON", http.StatusOK, "<html>", "decode the answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &loginServer{password: "secret", status: tc.status, body: tc.body}
			_, err := newLogin(t, s).Authorization(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "secret\"") {
				t.Errorf("got %v", err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		// Only the time of its end is known.
		s := &loginServer{password: "secret", body: fmt.Sprintf(`{"accessToken":"x","expiresAt":%q}`, time.Now().Add(time.Minute).Format(time.RFC3339Nano))}
		l := newLogin(t, s)
		present(t, l, "Bearer x")
		time.Sleep(49 * time.Second)
		present(t, l, "Bearer x")
		if n := s.count(); n != 2 {
			t.Errorf("%d logins", n)
		}
	})
}

func TestNewLoginComplains(t *testing.T) {
	_, err := consumer.NewLogin(consumer.LoginConfig{Coordinators: []string{"http://u:p@a", "ftp://b"}})
	for _, want := range []string{"Username: is empty", "Coordinators[0]: must not contain a user", "Coordinators[1]: must be of the form"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if _, err := consumer.NewLogin(consumer.LoginConfig{Username: "me"}); err == nil || !strings.Contains(err.Error(), "between 1 and 64") {
		t.Error(err)
	}
}

func TestLoginSecretsStayOutOfLogs(t *testing.T) {
	s := &loginServer{password: "secret", life: time.Hour}
	l := newLogin(t, s)
	present(t, l, "Bearer token-1")
	cfg := consumer.LoginConfig{Username: "me", Password: "secret"}
	var logged bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&logged, nil), slog.NewTextHandler(&logged, nil)} {
		slog.New(h).Info("x", "config", cfg, "login", l, "value", *l, "in", struct{ C consumer.Credentials }{l})
	}
	for _, text := range []string{
		fmt.Sprint(l), fmt.Sprintf("%+v", l), fmt.Sprintf("%#v", l), fmt.Sprintf("%+v", *l), fmt.Sprintf("%#v", *l),
		fmt.Sprintf("%+v", struct{ c consumer.Credentials }{l}), fmt.Sprint(cfg), fmt.Sprintf("%#v", cfg), fmt.Sprintf("%+v", &cfg), logged.String(),
	} {
		if strings.Contains(text, "secret") || strings.Contains(text, "token-1") {
			t.Errorf("it prints as %s", text)
		}
	}
}

// TestHeartbeatsWithALogin: a real client and server. The token ends in the
// middle; the heartbeat that meets it is made again, with a new one.
func TestHeartbeatsWithALogin(t *testing.T) {
	c := newCoordinator(t, 1, steady)
	var logins, refused atomic.Int32
	var valid atomic.Value
	valid.Store("")
	server := serve(t, c, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/coord/v1/auth/login":
				token := fmt.Sprintf("token-%d", logins.Add(1))
				valid.Store("Bearer " + token)
				_, _ = fmt.Fprintf(w, `{"accessToken":%q,"expiresInSeconds":3600}`, token)
			case r.Header.Get("Authorization") != valid.Load():
				refused.Add(1)
				w.WriteHeader(http.StatusUnauthorized)
			default:
				h.ServeHTTP(w, r)
			}
		})
	})
	login, err := consumer.NewLogin(consumer.LoginConfig{Coordinators: []string{server.URL}, Username: "me", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	w, r := new(watcher), new(recorder)
	cfg := overHTTP(w, server.URL)
	cfg.Credentials, cfg.Observer, cfg.MaxWait = login, r, -1
	start(t, cfg)
	eventually(t, "the shard is assigned", func() bool { return w.all() == "assigned 0" })
	valid.Store("none") // as a restart of the coordinator with another secret does
	eventually(t, "there was another login", func() bool { return logins.Load() == 2 })
	n := len(of[consumer.HeartbeatEvent](r))
	eventually(t, "heartbeats go on", func() bool { return len(of[consumer.HeartbeatEvent](r)) > n+2 })
	for _, e := range of[consumer.HeartbeatEvent](r) {
		if e.Err != nil {
			t.Errorf("a heartbeat failed: %v", e.Err)
		}
	}
	if refused.Load() != 1 || w.all() != "assigned 0" {
		t.Errorf("%d requests were refused; told: %s", refused.Load(), w.all())
	}
}
