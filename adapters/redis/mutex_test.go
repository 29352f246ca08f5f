package redis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const mutexKey = "P:{orders:billing}:mutex"

func lock(t *testing.T, m port.Mutex) (unlock func()) {
	t.Helper()
	unlock, err := m.LockGroup(t.Context(), orders)
	if err != nil {
		t.Fatal(err)
	}
	return unlock
}

// TestMutexOfTwoCoordinators: they keep each other out, and say who they are.
func TestMutexOfTwoCoordinators(t *testing.T) {
	url := redistest.Start(t).URL()
	c := raw(t, url)
	a := openMutex(t, redis.Config{URL: url, KeyPrefix: "P", Mutex: redis.MutexConfig{Owner: "a", TTL: time.Hour}})
	b := openMutex(t, redis.Config{URL: url, KeyPrefix: "P", Mutex: redis.MutexConfig{AcquireTimeout: 50 * time.Millisecond, RetryInterval: 5 * time.Millisecond}})
	unlock := lock(t, a)
	if token := c.Get(t.Context(), mutexKey).Val(); !strings.HasPrefix(token, "a:") {
		t.Errorf("the token is %q", token)
	}
	if ttl := c.PTTL(t.Context(), mutexKey).Val(); ttl <= 0 || ttl > time.Hour {
		t.Errorf("it expires in %s", ttl)
	}
	_, err := b.LockGroup(t.Context(), orders)
	if !errors.Is(err, protocol.ErrMutexUnavailable) || !strings.Contains(err.Error(), "orders/billing") || !strings.Contains(err.Error(), "50ms") {
		t.Errorf("the second got %v", err)
	}
	unlock()
	lock(t, openMutex(t, redis.Config{URL: url, KeyPrefix: "P"}))()
	if n := c.Exists(t.Context(), mutexKey).Val(); n != 0 {
		t.Error("the key outlives its holder")
	}
}

// TestMutexIsRenewed: it is held longer than its time to live.
func TestMutexIsRenewed(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	c := raw(t, url)
	m := openMutex(t, redis.Config{URL: url, KeyPrefix: "P", Mutex: redis.MutexConfig{TTL: 12 * time.Second}})
	unlock := lock(t, m)
	token := c.Get(t.Context(), mutexKey).Val()
	renewals := 0
	for before := time.Hour; renewals < 2; {
		left, err := c.PTTL(t.Context(), mutexKey).Result()
		if err != nil {
			t.Fatal(err)
		}
		if left <= 0 {
			t.Fatalf("it expired after %d renewals", renewals)
		}
		if left > before {
			renewals++
		}
		before = left
		time.Sleep(20 * time.Millisecond) // ask again until it was renewed
	}
	if now := c.Get(t.Context(), mutexKey).Val(); now != token {
		t.Errorf("held by %q, then by %q", token, now)
	}
	unlock()
	if n := c.Exists(t.Context(), mutexKey).Val(); n != 0 {
		t.Error("it is still held after the release")
	}
}

// TestMutexExpires: a holder that died does not keep the others out for ever.
func TestMutexExpires(t *testing.T) {
	url := redistest.Start(t).URL()
	c := raw(t, url)
	c.Set(t.Context(), mutexKey, "dead", 200*time.Millisecond)
	lock(t, openMutex(t, redis.Config{URL: url, KeyPrefix: "P"}))()
}

// TestLostMutexIsLeftAlone: it expired and another took it; the release of the
// first must not take it from the second, nor may a renewal.
func TestLostMutexIsLeftAlone(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	c := raw(t, server.URL())
	m := openMutex(t, redis.Config{URL: proxy.URL(), KeyPrefix: "P", Mutex: redis.MutexConfig{TTL: 150 * time.Millisecond}})
	// The first renewal is sent as a text, as the server does not know the script.
	reached, release := proxy.Hold("PEXPIRE")
	unlock := lock(t, m)
	<-reached
	c.Set(t.Context(), mutexKey, "another", time.Hour)
	before := calls(t, c, "eval")
	release()
	redistest.Eventually(t, "the holder to have tried to renew it", func() bool { return calls(t, c, "eval") > before })
	unlock()
	if holder := c.Get(t.Context(), mutexKey).Val(); holder != "another" {
		t.Errorf("the mutex of another is now held by %q", holder)
	}
	if left := c.PTTL(t.Context(), mutexKey).Val(); left < time.Minute {
		t.Errorf("the mutex of another expires in %s", left)
	}
}

// TestLostReplyOfLock: the mutex was taken, its taker does not know. It must not
// stand for its whole time to live.
func TestLostReplyOfLock(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	c, m := raw(t, server.URL()), openMutex(t, redis.Config{URL: proxy.URL(), KeyPrefix: "P"})
	lock(t, m)() // the server knows the scripts
	proxy.LoseNext()
	if _, err := m.LockGroup(t.Context(), orders); !errors.Is(err, protocol.ErrMutexUnavailable) {
		t.Fatalf("got %v, want ErrMutexUnavailable", err)
	}
	if proxy.Lost.Load() != 1 {
		t.Fatal("no answer was lost")
	}
	if holder, err := c.Get(t.Context(), mutexKey).Result(); err == nil {
		t.Errorf("the mutex is still held by %q", holder)
	}
	lock(t, m)()
}

// TestMutexAway: without a server there is no mutex, and that is known at once.
func TestMutexAway(t *testing.T) {
	server := redistest.Start(t)
	m := openMutex(t, redis.Config{URL: server.URL(), KeyPrefix: "P"})
	unlock := lock(t, m)
	server.Kill()
	atOnce(t, func() {
		unlock()
		if _, err := m.LockGroup(t.Context(), orders); !errors.Is(err, protocol.ErrMutexUnavailable) {
			t.Errorf("got %v, want ErrMutexUnavailable", err)
		}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("shutting down")
	cancel(cause)
	if _, err := m.LockGroup(ctx, orders); !errors.Is(err, cause) {
		t.Errorf("got %v, want the cause of the context", err)
	}
}
