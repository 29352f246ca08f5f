package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// flaky is a store that can be away.
type flaky struct {
	*memstore.Store
	away atomic.Bool
}

var errAway = errors.New("dial tcp 10.9.8.7:6379: connection refused")

func (s *flaky) err() error {
	if s.away.Load() {
		return errAway
	}
	return nil
}

func (s *flaky) LoadGroup(ctx context.Context, key port.GroupKey, known port.Version) (port.GroupRecord, error) {
	if err := s.err(); err != nil {
		return port.GroupRecord{}, err
	}
	return s.Store.LoadGroup(ctx, key, known)
}

func (s *flaky) LoadStream(ctx context.Context, prefix string) (port.Record, error) {
	if err := s.err(); err != nil {
		return port.Record{}, err
	}
	return s.Store.LoadStream(ctx, prefix)
}

func (s *flaky) RenewGroup(ctx context.Context, key port.GroupKey, r port.Renewal) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.RenewGroup(ctx, key, r)
}

func (s *flaky) SaveGroup(ctx context.Context, key port.GroupKey, save port.GroupSave) (port.Version, error) {
	if err := s.err(); err != nil {
		return port.Version{}, err
	}
	return s.Store.SaveGroup(ctx, key, save)
}

func (s *flaky) ListGroups(ctx context.Context) ([]port.GroupKey, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.ListGroups(ctx)
}

func (s *flaky) ListStreams(ctx context.Context) ([]string, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.ListStreams(ctx)
}

func (s *flaky) Ping(ctx context.Context) (string, error) {
	if err := s.err(); err != nil {
		return "", err
	}
	return s.Store.Ping(ctx)
}

func (s *flaky) RepairIndex(context.Context) (port.Repair, error) { return port.Repair{}, s.err() }

// bodies are sound bodies of the routes that take one, by what the path ends with.
var bodies = map[string]string{
	"/heartbeat": minimalBeat, "/login": `{"username":"admin","password":"does:all"}`,
	"/timings": `{"memberLeaseTtlMs":20000,"requestedBy":"ops","reason":"x"}`,
	"/scale":   `{"targetShardCount":6,"requestedBy":"ops","reason":"x"}`, "/ignore-group": `{"consumerGroup":"g","requestedBy":"ops","reason":"x"}`,
	"/give-up": `{"shards":[{"shardIndex":3}],"requestedBy":"ops","reason":"x"}`,
}

func bodyOf(r route) string {
	if r.method == http.MethodGet {
		return ""
	}
	for end, body := range bodies {
		if strings.HasSuffix(r.path, end) {
			return body
		}
	}
	return createBody[:len(createBody)-1] + `,"reason":"x"}`
}

var fillPath = strings.NewReplacer(":streamPrefix", "orders", ":consumerGroup", "billing", ":memberId", "m", ":shardIndex", "0", ":reshardingId", "reshard-none")

// TestEveryRouteWithoutStore: while the metadata store is away, whatever needs it says
// so, and that it is worth trying again; a heartbeat is told to try again.
func TestEveryRouteWithoutStore(t *testing.T) {
	store := &flaky{Store: memstore.New()}
	s := newStageOn(t, store)
	s.ok("POST", apiBase+"/streams/orders", createBody)
	s.ok("POST", groupPath, `{"requestedBy":"ops"}`)
	store.away.Store(true)
	a := &api{config: Config{}.withDefaults()}
	for _, r := range a.routes() {
		path := fillPath.Replace(r.path)
		if strings.Contains(path, "/grafana/") {
			path += namesQuery
		}
		_, o := s.operation(r.method, path)
		w := s.call(r.method, path, "admin", bodyOf(r))
		if strings.Contains(w.Body.String(), "10.9.8.7") {
			t.Errorf("%s %s tells where the store is: %s", r.method, path, w.Body)
		}
		i := operationOf(r)
		switch {
		case operations[i].id == "sendConsumerHeartbeat":
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"status":"RETRY"`) {
				t.Errorf("a heartbeat is answered %d %s", w.Code, w.Body)
			}
		case operations[i].asksCoordinator():
			if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "STORE_UNAVAILABLE") {
				t.Errorf("%s %s: %d, Retry-After %q: %s (%v)", r.method, path, w.Code, w.Header().Get("Retry-After"), w.Body, o["operationId"])
			}
		}
	}
}

// operationOf finds the description of a route.
func operationOf(r route) int {
	for i := range operations {
		path := operations[i].path
		if !operations[i].absolute {
			path = DefaultBasePath + path
		}
		if operations[i].method == r.method && path == r.path {
			return i
		}
	}
	return -1
}

// TestEveryChangeIsLimited: with a limit, every route that changes something answers 429
// once it is reached.
func TestEveryChangeIsLimited(t *testing.T) {
	s := newStage(t, func(c *Config) { c.Access.RateLimit = RateLimit{Enabled: true, MutationsPerMinute: 1} })
	a := &api{config: Config{}.withDefaults()}
	n := 0
	for _, r := range a.routes() {
		if !r.changes() {
			continue
		}
		n++
		path := fillPath.Replace(r.path)
		w := s.call(r.method, path, "admin", bodyOf(r))
		for range 2 {
			w = s.call(r.method, path, "admin", bodyOf(r))
		}
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), "RATE_LIMIT_EXCEEDED") {
			t.Errorf("%s %s: %d, Retry-After %q: %s", r.method, path, w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
	if n < 10 {
		t.Errorf("only %d routes change anything", n)
	}
}
