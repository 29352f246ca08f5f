package producer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// loginTimeout bounds a login with one coordinator.
	loginTimeout = 5 * time.Second
	// renewTimeout bounds a renewal, while the old token still serves.
	renewTimeout = 2 * time.Second
	// freshToken is how long a token must serve at least: when one after the other
	// is refused earlier, the next login waits.
	freshToken = 10 * time.Second
	// maxLoginBytes bounds the answer to a login.
	maxLoginBytes = 64 << 10
)

// LoginConfig says where and as whom to log in.
type LoginConfig struct {
	// Coordinators are the base URLs, as in Config. One is enough.
	Coordinators []string
	// Username and Password are sent to the coordinator's login only.
	Username, Password string
	// HTTPClient reaches the coordinators. It is not closed. Redirects are not
	// followed with it, since whoever redirects would get the password.
	//
	// Defaults to a client of its own.
	HTTPClient *http.Client
}

// String keeps the password out of logs.
func (c LoginConfig) String() string { return "login of " + c.Username + ":***" }

// GoString keeps the password out of logs too.
func (c LoginConfig) GoString() string { return c.String() }

// LogValue keeps the password out of structured logs.
func (c LoginConfig) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Login is Credentials that log in with a coordinator and present the token that
// it issues, which keeps the password off all other requests. A token is renewed
// before it ends, and after a coordinator has refused it. Callers share one login,
// also those of several consumers and producers. Make one with NewLogin.
type Login struct {
	// Behind a pointer, so that no way of printing a Login shows it.
	s *session
}

// session is what a Login knows.
type session struct {
	config LoginConfig
	client *http.Client
	urls   []string

	mu    sync.Mutex
	token *token
	// running is closed when the login under way has ended, nil without one.
	running chan struct{}
	// next is the index of the coordinator to ask first.
	next int
	// failures counts logins that failed one after the other, refused the tokens
	// that were of no use although they were new.
	failures, refused int
	// notBefore is when the next login may be tried; trouble is why it must wait.
	notBefore time.Time
	trouble   error
}

// token is what a login brings. Its times are zero where they are not known.
type token struct {
	authorization         string
	issued, renewAt, ends time.Time
}

// NewLogin returns credentials that log in when they are first needed.
// Errors: what is wrong with cfg, all complaints in one.
func NewLogin(cfg LoginConfig) (*Login, error) {
	s := &session{config: cfg}
	s.config.Coordinators = slices.Clone(cfg.Coordinators)
	var bad []error
	if cfg.Username == "" {
		bad = append(bad, errors.New("login config: Username: is empty"))
	}
	if n := len(cfg.Coordinators); n == 0 || n > maxCoordinators {
		bad = append(bad, fmt.Errorf("login config: Coordinators: has %d entries, must have between 1 and %d", n, maxCoordinators))
	}
	for i, base := range cfg.Coordinators {
		u, err := coordinatorURL(base)
		if err != nil {
			bad = append(bad, fmt.Errorf("login config: Coordinators[%d]: %w", i, err))
		}
		s.urls = append(s.urls, u+"/auth/login")
	}
	if err := errors.Join(bad...); err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Second}}
	if cfg.HTTPClient != nil {
		client = *cfg.HTTPClient
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s.client = &client
	return &Login{s}, nil
}

// String names the user.
func (l *Login) String() string { return l.s.config.String() }

// GoString names the user.
func (l *Login) GoString() string { return l.String() }

// Authorization returns the header of a token that is valid as far as is known.
// It logs in if there is none. After a failed login the next one waits, 250 ms at
// first and a minute at most; until then the error is returned again.
// Errors: protocol.ErrUnauthorized for a wrong user name or password; the cause
// of ctx; what keeps the coordinators from being reached.
func (l *Login) Authorization(ctx context.Context) (string, error) { return l.s.authorization(ctx) }

// Refused says that a coordinator answered 401 to a request with authorization.
// A token that was replaced meanwhile is no matter.
func (l *Login) Refused(authorization string) { l.s.refuse(authorization) }

func (s *session) authorization(ctx context.Context) (string, error) {
	for {
		s.mu.Lock()
		now := time.Now()
		old := s.token
		if old != nil && !old.ends.IsZero() && !now.Before(old.ends) {
			old = nil
		}
		switch {
		case old != nil && (old.renewAt.IsZero() || now.Before(old.renewAt) || s.running != nil || now.Before(s.notBefore)):
			s.mu.Unlock()
			return old.authorization, nil
		case s.running != nil:
			running := s.running
			s.mu.Unlock()
			select {
			case <-running:
				continue
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		case now.Before(s.notBefore):
			err := fmt.Errorf("%w (the next login is tried in %s)", s.trouble, s.notBefore.Sub(now).Round(time.Millisecond))
			s.mu.Unlock()
			return "", err
		}
		s.running = make(chan struct{})
		s.mu.Unlock()
		limit := loginTimeout
		if old != nil {
			limit = renewTimeout
		}
		fresh, err := s.logIn(ctx, limit)
		switch {
		case err == nil:
			return fresh.authorization, nil
		case old != nil:
			// It was time to renew it, not too late.
			return old.authorization, nil
		}
		return "", err
	}
}

// logIn asks the coordinators in turn. The caller has set running.
func (s *session) logIn(ctx context.Context, limit time.Duration) (*token, error) {
	s.mu.Lock()
	first := s.next
	s.mu.Unlock()
	var fresh *token
	var err error
	at := first
	for i := range s.urls {
		at = (first + i) % len(s.urls)
		fresh, err = s.ask(ctx, s.urls[at], limit)
		if err == nil || isLoginRefused(err) || ctx.Err() != nil {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.running)
	s.running = nil
	switch {
	case err == nil:
		s.token, s.next, s.failures = fresh, at, 0
	case ctx.Err() != nil:
		// The caller gave up, which says nothing of the coordinators; but the one
		// that was asked may be one that swallows requests.
		s.next = (at + 1) % len(s.urls)
	default:
		s.failures++
		s.holdOff(err, s.failures)
	}
	return fresh, err
}

// holdOff puts the next login off: the longer the more often it failed before.
func (s *session) holdOff(err error, times int) {
	first, last := 250*time.Millisecond, 5*time.Second
	if isLoginRefused(err) {
		// Asking often does not help, and may get the user locked out.
		first, last = time.Second, time.Minute
	}
	pause := min(first<<min(times-1, 10), last)
	s.trouble, s.notBefore = err, time.Now().Add(pause/2+rand.N(pause/2+1))
}

func (s *session) refuse(authorization string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == nil || s.token.authorization != authorization {
		return
	}
	if time.Since(s.token.issued) >= freshToken {
		s.refused = 0
	} else if s.refused++; s.refused > 1 {
		// Once may be chance: a coordinator that was restarted just now.
		s.holdOff(protocol.ErrUnauthorized.With("the token that a login just brought is refused: "+
			"check that all coordinators have the same token secret, and that the clocks are right"), s.refused-1)
	}
	s.token = nil
}

// isLoginRefused reports an answer that will be the same until somebody changes
// something.
func isLoginRefused(err error) bool {
	var e *protocol.Error
	return errors.As(err, &e) && !e.Retryable
}

func (s *session) ask(ctx context.Context, target string, limit time.Duration) (*token, error) {
	ctx, done := context.WithTimeout(ctx, limit)
	defer done()
	body, err := json.Marshal(map[string]string{"username": s.config.Username, "password": s.config.Password})
	if err != nil {
		return nil, fmt.Errorf("encode the login: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	begun := time.Now()
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxLoginBytes))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer to the login from %s: %w", target, err)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("log in: %w", loginRefusal(target, resp.StatusCode, resp.Status, s.config.Username))
	}
	var said struct {
		AccessToken      string    `json:"accessToken"`
		ExpiresAt        time.Time `json:"expiresAt"`
		ExpiresInSeconds int64     `json:"expiresInSeconds"`
	}
	if err := json.Unmarshal(answer, &said); err != nil {
		return nil, fmt.Errorf("decode the answer to the login from %s: %w", target, err)
	}
	if !isToken(said.AccessToken) {
		return nil, fmt.Errorf("the answer to the login from %s holds no accessToken: check that this is the URL of a coordinator", target)
	}
	t := &token{authorization: "Bearer " + said.AccessToken, issued: begun}
	// Its seconds rather than its clock, which may differ from ours. At a fifth
	// before the end there is time to try a few times.
	life := time.Duration(min(said.ExpiresInSeconds, int64(365*24*time.Hour/time.Second))) * time.Second
	if life <= 0 && !said.ExpiresAt.IsZero() {
		life = said.ExpiresAt.Sub(begun)
	}
	if life > 0 {
		t.renewAt, t.ends = begun.Add(life-life/5), begun.Add(life)
	}
	return t, nil
}

// isToken reports whether s can stand in a header.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return s != ""
}

// loginRefusal makes an answer other than 200 into an error that says what to do.
func loginRefusal(target string, code int, status, username string) error {
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return fmt.Errorf("%s: %w", target, protocol.ErrUnauthorized.With("user %q or its password is not known to the coordinator", username))
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return fmt.Errorf("%s: %w", target, &protocol.Error{
			Code: "LOGIN_NOT_FOUND", Message: "nothing can be logged in to here: check the URL of the coordinator, or use BasicAuth",
		})
	case code == http.StatusTooManyRequests:
		// It will pass, though not soon: refused, for the longer pause.
		return fmt.Errorf("%s: %w", target, &protocol.Error{Code: "RATE_LIMITED", Message: "too many logins"})
	}
	return fmt.Errorf("%s answered %s", target, status)
}
