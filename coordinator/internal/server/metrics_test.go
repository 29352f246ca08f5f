package server

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/redistest"
)

// shows reports whether a scrape has a series with these labels and this value.
func shows(scrape, name, labels, value string) bool {
	for line := range strings.Lines(scrape) {
		if strings.HasPrefix(line, "redis_stream_coord_"+name+"{") && strings.Contains(line, labels) && strings.HasSuffix(line, " "+value+"\n") {
			return true
		}
	}
	return false
}

// A scrape of a running coordinator shows what is in Redis, and nothing of what was
// deleted.
func TestMetricsOfRunningCoordinators(t *testing.T) {
	redis := redistest.Start(t)
	first := run(t, settings(t, "coordinator.redis.url="+redis.URL, "coordinator.id=first"), Options{Version: "v9"})
	second := run(t, settings(t, "coordinator.redis.url="+redis.URL, "coordinator.id=second"), Options{})
	first.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	decode(t, first.mustCall(t, "POST", beat, heartbeat(t, nil), 200))
	client := redis.Client()
	for i := range 3 {
		if err := client.XAdd(t.Context(), &goredis.XAddArgs{Stream: "orders:1", Values: map[string]any{"n": i}}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.XReadGroup(t.Context(), &goredis.XReadGroupArgs{Group: "billing", Consumer: "c", Streams: []string{"orders:1", ">"}, Count: 1}).Err(); err != nil {
		t.Fatal(err)
	}
	const one = `shard="1",stream="orders",stream_key="orders:1"`
	var missing [][3]string
	defer func() {
		if len(missing) > 0 {
			t.Logf("not shown: %v", missing)
		}
	}()
	for name, r := range map[string]*running{"first": first, "second": second} {
		wanted := [][3]string{
			{"up", `coordinator="` + name + `"`, "1"}, {"shard_lag", one, "2"}, {"shard_lag_known", one, "1"}, {"shard_pending", one, "1"}, {"shard_stream_length", one, "3"},
			{"shard_entries_added_total", one, "3"}, {"group_lag", `group="billing"`, "2"}, {"members", `group="billing",state="active"`, "1"},
			{"stream_shards", `stream="orders"`, "2"}, {"member_granted_shards", `member="m"`, "2"},
		}
		eventually(t, name+" shows the shard, its group and its member", func() bool {
			scrape := r.mustCall(t, "GET", "/actuator/prometheus", "", 200)
			missing = slices.DeleteFunc(slices.Clone(wanted), func(w [3]string) bool { return shows(scrape, w[0], w[1], w[2]) })
			if !strings.Contains(scrape, "redis_stream_coord_shard_memory_usage_bytes{") {
				missing = append(missing, [3]string{"shard_memory_usage_bytes"})
			}
			return len(missing) == 0
		})
	}
	if scrape := first.mustCall(t, "GET", "/metrics", "", 200); !strings.Contains(scrape, `version="v9"`) || !shows(scrape, "member_joined_total", `group="billing"`, "1") {
		t.Error("the first does not show its version, or that a member joined")
	}
	redis.Stop()
	eventually(t, "the outage is shown", func() bool {
		scrape := first.mustCall(t, "GET", "/metrics", "", 200)
		return shows(scrape, "store_up", "", "0") && shows(scrape, "up", "", "0") && shows(scrape, "shard_lag_known", one, "0") && !strings.Contains(scrape, "redis_stream_coord_shard_lag{")
	})
	redis.Start()
	eventually(t, "and that it is over", func() bool {
		return shows(first.mustCall(t, "GET", "/metrics", "", 200), "store_up", "", "1")
	})
}

// What a coordinator did not delete itself is gone from its metrics soon, too.
func TestMetricsForgetAGroupDeletedElsewhere(t *testing.T) {
	redis := redistest.Start(t)
	first := run(t, settings(t, "coordinator.redis.url="+redis.URL, "coordinator.id=first"), Options{})
	second := run(t, settings(t, "coordinator.redis.url="+redis.URL, "coordinator.id=second"), Options{})
	first.mustCall(t, "POST", "/coord/v1/streams/orders/groups/billing", create, 201)
	of := func(r *running) int {
		return strings.Count(r.mustCall(t, "GET", "/metrics", "", 200), `group="billing"`)
	}
	eventually(t, "both show the group", func() bool { return of(first) > 0 && of(second) > 0 })
	first.mustCall(t, "DELETE", "/coord/v1/streams/orders/groups/billing", `{"requestedBy":"test","reason":"test"}`, 200)
	if n := of(first); n != 0 {
		t.Errorf("who deleted the group shows %d series of it", n)
	}
	eventually(t, "the other shows it no more", func() bool { return of(second) == 0 })
}

// Scrapers are asked for credentials where the settings say so.
func TestMetricsAskForCredentials(t *testing.T) {
	r := run(t, settings(t, "coordinator.monitoring.authenticate-metrics=true"), Options{})
	r.mustCall(t, "GET", "/metrics", "", 200)
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("%d, %v", response.StatusCode, err)
	}
}

// spans takes what is sent to a tracing system.
type spans struct {
	mu  sync.Mutex
	got bytes.Buffer
}

func (s *spans) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.Copy(&s.got, q.Body)
}

func (s *spans) contain(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.got.Bytes(), []byte(text))
}

// With an endpoint, requests become spans; the end of the server sends the last ones.
func TestTracesAreSent(t *testing.T) {
	system := new(spans)
	receiver := httptest.NewServer(system)
	defer receiver.Close()
	r := run(t, settings(t, "coordinator.tracing.endpoint="+receiver.URL+"/v1/traces", "coordinator.tracing.sample-percent=100"), Options{})
	r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	if err := r.end(t); err != nil {
		t.Fatal(err)
	}
	if !system.contain("POST /coord/v1/streams/{streamPrefix}") || !system.contain("save-stream") {
		t.Error("the spans of a request were not sent")
	}
}

// A tracing system that is away is said in the log, and ends nothing.
func TestTracingSystemThatIsAway(t *testing.T) {
	r := run(t, settings(t, "coordinator.tracing.endpoint=http://127.0.0.1:1/v1/traces", "coordinator.tracing.sample-percent=100"), Options{})
	r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	if err := r.end(t); err != nil {
		t.Errorf("Run: %v", err)
	}
	if !strings.Contains(r.log.String(), "spans could not be sent") {
		t.Errorf("log:\n%s", r.log)
	}
}
