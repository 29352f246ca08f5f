package telemetry

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// receiver takes spans as a tracing system would.
type receiver struct {
	mu   sync.Mutex
	got  bytes.Buffer
	path string
}

func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.path = q.URL.Path
	if err == nil {
		r.got.Write(body)
	}
}

// Spans of requests and of the store's calls below them reach the tracing system, as
// part of the caller's trace.
func TestSpansReachTheTracingSystem(t *testing.T) {
	system := new(receiver)
	server := httptest.NewServer(system)
	defer server.Close()
	m, err := New(t.Context(), Options{ID: "c-1", Version: "v0", Tracing: Tracing{Endpoint: server.URL + "/v1/traces", SampleRatio: 1}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := service.Config{ID: "c-1"}
	m.Hook(&cfg)
	c, err := service.New(cfg, m.Ports(service.Ports{Store: memstore.New()}))
	if err != nil {
		t.Fatal(err)
	}
	handler, err := httpapi.New(httpapi.Config{
		Observe: m.Served, Trace: m.Trace(),
		Access: httpapi.Access{Users: []httpapi.User{{Username: "u", Password: "p", Roles: []httpapi.Role{httpapi.RoleAdmin}}}},
	}, m.API(c))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/coord/v1/streams/orders", strings.NewReader(`{"initialShardCount":1,"requestedBy":"test","reason":"test"}`))
	r.SetBasicAuth("u", "p")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	if answer.Code >= 300 {
		t.Fatalf("%d: %s", answer.Code, answer.Body)
	}
	if err := errors.Join(c.Close(t.Context()), m.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	system.mu.Lock()
	defer system.mu.Unlock()
	for what, part := range map[string]string{
		"the request": "POST /coord/v1/streams/{streamPrefix}", "a save": "save-stream",
		"the name of the service": "redis-stream-coordinator", "the caller's trace": "0123456789abcdef0123456789abcdef",
	} {
		if !bytes.Contains(system.got.Bytes(), []byte(part)) {
			t.Errorf("%s is missing in %d bytes sent to %q", what, system.got.Len(), system.path)
		}
	}
}

// Without an endpoint nothing is made and nothing is asked.
func TestNoTracingCostsNothing(t *testing.T) {
	w := newWorld(t)
	if w.Trace() != nil {
		t.Error("requests are traced")
	}
	w.halt() // whose memory would be counted, too
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		_, s := w.tracing.child(ctx, opPing)
		s.end(nil, false)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
