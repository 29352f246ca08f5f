package redis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// reasons returns what the entries of a list give as their reasons.
func reasons(t *testing.T, cfg redis.Config, key string) []string {
	t.Helper()
	list, err := universal(t, cfg).LRange(t.Context(), key, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, text := range list {
		var e struct{ Reason string }
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatalf("%s: %v: %s", key, err, text)
		}
		all = append(all, e.Reason)
	}
	return all
}

// TestAuditLists: which list an entry goes to, and that each keeps the newest.
func TestAuditLists(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) redis.Config{
		"embedded server": func(t *testing.T) redis.Config { return redis.Config{URL: startMini(t)} },
		"server":          func(t *testing.T) redis.Config { return redis.Config{URL: redistest.Start(t).URL()} },
		"cluster": func(t *testing.T) redis.Config {
			return redis.Config{Addrs: redistest.StartCluster(t, 3, false).Addrs()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := start(t)
			cfg.KeyPrefix, cfg.AuditEntries = freshPrefix(), 3
			audit := open(t, cfg).Audit()
			record := func(e port.AuditEntry) {
				t.Helper()
				if err := audit.Record(t.Context(), e); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 5 {
				reason := fmt.Sprint("r", i)
				record(port.AuditEntry{StreamPrefix: "orders", Outcome: port.AuditSuccess, Reason: reason})
				record(port.AuditEntry{StreamPrefix: "orders", ConsumerGroup: "a:b", Outcome: port.AuditFailed, Reason: reason})
			}
			for _, e := range []port.AuditEntry{
				{StreamPrefix: "stranger", Outcome: port.AuditUnauthorized, Reason: "nobody"},
				{StreamPrefix: "orders", ConsumerGroup: "billing", Outcome: port.AuditForbidden, Reason: "not allowed"},
				{StreamPrefix: "a{b}", Outcome: port.AuditFailed, Reason: "no name"},
				{StreamPrefix: "orders", ConsumerGroup: "a/b", Outcome: port.AuditFailed, Reason: "no name of a group"},
			} {
				record(e)
			}
			for key, want := range map[string][]string{
				":{orders}:admin:audit":         {"r2", "r3", "r4"},
				":{orders:a%3Ab}:admin:audit":   {"r2", "r3", "r4"},
				":admin:audit":                  {"not allowed", "no name", "no name of a group"},
				":{stranger}:admin:audit":       nil,
				":{orders:billing}:admin:audit": nil,
			} {
				if got := reasons(t, cfg, cfg.KeyPrefix+key); !slices.Equal(got, want) {
					t.Errorf("%s holds %q, want %q", key, got, want)
				}
			}
		})
	}
}

// TestAuditOfManyAtOnce: entries that are written at the same time are all there.
func TestAuditOfManyAtOnce(t *testing.T) {
	t.Parallel()
	cfg := redis.Config{URL: redistest.Start(t).URL(), KeyPrefix: freshPrefix()}
	audit := open(t, cfg).Audit()
	const n = 200
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if err := audit.Record(t.Context(), port.AuditEntry{StreamPrefix: "orders", Reason: fmt.Sprint(i)}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got := reasons(t, cfg, cfg.KeyPrefix+":{orders}:admin:audit")
	slices.Sort(got)
	if len(slices.Compact(got)) != n {
		t.Errorf("%d different entries, want %d", len(slices.Compact(got)), n)
	}
}

// TestAuditTrouble: what cannot be written is an error, for the caller to put the
// entry elsewhere.
func TestAuditTrouble(t *testing.T) {
	t.Parallel()
	url := startMini(t)
	cfg := redis.Config{URL: url, KeyPrefix: freshPrefix()}
	if err := raw(t, url).Set(t.Context(), cfg.KeyPrefix+":{orders}:admin:audit", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	audit := open(t, cfg).Audit()
	if err := audit.Record(t.Context(), port.AuditEntry{StreamPrefix: "orders"}); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a key that holds something else: %v", err)
	}
	ended, end := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	end(enough)
	if err := audit.Record(ended, port.AuditEntry{StreamPrefix: "pay"}); !errors.Is(err, enough) {
		t.Errorf("after the context: %v", err)
	}
	if err := audit.Record(t.Context(), port.AuditEntry{StreamPrefix: "pay"}); err != nil {
		t.Errorf("a slot was not given back: %v", err)
	}
}
