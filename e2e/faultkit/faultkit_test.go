package faultkit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const patience = 60 * time.Second

func TestEveryKindStartsAndComesBackWithOrWithoutWhatItHeld(t *testing.T) {
	Slow(t)
	for _, kind := range Kinds() {
		for _, durable := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s durable=%t", kind.Name, durable), func(t *testing.T) {
				t.Parallel()
				ctx := t.Context()
				s := kind.Start(t, Options{Durable: durable})
				must(t, s.Client.Set(ctx, "key", "value", 0).Err())
				s.Kill()
				if err := s.Client.Get(ctx, "key").Err(); err == nil || errors.Is(err, redis.Nil) {
					t.Fatalf("a killed server answered: %v", err)
				}
				s.Restart()
				var got string
				Eventually(t, patience, "the server answers", func() bool {
					var err error
					got, err = s.Client.Get(ctx, "key").Result()
					return err == nil || errors.Is(err, redis.Nil)
				})
				if want := map[bool]string{true: "value"}[durable]; got != want {
					t.Errorf("the key holds %q after the restart, want %q", got, want)
				}
				s.FlushAll()
				if n, err := s.Client.DBSize(ctx).Result(); err != nil || n != 0 {
					t.Errorf("%d keys after a flush (%v)", n, err)
				}
			})
		}
	}
}

func TestAFrozenServerAnswersWhenItGoesOn(t *testing.T) {
	Slow(t)
	s := Redis7.Start(t, Options{})
	s.Pause()
	answered := make(chan error, 1)
	go func() { answered <- s.Client.Set(t.Context(), "key", 1, 0).Err() }()
	select {
	case err := <-answered:
		t.Fatalf("a frozen server answered: %v", err)
	case <-time.After(200 * time.Millisecond): // that long nothing must happen
	}
	s.Resume()
	must(t, <-answered)
}

func TestAClusterMovesItsSlotsAndFailsOver(t *testing.T) {
	Slow(t)
	ctx := t.Context()
	s := Cluster.Start(t, Options{})
	const keys = 50
	name := func(i int) string { return fmt.Sprintf("key:%d", i) }
	for i := range keys {
		must(t, s.Client.Set(ctx, name(i), i, 0).Err())
	}
	before := s.Owner(name(0))
	if moved := s.MoveAll(); moved != keys {
		t.Errorf("%d keys were moved, want %d", moved, keys)
	}
	if s.Owner(name(0)) == before {
		t.Error("a key has stayed where it was")
	}
	expectAll := func(when string) {
		t.Helper()
		for i := range keys {
			Eventually(t, patience, name(i)+" is there "+when, func() bool {
				got, err := s.Client.Get(ctx, name(i)).Int()
				return err == nil && got == i
			})
		}
	}
	expectAll("after the move")
	graceful := s.Owner(name(0))
	s.Failover(graceful)
	if s.Owner(name(0)) == graceful {
		t.Error("the old master still serves the key after a failover")
	}
	expectAll("after the failover")
	killed := s.Owner(name(0))
	s.InStep(killed)
	s.KillMaster(killed)
	if s.Owner(name(0)) == killed {
		t.Error("a killed master serves the key")
	}
	expectAll("after the death of a master")
}

func TestAProxyLosesExactlyTheRepliesItIsTold(t *testing.T) {
	Slow(t)
	for _, kind := range Kinds() {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := kind.Start(t, Options{Proxied: true})
			owner := s.Owner("stream")
			var through *Proxy
			for i, n := range s.Nodes {
				if n == owner {
					through = s.Proxies[i]
				}
			}
			client := redis.NewClient(&redis.Options{Addr: through.Addr, MaxRetries: -1})
			defer func() { _ = client.Close() }()
			add := func() error {
				return client.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"a", "b"}}).Err()
			}
			through.Lose(Loss{Command: "XADD", Every: 3, Times: 2})
			for i := 1; i <= 9; i++ {
				must(t, client.Ping(ctx).Err())
				if err, lost := add(), i == 3 || i == 6; (err != nil) != lost {
					t.Errorf("XADD %d: %v, lost must be %t", i, err, lost)
				}
			}
			if through.Lost() != 2 {
				t.Errorf("%d replies were lost, want 2", through.Lost())
			}
			// The server did it all the same, and did the whole of a pipeline.
			through.Lose(Loss{Command: "XADD", Every: 5, Times: 1})
			pipe := client.Pipeline()
			for range 10 {
				pipe.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []string{"a", "b"}})
			}
			if _, err := pipe.Exec(ctx); err == nil {
				t.Error("a pipeline with a lost reply did not fail")
			}
			if n, err := s.Client.XLen(ctx, "stream").Result(); err != nil || n != 19 {
				t.Errorf("%d records are stored, want 19 (%v)", n, err)
			}
		})
	}
}

func TestAProxyDelaysFreezesAndCuts(t *testing.T) {
	Slow(t)
	ctx := t.Context()
	s := Redis7.Start(t, Options{Proxied: true})
	p := s.Proxies[0]
	open := func(timeout time.Duration) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: p.Addr, MaxRetries: -1, ReadTimeout: timeout})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	client, hasty := open(patience), open(100*time.Millisecond)
	must(t, client.Ping(ctx).Err())
	set := func(key string) error { return client.Set(ctx, key, 1, 0).Err() }
	// What a connection begins with must be through before its command can be held.
	freeze := func(d Direction) {
		t.Helper()
		Eventually(t, patience, "the hasty one is connected", func() bool { return hasty.Ping(ctx).Err() == nil })
		p.Freeze(d)
	}
	unanswered := func(key string) bool { return hasty.Set(ctx, key, 1, 0).Err() != nil }
	exists := func(key string) int64 { return s.Client.Exists(ctx, key).Val() }

	freeze(Requests)
	if !unanswered("request held") || exists("request held") != 0 {
		t.Error("a request came through a frozen proxy")
	}
	p.Thaw()
	Eventually(t, patience, "the held request arrives", func() bool { return exists("request held") == 1 })
	must(t, set("before"))
	freeze(Replies)
	if !unanswered("reply held") {
		t.Error("a reply came through a frozen proxy")
	}
	Eventually(t, patience, "a command whose reply is held is carried out", func() bool { return exists("reply held") == 1 })
	p.Thaw()
	must(t, set("after"))
	const delay = 200 * time.Millisecond
	p.Delay(delay)
	began := time.Now()
	must(t, set("late"))
	if took := time.Since(began); took < delay {
		t.Errorf("a reply that is delayed by %s came after %s", delay, took)
	}
	p.Delay(0)
	must(t, set("in time"))
	p.Freeze(Replies)
	answered := make(chan error, 1)
	go func() { answered <- client.Do(ctx, "BLPOP", "never", 0).Err() }()
	Eventually(t, patience, "the command waits", func() bool {
		return strings.Contains(s.Client.Info(ctx, "clients").Val(), "blocked_clients:1")
	})
	p.Thaw()
	p.Cut()
	if <-answered == nil {
		t.Error("a command got an answer over a connection that was cut")
	}
	must(t, set("anew"))
}
