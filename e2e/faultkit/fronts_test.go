package faultkit

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// in is long enough for an answer to whoever is let through, and briefly for one that is
// not: that one waits in vain.
const in, briefly = patience, 300 * time.Millisecond

// clientOf reaches the server as one of its users, and repeats nothing.
func clientOf(t *testing.T, s *Server, user string) redis.UniversalClient {
	t.Helper()
	c := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Addrs(), IsClusterMode: s.Kind.Clustered, Username: user, Password: user, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: in, ReadTimeout: in, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestAGateBarsOneUserAndNoOther(t *testing.T) {
	Slow(t)
	for _, kind := range []Kind{Redis7, Cluster} {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			s := kind.Start(t, Options{Gated: true, Users: []string{"ann", "bob"}})
			ann, bob := clientOf(t, s, "ann"), clientOf(t, s, "bob")
			set := func(c redis.UniversalClient, within time.Duration) error {
				ctx, done := context.WithTimeout(ctx, within)
				defer done()
				return c.Set(ctx, "key", 1, 0).Err()
			}
			for _, silent := range []bool{false, true} {
				must(t, set(ann, in))
				must(t, set(bob, in))
				s.Bar("ann", silent)
				if err := set(ann, briefly); err == nil {
					t.Errorf("silent=%t: a user that is barred was let through", silent)
				}
				if err := set(bob, in); err != nil {
					t.Errorf("silent=%t: a user that is not barred was not let through: %v", silent, err)
				}
				s.Open("ann")
				Eventually(t, patience, "the user is let through again", func() bool { return set(ann, in) == nil })
			}
		})
	}
}

func TestAGatedClusterFailsOver(t *testing.T) {
	Slow(t)
	ctx := t.Context()
	s := Cluster.Start(t, Options{Gated: true, Users: []string{"ann"}})
	ann := clientOf(t, s, "ann")
	must(t, ann.Set(ctx, "key", 1, 0).Err())
	owner := s.Owner("key")
	s.InStep(owner)
	s.KillMaster(owner)
	if s.Owner("key") == owner {
		t.Error("a killed master serves the key")
	}
	// One that asks anew who is master: it is told of a gate again.
	fresh := clientOf(t, s, "ann")
	Eventually(t, patience, "the user finds the new master", func() bool { return fresh.Get(ctx, "key").Val() == "1" })
	owner.Start()
	s.AwaitWhole()
	if owner.master(ctx) {
		t.Error("the old master is one again")
	}
}

func TestASentinelMakesTheReplicaAMaster(t *testing.T) {
	Slow(t)
	ctx := t.Context()
	w := StartWatched(t)
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: w.Name, SentinelAddrs: []string{w.Sentinel}, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.Set(ctx, "key", 1, 0).Err())
	Eventually(t, patience, "the replica has it", func() bool { return w.Replica.Client.Get(ctx, "key").Val() == "1" })
	w.KillMaster()
	Eventually(t, patience, "the client finds the new master", func() bool { return c.Set(ctx, "other", 2, 0).Err() == nil })
	if got := w.Replica.Client.Get(ctx, "key").Val(); got != "1" {
		t.Errorf("the new master has %q", got)
	}
}

// backend is an HTTP server that says its name.
func backend(t *testing.T, name string, well *atomic.Bool) (addr string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" && !well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(name))
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func TestABalancerTakesTurnsAndLeavesOutWhoIsNotWell(t *testing.T) {
	var well [3]atomic.Bool
	var addrs []string
	for i := range well {
		well[i].Store(true)
		addrs = append(addrs, backend(t, string(rune('a'+i)), &well[i]))
	}
	// One more that nobody listens at.
	addrs = append(addrs, FreeAddr(t))
	b := Balance(t, "/health", addrs...)
	ask := func() {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.URL+"/", strings.NewReader("text"))
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("the balancer answers %s", response.Status)
		}
	}
	// One that is late to say that it is well has no turn meanwhile.
	Eventually(t, patience, "the servers take turns", func() bool {
		var before [len(well)]int64
		for i := range well {
			before[i] = b.Served(i)
		}
		for range 20 {
			ask()
		}
		for i := range well {
			if b.Served(i)-before[i] < 4 {
				return false
			}
		}
		return true
	})
	well[0].Store(false)
	Eventually(t, patience, "the first server is left out", func() bool {
		before := b.Served(0)
		for range 2 * len(addrs) {
			ask()
		}
		return b.Served(0) == before
	})
	well[0].Store(true)
	Eventually(t, patience, "the first server is asked again", func() bool {
		before := b.Served(0)
		ask()
		return b.Served(0) > before
	})
}
