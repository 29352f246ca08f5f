package httpapi

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var (
	here  = netip.MustParseAddr("192.0.2.1")
	there = netip.MustParseAddr("192.0.2.2")
)

// guess sends wrong passwords, each another one, and returns how many were answered.
func guess(th *throttle, from netip.Addr, user string, n int, now time.Time) (answered int) {
	for i := range n {
		if th.judge(from, user, fmt.Sprint("guess", now, i), false, provenCallers, now).wait == 0 {
			answered++
		}
	}
	return answered
}

func TestGuessesAreThrottled(t *testing.T) {
	th, now := newThrottle(), time.Now()
	if n := guess(th, here, "ops", 100, now); n != freeGuesses {
		t.Errorf("%d guesses were answered at once, want %d", n, freeGuesses)
	}
	v := th.judge(here, "ops", "right", true, provenCallers, now)
	if v.wait <= 0 || v.wait > guessPause {
		t.Errorf("the right password is answered, or waits %s", v.wait)
	}
	for name, other := range map[string]verdict{
		"from elsewhere":  th.judge(there, "ops", "right", true, nobody, now),
		"of another user": th.judge(here, "other", "right", true, nobody, now),
	} {
		if other.wait != 0 {
			t.Errorf("the right password %s waits %s", name, other.wait)
		}
	}
	now = now.Add(v.wait)
	if v := th.judge(here, "ops", "right", true, nobody, now); v.wait != 0 {
		t.Errorf("after the wait it waits %s more", v.wait)
	}
	if n := guess(th, here, "ops", 100, now.Add(time.Hour)); n != freeGuesses {
		t.Errorf("%d guesses were answered an hour later, want %d", n, freeGuesses)
	}
	// Per day, at any speed.
	answered := 0
	for range 24 * 60 {
		now = now.Add(time.Minute)
		answered += guess(th, here, "slow", 20, now)
	}
	if most := int(24*time.Hour/guessPause) + freeGuesses; answered > most {
		t.Errorf("%d guesses were answered in a day, want at most %d", answered, most)
	}
}

// A program that goes on with an outdated password does not lock out those beside it.
func TestRepeatedPasswordIsOneGuess(t *testing.T) {
	th, now := newThrottle(), time.Now()
	fresh := 0
	for i := range 1000 {
		v := th.judge(here, "member", "old"+strconv.Itoa(i%rememberedGuesses), false, provenCallers, now)
		if v.wait != 0 {
			t.Fatalf("the old password waits %s", v.wait)
		}
		if v.fresh {
			fresh++
		}
	}
	if fresh != rememberedGuesses {
		t.Errorf("%d guesses were counted, want %d", fresh, rememberedGuesses)
	}
	if v := th.judge(here, "member", "new", true, nobody, now); v.wait != 0 {
		t.Errorf("the right password waits %s", v.wait)
	}
}

// Members that work go on working while somebody at their address guesses; a login
// waits.
func TestProvenCallersAreServed(t *testing.T) {
	th, now := newThrottle(), time.Now()
	if v := th.judge(here, "member", "right", true, provenCallers, now); v.wait != 0 {
		t.Fatal(v)
	}
	guess(th, here, "member", 100, now)
	if v := th.judge(here, "member", "right", true, provenCallers, now.Add(time.Second)); v.wait != 0 {
		t.Errorf("a member waits %s", v.wait)
	}
	if v := th.judge(here, "member", "right", true, nobody, now.Add(time.Second)); v.wait == 0 {
		t.Error("a login is answered")
	}
	if v := th.judge(here, "member", "wrong", false, provenCallers, now.Add(time.Second)); v.wait == 0 {
		t.Error("a guess is answered")
	}
	late := now.Add(time.Second + provenFor)
	guess(th, here, "member", 100, late)
	if v := th.judge(here, "member", "right", true, provenCallers, late); v.wait == 0 {
		t.Error("a member that was not there for long is answered")
	}
}

// However many addresses and names come, the table stays small, and a record is not
// cleared by filling it.
func TestThrottleIsBounded(t *testing.T) {
	th, now := newThrottle(), time.Now()
	guess(th, here, "ops", 100, now)
	for i := range 2 * maxGuessers {
		from := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		th.judge(from, strconv.Itoa(i), "x", i%3 == 0, provenCallers, now)
	}
	if n := len(th.pairs); n > maxGuessers {
		t.Errorf("%d pairs are remembered, want at most %d", n, maxGuessers)
	}
	if v := th.judge(here, "ops", "right", true, nobody, now); v.wait == 0 {
		t.Error("the record was cleared")
	}
}

func TestNetworkOfACaller(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.7":            "192.0.2.7/32",
		"2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
		"2001:db8:1:2::1":      "2001:db8:1:2::/64",
	} {
		if got := network(netip.MustParseAddr(address)); got.String() != want {
			t.Errorf("%s is of %s, want %s", address, got, want)
		}
	}
	if got := network(netip.Addr{}); got != (netip.Prefix{}) {
		t.Errorf("an unknown address is of %s", got)
	}
}

func TestThrottledAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAPI(t, &fake{}, func(c *Config) { c.AuthenticateMembers = true })
		for i := range freeGuesses {
			w := request{method: "POST", path: loginPath, body: fmt.Sprintf(`{"username":"writer","password":"%d"}`, i)}.send(t, h)
			wantRefusal(t, w, 401, "UNAUTHORIZED", "the user name or the password is wrong")
		}
		for name, q := range map[string]request{
			"a login":           {method: "POST", path: loginPath, body: `{"username":"writer","password":"writes"}`},
			"a login by header": {method: "POST", path: loginPath, auth: as("writer")},
			"a request":         {method: "GET", path: "/coord/v1/streams", auth: as("writer")},
			"a wrong password":  {method: "GET", path: "/coord/v1/streams", auth: basic("writer", "x")},
			"a heartbeat":       {method: "POST", path: beatPath, auth: as("writer"), body: minimalBeat},
		} {
			w := q.send(t, h)
			wantRefusal(t, w, 429, "RATE_LIMIT_EXCEEDED", "too many wrong passwords")
			if got := w.Header().Get("Retry-After"); got != "6" {
				t.Errorf("%s: Retry-After %q, want 6", name, got)
			}
		}
		for name, q := range map[string]request{
			"another user":   {method: "GET", path: "/coord/v1/streams", auth: as("reader")},
			"an open route":  {method: "GET", path: "/health/live", auth: as("writer")},
			"another member": {method: "POST", path: beatPath, auth: as("member"), body: minimalBeat},
		} {
			if w := q.send(t, h); w.Code != 200 {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		time.Sleep(6 * time.Second)
		loginAs(t, h, "writer")
	})
}

// A token is no password: nobody is locked out who has one.
func TestTokensAreNotThrottled(t *testing.T) {
	h := newAPI(t, &fake{})
	bearer, _ := loginAs(t, h, "writer")
	for i := range 3 * freeGuesses {
		request{method: "POST", path: loginPath, auth: basic("writer", strconv.Itoa(i))}.send(t, h)
		if status, body := sessionOf(t, h, bearer); status != 200 {
			t.Fatalf("%d %s", status, body)
		}
		if status, _ := sessionOf(t, h, "Bearer "+strconv.Itoa(i)); status != 401 {
			t.Fatalf("a wrong token is answered %d", status)
		}
	}
}

// Guessing in parallel gets no more answers.
func TestParallelGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newAPI(t, &fake{})
		var group sync.WaitGroup
		answered := make(chan int, 200)
		for i := range cap(answered) {
			group.Go(func() {
				status, _ := sessionOf(t, h, basic("admin", strconv.Itoa(i)))
				answered <- status
			})
		}
		group.Wait()
		close(answered)
		unauthorized := 0
		for status := range answered {
			if status == 401 {
				unauthorized++
			}
		}
		if unauthorized != freeGuesses {
			t.Errorf("%d guesses were answered, want %d", unauthorized, freeGuesses)
		}
	})
}

// The log tells of guesses, and shows neither passwords nor names that nobody has.
func TestGuessesAreLogged(t *testing.T) {
	var log strings.Builder
	h := newAPI(t, &fake{}, func(c *Config) { c.Logger = textLogger(&log) })
	for _, user := range []string{"writer", "canary-user"} {
		for range 3 {
			request{method: "POST", path: loginPath, auth: basic(user, "canary-password")}.send(t, h)
		}
	}
	if strings.Contains(log.String(), "canary") {
		t.Errorf("a secret is logged:\n%s", log.String())
	}
	if n := strings.Count(log.String(), "a password was refused"); n != 2 {
		t.Errorf("%d lines, want one for each new guess:\n%s", n, log.String())
	}
	if !strings.Contains(log.String(), "user=writer client=192.0.2.1 path=/coord/v1/auth/login") {
		t.Errorf("it is not said who:\n%s", log.String())
	}
}
