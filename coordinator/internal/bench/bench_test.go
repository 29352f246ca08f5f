package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/bench"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/server"
)

// short is a run that takes no time.
func short() bench.Options {
	return bench.Options{Members: 6, Groups: 2, Shards: 20, Connections: 4, Duration: 300 * time.Millisecond}
}

func TestKeepalivesOnAnEmbeddedCoordinator(t *testing.T) {
	o := short()
	o.Embedded = true
	r, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK() || r.Heartbeats < 4 || r.Latency.Count != uint64(r.Heartbeats) || r.Connections != 4 || r.Store != nil {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"in this process", "2 groups of 6 members on a stream with 20 shards, keepalives over 4 connections", "0 failed", "latency", "p99.9", "µs of processor"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

func TestMembersThatWait(t *testing.T) {
	o := short()
	o.Embedded, o.Wait, o.Duration = true, time.Second, time.Second
	r, err := bench.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// A visitor gets 2 of the 20 shards, and leaves them behind.
	if !r.OK() || r.Join.Count == 0 || r.Leave.Count != r.Join.Count || r.Moved != int(r.Join.Count)*4 || r.Latency != nil {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"heartbeats held for 1s", "a member joins", "a member leaves"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

// What the store does is counted, and nothing is left in it.
func TestTheStoreIsCountedAndLeftClean(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client()
	for _, embedded := range []bool{true, false} {
		o := short()
		o.Redis = &redis.UniversalOptions{Addrs: []string{s.Addr}}
		o.Embedded = embedded
		var before []string
		if !embedded {
			o.Coordinators = []string{coordinator(t, s.URL)}
			o.Username, o.Password = "admin", config.DefaultPassword
			o.PIDs = []int{os.Getpid()}
			before = keys(t, client)
		}
		r, err := bench.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		// Two connections of a group may share a call.
		if !r.OK() || r.Store.ScriptCalls <= 0 || r.Store.Commands["hset"] < 1000/2 || r.Store.BytesIn <= 0 {
			t.Errorf("embedded %v: %+v, %+v", embedded, r, r.Store)
		}
		if !embedded && len(r.CPU) != 2 {
			t.Errorf("%d processes are shown", len(r.CPU))
		}
		if after := keys(t, client); !slices.Equal(before, after) {
			t.Errorf("embedded %v: there were %v and are %v", embedded, before, after)
		}
	}
}

func keys(t *testing.T, c *redis.Client) []string {
	t.Helper()
	all, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	// Sets vanish with their last element.
	all = slices.DeleteFunc(all, func(key string) bool { return strings.HasSuffix(key, ":streams") || strings.HasSuffix(key, ":groups") })
	slices.Sort(all)
	return all
}

// coordinator runs one with the default settings.
func coordinator(t *testing.T, redisURL string) (url string) {
	t.Helper()
	cfg := config.Default()
	cfg.Server.Address = "127.0.0.1:0"
	cfg.Coordinator.Store.Type, cfg.Coordinator.Redis.URL = config.StoreRedis, config.URL(redisURL)
	cfg.Coordinator.Streams.ProvisioningEnabled = true
	s, err := server.New(t.Context(), cfg, server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.URL()
}

func TestRunRefuses(t *testing.T) {
	for _, o := range []bench.Options{
		{},
		{Embedded: true, Members: -1},
		{Embedded: true, Members: 10_001},
		{Embedded: true, Groups: 65},
		{Embedded: true, Shards: 65_537},
		{Embedded: true, Connections: 100_000},
		{Embedded: true, Duration: time.Millisecond},
		{Embedded: true, Wait: -1},
		{Embedded: true, Wait: 1, Members: 10_000},
	} {
		if _, err := bench.Run(t.Context(), o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	over := errors.New("over")
	o := short()
	o.Embedded, o.Duration = true, time.Hour
	o.Progress = func(line string) {
		if strings.HasPrefix(line, "keepalives") {
			stop(over)
		}
	}
	if _, err := bench.Run(ctx, o); !errors.Is(err, over) {
		t.Errorf("it ended with %v", err)
	}
}

func TestTheResultAsJSON(t *testing.T) {
	r := bench.Result{Members: 3, Settled: bench.Duration(1500 * time.Microsecond), Latency: &bench.Times{P99: bench.Duration(2 * time.Second)}}
	text, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Members int     `json:"membersOfEachGroup"`
		Settled float64 `json:"settledMs"`
		Latency struct {
			P99 float64 `json:"p99Ms"`
		} `json:"latency"`
		Store *struct{} `json:"store"`
	}
	if err := json.Unmarshal(text, &got); err != nil || got.Members != 3 || got.Settled != 1.5 || got.Latency.P99 != 2000 || got.Store != nil {
		t.Errorf("%+v, %v of %s", got, err, text)
	}
}
