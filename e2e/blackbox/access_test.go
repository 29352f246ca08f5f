package blackbox

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/producer"
)

// settingsFile is a settings file that a test writes again and again.
type settingsFile struct {
	t    *testing.T
	path string
}

func newSettingsFile(t *testing.T, text string) *settingsFile {
	t.Helper()
	f := &settingsFile{t, filepath.Join(t.TempDir(), "rsc.yaml")}
	f.write(text)
	return f
}

func (f *settingsFile) write(text string) {
	f.t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// reload has the coordinator read its settings again and waits until it says that it
// has.
func (c *coordinator) reload(says string) {
	c.t.Helper()
	before := len(c.Proc.Log())
	c.Proc.Signal(syscall.SIGHUP)
	faultkit.Eventually(c.t, startTimeout, "the settings are read again", func() bool { return strings.Contains(c.Proc.Log()[before:], says) })
}

// asks counts what goes to the coordinators and what comes back, by status.
type asks struct {
	statuses [600]atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (a *asks) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && response.StatusCode < len(a.statuses) {
		a.statuses[response.StatusCode].Add(1)
	}
	return response, err
}

func (a *asks) client() *http.Client { return &http.Client{Transport: a} }

func (a *asks) count(status int) int64 { return a.statuses[status].Load() }

// secured is a settings file with members that have to log in.
func secured(secrets string) string {
	return `
coordinator:
  api:
    authenticate-member-api: true
    token-ttl: 20s
    ` + secrets + `
    users:
      - {username: admin, password: password, roles: [ADMIN]}
      - {username: app, password: app-password, roles: [MEMBER]}
`
}

// loggedIn are a consumer and a producer of the public modules that log in with the
// coordinator.
type loggedIn struct {
	t *testing.T
	// logins are those of the consumer and the producer, heartbeats and routes the rest
	// of what they ask.
	logins, heartbeats, routes asks
	producer                   *producer.Producer

	mu      sync.Mutex
	handled map[string]int
}

func logIn(t *testing.T, c *coordinator, redis *redisServer) *loggedIn {
	t.Helper()
	l := &loggedIn{t: t, handled: map[string]int{}}
	servers := goredis.UniversalOptions{Addrs: []string{strings.TrimPrefix(redis.url, "redis://")}}
	consumerLogin, err := consumer.NewLogin(consumer.LoginConfig{Coordinators: []string{c.URL}, Username: "app", Password: "app-password", HTTPClient: l.logins.client()})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := consumer.New(consumer.Config{
		Coordinators: []string{c.URL}, Credentials: consumerLogin, HTTPClient: l.heartbeats.client(),
		Stream: stream, Group: group, MemberID: "m", Redis: servers, Handler: l.handle, MaxWait: heartbeat,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reader.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the consumer ended: %v", err)
		}
	})
	producerLogin, err := producer.NewLogin(producer.LoginConfig{Coordinators: []string{c.URL}, Username: "app", Password: "app-password", HTTPClient: l.logins.client()})
	if err != nil {
		t.Fatal(err)
	}
	if l.producer, err = producer.New(producer.Config{
		Coordinators: []string{c.URL}, Credentials: producerLogin, HTTPClient: l.routes.client(), Stream: stream, Group: group, Redis: servers,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), startTimeout)
		defer done()
		if err := l.producer.Close(ctx); err != nil {
			t.Errorf("close the producer: %v", err)
		}
	})
	return l
}

func (l *loggedIn) handle(_ context.Context, r consumer.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handled[r.Values["payload"]]++
	return nil
}

// deliver sends a record and waits until it was handled.
func (l *loggedIn) deliver(payload string) {
	l.t.Helper()
	ctx, done := context.WithTimeout(l.t.Context(), startTimeout)
	defer done()
	if _, err := l.producer.Publish(ctx, producer.Message{Key: payload, Payload: []byte(payload)}); err != nil {
		l.t.Fatalf("publish %s: %v", payload, err)
	}
	faultkit.Eventually(l.t, startTimeout, payload+" is handled", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.handled[payload] > 0
	})
}

// renewed waits until there were so many more logins.
func (l *loggedIn) renewed(times int64) {
	l.t.Helper()
	before := l.logins.count(http.StatusOK)
	faultkit.Eventually(l.t, tokenTime, "the tokens are renewed", func() bool { return l.logins.count(http.StatusOK) >= before+times })
}

// tokenTime is how long it may take until tokens are renewed: four fifths of their life,
// and what a busy machine needs. The fifth that is left is for one that stands still.
const tokenTime = 3 * time.Minute

// Members and producers log in, renew their tokens before they end, and log in again
// when they are refused; nobody loses a shard by it.
func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	redis := startRedis(t, faultkit.Options{})
	file := newSettingsFile(t, secured("token-secret: the-first-secret-of-this-test"))
	// With the usual lease, so that a busy machine does not end it, and many heartbeats in
	// the life of a token.
	c := newCoordinator(t, "--config", file.path, "--redis", redis.url, "--set", "coordinator.heartbeat-interval="+heartbeat.String())
	c.CreateStream(stream, 2)
	l := logIn(t, c, redis)
	faultkit.Eventually(t, startTimeout, "the member holds the shards", func() bool { _, shards := c.holders(); return shards == 2 })
	l.deliver("first")
	incarnation := c.members()["m"].Incarnation

	// By itself, in time.
	l.renewed(2)
	l.deliver("renewed")

	// With another secret, while the previous one is still accepted.
	file.write(secured("token-secret: the-second-secret-of-this-test\n    token-secret-previous: the-first-secret-of-this-test"))
	c.reload("the settings were read again")
	l.renewed(2)
	l.deliver("secret replaced")
	if n := l.heartbeats.count(http.StatusUnauthorized) + l.routes.count(http.StatusUnauthorized); n != 0 {
		t.Errorf("%d requests were refused although every token was renewed in time", n)
	}

	// With another secret alone.
	file.write(secured("token-secret: the-third-secret-of-this-test"))
	c.reload("the settings were read again")
	faultkit.Eventually(t, startTimeout, "a heartbeat is refused", func() bool { return l.heartbeats.count(http.StatusUnauthorized) > 0 })
	l.deliver("logged in again")
	l.renewed(1)

	if m := c.members()["m"]; m.Incarnation != incarnation || len(m.CurrentAssignment) != 2 {
		t.Errorf("the member is another one, or lost shards: %+v", m)
	}
	if n := l.logins.count(http.StatusUnauthorized) + l.logins.count(http.StatusTooManyRequests); n != 0 {
		t.Errorf("%d logins were refused", n)
	}
	if n := l.heartbeats.count(http.StatusUnauthorized); n > 2 {
		t.Errorf("%d heartbeats were refused, one for each lost token was to be expected", n)
	}
	c.Proc.ForbidLog(0, "app-password", "of-this-test")
}

// What SIGHUP can change takes effect, what it cannot is said, and settings that cannot
// be used change nothing.
func TestSettingsAreReadAgain(t *testing.T) {
	need(t)
	const users = "coordinator: {api: {users: [{username: admin, password: password, roles: [ADMIN]}, {username: ops, password: %s, roles: [%s]}]}}\n"
	file := newSettingsFile(t, fmt.Sprintf(users, "one", "READ"))
	c := startCoordinator(t, "--config", file.path, "--store", "memory")
	as := func(password, method, path string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, c.URL+path, strings.NewReader(`{"requestedBy":"test"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth("ops", password)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		return response.StatusCode
	}
	expect := func(step string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", step, got, want)
		}
	}
	expect("a reader writes", as("one", "POST", "/coord/v1/streams/a"), 403)
	before := c.Proc.Log()
	if strings.Contains(before, `"level":"DEBUG"`) {
		t.Error("it logs at debug from the start")
	}

	file.write(fmt.Sprintf(users, "two", "WRITE") + "log: {level: debug}\nserver: {shutdown-timeout: 14s}\n")
	c.reload("the settings were read again")
	expect("the old password", as("one", "GET", "/coord/v1/streams"), 401)
	expect("the new role", as("two", "POST", "/coord/v1/streams/a"), 201)
	faultkit.Eventually(t, startTimeout, "it logs at debug", func() bool { return strings.Contains(c.Proc.Log()[len(before):], `"level":"DEBUG"`) })
	c.Proc.ExpectLog(`"msg":"some settings were changed that count from the next start on","keys":["server.shutdown-timeout"]`)
	c.Proc.ExpectLog(`"msg":"the settings were read again","changed":["log.level","coordinator.api.users"]`)

	file.write("coordinator: {api: {users: [{username: ops, password: three, roles: [OWNER]}]}}")
	c.reload("the settings cannot be used, so nothing was changed")
	expect("after settings that cannot be used", as("two", "GET", "/coord/v1/streams"), 200)
	file.write("coordinator: [")
	c.reload("is not a YAML file with settings")
	expect("after a file that is none", as("two", "GET", "/coord/v1/streams"), 200)
	c.Proc.ForbidLog(0, `"three"`)
	c.Proc.Stop(startTimeout)
}
