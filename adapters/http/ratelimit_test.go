package httpapi

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimiter(t *testing.T) {
	l, now := newLimiter(), time.Now()
	a, b := limited{"ops", "orders", ""}, limited{"ops", "orders", "billing"}
	take := func(what limited, after time.Duration, want time.Duration) {
		t.Helper()
		if got := l.take(what, 2, now.Add(after)); got != want {
			t.Errorf("%+v after %s waits %s, want %s", what, after, got, want)
		}
	}
	take(a, 0, 0)
	take(a, 20*time.Second, 0)
	take(a, 20*time.Second, 40*time.Second)
	take(b, 20*time.Second, 0)
	take(limited{"other", "orders", ""}, 20*time.Second, 0)
	take(a, 59*time.Second, time.Second)
	take(a, time.Minute, 0) // the next window begins with it
	take(a, 119*time.Second, 0)
	take(a, 119*time.Second, time.Second)
	if got := l.take(a, 0, now); got != limitWindow {
		t.Errorf("with a limit of 0 it waits %s", got)
	}
}

func TestLimiterIsBounded(t *testing.T) {
	l, now := newLimiter(), time.Now()
	for i := range 2 * maxWindows {
		if wait := l.take(limited{"ops", strconv.Itoa(i), ""}, 1, now.Add(time.Duration(i)*time.Millisecond)); wait != 0 {
			t.Fatalf("%d waits %s", i, wait)
		}
	}
	if n := len(l.windows); n > maxWindows {
		t.Errorf("%d windows, want at most %d", n, maxWindows)
	}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		h := newAPI(t, f, func(c *Config) { c.Access.RateLimit = RateLimit{Enabled: true, MutationsPerMinute: 2} })
		create := request{method: "POST", path: "/coord/v1/streams/orders", auth: as("writer"), body: createBody}
		for range 2 {
			if w := create.send(t, h); w.Code != 201 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		time.Sleep(30500 * time.Millisecond)
		asked := f.called()
		w := create.send(t, h)
		wantRefusal(t, w, 429, "RATE_LIMIT_EXCEEDED", `user "writer" may change the same thing 2 times a minute: wait 30 s`)
		if got := w.Header().Get("Retry-After"); got != "30" {
			t.Errorf("Retry-After %q, want 30: what is left, rounded up", got)
		}
		if f.called() != asked {
			t.Errorf("the coordinator was asked %q", f.called())
		}
		for name, q := range map[string]request{
			"another stream": {method: "POST", path: "/coord/v1/streams/pay", auth: as("writer"), body: createBody},
			"a group of it":  {method: "POST", path: groupPath, auth: as("writer"), body: createBody},
			"another user":   {method: "POST", path: "/coord/v1/streams/orders", auth: as("admin"), body: createBody},
			"a read":         {method: "GET", path: "/coord/v1/streams/orders", auth: as("writer")},
			"a heartbeat":    {method: "POST", path: beatPath, body: minimalBeat},
		} {
			if w := q.send(t, h); w.Code/100 != 2 {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		// Who may not is told so, however often.
		for range 5 {
			q := request{method: "POST", path: "/coord/v1/streams/orders", auth: as("reader"), body: createBody}
			wantRefusal(t, q.send(t, h), 403, "FORBIDDEN", "")
		}
		time.Sleep(30 * time.Second)
		if w := create.send(t, h); w.Code != 201 {
			t.Errorf("a minute later: %d %s", w.Code, w.Body)
		}
		if err := h.SetAccess(Access{Users: testUsers, RateLimit: RateLimit{Enabled: true}}); err != nil {
			t.Fatal(err)
		}
		if w := create.send(t, h); w.Code != 429 || w.Header().Get("Retry-After") != "60" {
			t.Errorf("with a limit of 0: %d, Retry-After %q", w.Code, w.Header().Get("Retry-After"))
		}
		if err := h.SetAccess(Access{Users: testUsers}); err != nil {
			t.Fatal(err)
		}
		if w := create.send(t, h); w.Code != 201 {
			t.Errorf("without a limit: %d %s", w.Code, w.Body)
		}
	})
}

// Names that are none take no room in the table.
func TestRateLimitOfBadNames(t *testing.T) {
	h := newAPI(t, &fake{}, func(c *Config) { c.Access.RateLimit = RateLimit{Enabled: true, MutationsPerMinute: 5} })
	for i := range 10 {
		request{method: "POST", path: "/coord/v1/streams/%00" + strconv.Itoa(i), auth: as("writer"), body: createBody}.send(t, h)
	}
	if n := len(h.api.limiter.windows); n != 1 {
		t.Errorf("%d windows, want 1", n)
	}
}
