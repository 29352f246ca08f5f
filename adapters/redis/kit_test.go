package redis_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/port/porttest"
)

func init() { redis.SetLibraryLogger(slog.New(slog.DiscardHandler)) }

// patience is how long these tests let a server take to answer where the time is not what
// they are about: the defaults are too short for a machine that stands still for seconds.
const patience = time.Minute

// patient has patience for what cfg leaves open.
func patient(cfg redis.Config) redis.Config {
	cfg.DialTimeout = cmp.Or(cfg.DialTimeout, patience)
	cfg.Timeout = cmp.Or(cfg.Timeout, patience)
	cfg.Patience = cmp.Or(cfg.Patience, patience)
	cfg.WaitTimeout = cmp.Or(cfg.WaitTimeout, cfg.Timeout/2)
	return cfg
}

// open opens a client that the test closes. A server that does not answer within a short
// time that cfg has is asked again.
func open(tb testing.TB, cfg redis.Config) *redis.Client {
	tb.Helper()
	var c *redis.Client
	redistest.Eventually(tb, "a client of "+cfg.URL, func() (opened bool) {
		var err error
		if c, err = redis.Open(tb.Context(), patient(cfg)); err == nil {
			return true
		}
		if cfg.Timeout == 0 || !redis.Unavailable(err) {
			tb.Fatalf("open %s: %v", cfg.URL, err)
		}
		return false
	})
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return c
}

func openStore(tb testing.TB, cfg redis.Config) *redis.Store {
	tb.Helper()
	return storeOn(tb, open(tb, cfg), cfg)
}

// storeOn opens the store of a client that was opened with cfg.
func storeOn(tb testing.TB, c *redis.Client, cfg redis.Config) *redis.Store {
	tb.Helper()
	var s *redis.Store
	redistest.Eventually(tb, "the store", func() (opened bool) {
		var err error
		if s, err = c.Store(tb.Context()); err != nil && cfg.Timeout == 0 && cfg.WaitTimeout == 0 {
			tb.Fatalf("open the store: %v", err)
		}
		return err == nil
	})
	return s
}

func openMutex(tb testing.TB, cfg redis.Config) *redis.Mutex {
	tb.Helper()
	return open(tb, cfg).Mutex()
}

// raw returns a client of the test's own, to look at the keys with.
func raw(tb testing.TB, url string) *goredis.Client {
	tb.Helper()
	opts, err := goredis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = patience, patience, patience, patience
	opts.MaxRetries = -1 // what is repeated may be carried out twice
	c := goredis.NewClient(opts)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// universal returns a client of the test's own for one server or a Cluster.
func universal(tb testing.TB, cfg redis.Config) goredis.UniversalClient {
	tb.Helper()
	if cfg.URL != "" {
		return raw(tb, cfg.URL)
	}
	return rawCluster(tb, cfg.Addrs)
}

// rawCluster returns a client of the test's own for a Cluster.
func rawCluster(tb testing.TB, addrs []string) *goredis.ClusterClient {
	tb.Helper()
	c := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: addrs, DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
	})
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

var prefixes atomic.Int64

// freshPrefix returns a key prefix under which there is nothing.
func freshPrefix() string { return fmt.Sprintf("test-%d", prefixes.Add(1)) }

// metadataSuites runs the suites of what the coordinator keeps.
func metadataSuites(t *testing.T, cfg redis.Config) {
	t.Run("Store", func(t *testing.T) {
		porttest.Store(t, func(t *testing.T) port.Store {
			cfg := cfg
			cfg.KeyPrefix = freshPrefix()
			return openStore(t, cfg)
		})
	})
	t.Run("Signal", func(t *testing.T) {
		porttest.Signal(t, func(t *testing.T) (a, b porttest.SignalStore) {
			cfg := cfg
			cfg.KeyPrefix = freshPrefix()
			return openStore(t, cfg), openStore(t, cfg)
		})
	})
	t.Run("Mutex", func(t *testing.T) {
		porttest.Mutex(t, func(t *testing.T) port.Mutex {
			cfg := cfg
			cfg.KeyPrefix = freshPrefix()
			// A holder that stands still loses its mutex after a while, as it should.
			cfg.Mutex.TTL, cfg.Mutex.AcquireTimeout = time.Hour, patience
			return openMutex(t, cfg)
		})
	})
}

// suites runs the conformance suites against one server.
func suites(t *testing.T, url string) {
	metadataSuites(t, redis.Config{URL: url})
	c := raw(t, url)
	streamSuites(t, redis.Config{URL: url}, c, func(ctx context.Context) error { return removeKeys(ctx, c) })
}

// streamSuites runs the suites of what is done with streams; clean removes the keys
// of the one before.
func streamSuites(t *testing.T, cfg redis.Config, c goredis.UniversalClient, clean func(context.Context) error) {
	fresh := func(t *testing.T) porttest.Redis {
		if err := clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		streams := open(t, cfg).Streams()
		return porttest.Redis{Streams: streams, Shards: streams, Do: func(ctx context.Context, args ...any) (any, error) {
			return c.Do(ctx, args...).Result()
		}}
	}
	t.Run("Streams", func(t *testing.T) { porttest.Streams(t, fresh) })
	t.Run("Shards", func(t *testing.T) { porttest.Shards(t, fresh) })
}

// removeKeys removes what the suite of streams has left on a server.
func removeKeys(ctx context.Context, c *goredis.Client) error {
	keys, err := c.Keys(ctx, "porttest*").Result()
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := c.Del(ctx, key).Err(); err != nil {
			return err
		}
	}
	return nil
}

// startMini starts the embedded server.
func startMini(t *testing.T) (url string) {
	t.Helper()
	return "redis://" + miniredis.RunT(t).Addr()
}

// calls returns how often the server has been sent a command, by its own count.
func calls(t *testing.T, c *goredis.Client, command string) int {
	t.Helper()
	info, err := c.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(info, "cmdstat_"+command+":calls=")
	if !ok {
		return 0
	}
	var n int
	if _, err := fmt.Sscanf(rest, "%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// atOnce fails unless do, which can be repeated, takes less than a second: it always
// takes longer where it waits for something, and now and then on a busy machine.
func atOnce(t *testing.T, do func()) {
	t.Helper()
	const attempts = 20
	var took []time.Duration
	for range attempts {
		start := time.Now()
		do()
		took = append(took, time.Since(start))
		if took[len(took)-1] < time.Second {
			return
		}
	}
	t.Errorf("it took %s", took)
}
