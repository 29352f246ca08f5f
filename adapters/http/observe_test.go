package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Requests under the base path are told of, by route and not by path, and others are
// not.
func TestObserve(t *testing.T) {
	const group = "/coord/v1/streams/{streamPrefix}/groups/{consumerGroup}"
	for _, c := range []struct {
		request
		want string
	}{
		{request{"GET", groupPath, as("reader"), "", nil}, "GET " + group + " orders billing 200 "},
		{request{"HEAD", groupPath, as("reader"), "", nil}, "HEAD " + group + " orders billing 200 "},
		{request{"GET", "/coord/v1/streams/a%20b/groups/c%25d", as("reader"), "", nil}, "GET " + group + " a b c%d 200 "},
		{request{"GET", "/coord/v1/streams/orders/groups/%00", as("reader"), "", nil}, "GET " + group + "   400 INVALID_REQUEST"},
		{request{"GET", "/coord/v1/streams/orders", as("reader"), "", nil}, "GET /coord/v1/streams/{streamPrefix}   200 "},
		{request{"GET", groupPath, "", "", nil}, "GET " + group + " orders billing 401 UNAUTHORIZED"},
		{request{"DELETE", groupPath, as("reader"), deleteBody, nil}, "DELETE " + group + " orders billing 403 FORBIDDEN"},
		{request{"POST", beatPath, as("member"), minimalBeat, nil}, "POST " + group + "/members/{memberId}/heartbeat orders billing 200 "},
		{request{"POST", beatPath, as("reader"), minimalBeat, nil}, "POST " + group + "/members/{memberId}/heartbeat orders billing 403 FORBIDDEN"},
		{request{"GET", "/coord/v1/nothing", "", "", nil}, "GET    404 ROUTE_NOT_FOUND"},
		{request{"PUT", groupPath, "", "", nil}, "PUT    405 METHOD_NOT_ALLOWED"},
		{request{"GET", "/health/live", "", "", nil}, ""},
		{request{"GET", "/coord/v1x", "", "", nil}, ""},
	} {
		var seen string
		api := newAPI(t, &fake{}, func(config *Config) {
			config.AuthenticateMembers = true
			config.Observe = func(s Served) {
				if s.Took <= 0 {
					t.Errorf("%s %s took %s", c.method, c.path, s.Took)
				}
				seen = fmt.Sprintf("%s %s %s %s %d %s", s.Method, s.Route, s.Stream, s.Group, s.Status, s.Code)
			}
		})
		if c.send(t, api); seen != c.want {
			t.Errorf("%s %s is told as %q, want %q", c.method, c.path, seen, c.want)
		}
	}
}

// A handler that panics is told of, too, and its span ends.
func TestObservePanics(t *testing.T) {
	var served []Served
	var ended []int
	api := newAPI(t, &fake{panics: "a bug"}, func(config *Config) {
		config.Observe = func(s Served) { served = append(served, s) }
		config.Trace = func(r *http.Request, _ string) (context.Context, func(int)) {
			return r.Context(), func(status int) { ended = append(ended, status) }
		}
	})
	request{"GET", groupPath, as("reader"), "", nil}.send(t, api)
	if len(served) != 1 || served[0].Status != 500 || served[0].Code != errFailed.Code || !slices.Equal(ended, []int{500}) {
		t.Errorf("told %+v, ended %v", served, ended)
	}
}

// The context of a trace is the one that the coordinator works in.
func TestTraceReachesTheCoordinator(t *testing.T) {
	type key struct{}
	var got any
	var route string
	f := &fake{heartbeat: func(ctx context.Context, q *protocol.Heartbeat) protocol.HeartbeatResponse {
		got = ctx.Value(key{})
		return protocol.NewHeartbeatResponse(q, protocol.StatusOK, "", protocol.DefaultTimings())
	}}
	api := newAPI(t, f, func(config *Config) {
		config.Trace = func(r *http.Request, of string) (context.Context, func(int)) {
			route = of
			return context.WithValue(r.Context(), key{}, "traced"), func(int) {}
		}
	})
	request{"POST", beatPath, "", minimalBeat, nil}.send(t, api)
	if got != "traced" || !strings.HasSuffix(route, "/members/{memberId}/heartbeat") {
		t.Errorf("the coordinator's context has %v, the route is %q", got, route)
	}
}

// Scrapes are answered where scrapers look, and asked for credentials only if they are
// to be.
func TestMetricsRoutes(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("up 1\n")) })
	for _, path := range []string{"/metrics", "/actuator/prometheus"} {
		for _, c := range []struct {
			metrics      http.Handler
			authenticate bool
			auth         string
			want         int
		}{
			{metrics, false, "", 200}, {metrics, true, "", 401}, {metrics, true, as("member"), 403}, {metrics, true, as("monitor"), 200}, {nil, false, "", 404},
		} {
			api := newAPI(t, &fake{}, func(config *Config) { config.Metrics, config.AuthenticateMetrics = c.metrics, c.authenticate })
			w := request{"GET", path, c.auth, "", nil}.send(t, api)
			if w.Code != c.want || c.want == 200 && w.Body.String() != "up 1\n" {
				t.Errorf("%s, asked for credentials %t: %d %q, want %d", path, c.authenticate, w.Code, w.Body, c.want)
			}
		}
	}
}

// A heartbeat that is observed allocates what it allocates anyway.
func TestObserveAllocatesNothing(t *testing.T) {
	cost := func(change func(*Config)) float64 {
		api := newAPI(t, &silent{}, change)
		q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, beatPath, nil)
		w := httptest.NewRecorder()
		const runs = 2000
		var before, after runtime.MemStats
		for i := range runs + 10 {
			if i == 10 {
				runtime.ReadMemStats(&before)
			}
			q.Body = io.NopCloser(strings.NewReader(minimalBeat))
			w.Body.Reset()
			api.ServeHTTP(w, q)
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / runs
	}
	// Pools forget now and then, so the mean is no whole number.
	without := cost(func(*Config) {})
	if with := cost(func(c *Config) { c.Observe = func(Served) {} }); with > without+0.5 {
		t.Errorf("%.2f allocations, %.2f without", with, without)
	}
}

// silent is a fake that writes nothing down.
type silent struct{ fake }

func (*silent) Heartbeat(_ context.Context, _, _ string, q *protocol.Heartbeat) protocol.HeartbeatResponse {
	return protocol.NewHeartbeatResponse(q, protocol.StatusOK, "", protocol.DefaultTimings())
}
