package producer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const routingBody = `{"streamPrefix":"orders","consumerGroup":"billing","metadataVersion":7,"shardCount":1,` +
	`"streamKeyPattern":"orders:{shardIndex}","shards":[{"shardIndex":0,"streamKey":"orders:0","redisSlot":8578}],` +
	`"routingLeaseMs":30000,"newField":{"ignored":true}}`

func transportFor(t *testing.T, cfg Config) *httpTransport {
	t.Helper()
	transport, err := newHTTPTransport(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.close)
	return transport
}

func TestRoutingRequest(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		_, _ = w.Write([]byte(routingBody))
	}))
	defer server.Close()
	tests := []struct {
		name          string
		base          string
		credentials   Credentials
		path          string
		authorization string
	}{
		{"plain", server.URL, nil, "/coord/v1/streams/orders%20%25/groups/bill%3Fing/producer-routing", ""},
		{"own base path", server.URL + "/proxy/api/", nil, "/proxy/api/streams/orders%20%25/groups/bill%3Fing/producer-routing", ""},
		{"basic", server.URL + "/", BasicAuth("ann", "s3:cret"), "/coord/v1/streams/orders%20%25/groups/bill%3Fing/producer-routing", "Basic YW5uOnMzOmNyZXQ="},
		{"token", server.URL, CredentialsFunc(func(context.Context) (string, error) { return "Bearer t", nil }), "/coord/v1/streams/orders%20%25/groups/bill%3Fing/producer-routing", "Bearer t"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			transport := transportFor(t, Config{Coordinators: []string{tt.base}, Stream: "orders %", Group: "bill?ing", Credentials: tt.credentials})
			routing, err := transport.Routing(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if routing.ShardCount != 1 || routing.RoutingLeaseMs != 30000 || routing.Shards[0].StreamKey != "orders:0" {
				t.Errorf("decoded %+v", routing)
			}
			if got.Method != http.MethodGet || got.URL.EscapedPath() != tt.path || got.Header.Get("Authorization") != tt.authorization {
				t.Errorf("%s %s, Authorization %q", got.Method, got.URL.EscapedPath(), got.Header.Get("Authorization"))
			}
		})
	}
}

// An answer that has not changed is not sent again, whichever coordinator is
// asked.
func TestRoutingThatHasNotChanged(t *testing.T) {
	body, tag := routingBody, `"one"`
	var full, unchanged int
	serve := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			unchanged++
			w.WriteHeader(http.StatusNotModified)
			return
		}
		full++
		_, _ = w.Write([]byte(body))
	}
	first := httptest.NewServer(http.HandlerFunc(serve))
	second := httptest.NewServer(http.HandlerFunc(serve))
	defer second.Close()
	transport := transportFor(t, Config{Coordinators: []string{first.URL, second.URL}, Stream: "orders", Group: "billing"})
	ask := func(version int64) {
		t.Helper()
		routing, err := transport.Routing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if routing.MetadataVersion != version {
			t.Errorf("version %d, want %d", routing.MetadataVersion, version)
		}
	}
	ask(7)
	ask(7)
	first.Close()
	ask(7)
	if full != 1 || unchanged != 2 {
		t.Errorf("%d full answers and %d short ones, want 1 and 2", full, unchanged)
	}
	body, tag = strings.Replace(routingBody, `"metadataVersion":7`, `"metadataVersion":8`, 1), `"two"`
	ask(8)
	ask(8)
	if full != 2 || unchanged != 3 {
		t.Errorf("%d full answers and %d short ones, want 2 and 3", full, unchanged)
	}
}

// A coordinator that says "not modified" without having been asked for that is
// no coordinator.
func TestNotModifiedOutOfTheBlue(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) }))
	defer server.Close()
	transport := transportFor(t, Config{Coordinators: []string{server.URL}, Stream: "orders", Group: "billing"})
	if routing, err := transport.Routing(t.Context()); err == nil {
		t.Errorf("got %+v", routing)
	}
}

func TestRoutingAnswers(t *testing.T) {
	tests := []struct {
		name    string
		status  int
		body    string
		want    error // nil: any
		refused bool
		words   string
	}{
		{"no stream", 404, `{"status":"NOT_FOUND","errorCode":"STREAM_NOT_FOUND","message":"no stream orders"}`, protocol.ErrStreamNotFound, true, "no stream orders"},
		{"store down", 503, `{"status":"SERVICE_UNAVAILABLE","errorCode":"STORE_UNAVAILABLE","message":"wait"}`, protocol.ErrStoreUnavailable, false, "wait"},
		{"limited", 429, `{"status":"TOO_MANY_REQUESTS","errorCode":"RATE_LIMIT_EXCEEDED","message":"slow down"}`, nil, false, "slow down"},
		{"unauthenticated", 401, ``, protocol.ErrUnauthorized, true, "UNAUTHORIZED"},
		{"forbidden", 403, ``, protocol.ErrForbidden, true, "FORBIDDEN"},
		{"a load balancer alone", 502, ``, nil, false, "what stands in front of the coordinators reached none of them"},
		{"another server", 404, `<html>not here</html>`, nil, true, "check that this is the URL of a coordinator"},
		{"gateway", 502, `bad gateway`, nil, false, "502"},
		{"no JSON", 200, `hello`, nil, false, "decode the routing"},
		{"no content", 204, ``, nil, false, "204"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
			}))
			defer server.Close()
			_, err := transportFor(t, Config{Coordinators: []string{server.URL}, Stream: "orders", Group: "billing"}).Routing(t.Context())
			if err == nil || (tt.want != nil && !errors.Is(err, tt.want)) || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("got %v, want %v and %q", err, tt.want, tt.words)
			}
			if isRefusal(err) != tt.refused {
				t.Errorf("%v counts as a refusal: %t", err, isRefusal(err))
			}
		})
	}
}

func TestRoutingBodyIsBounded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range maxRoutingBytes/len(chunk) + 1 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	_, err := transportFor(t, Config{Coordinators: []string{server.URL}, Stream: "orders", Group: "billing"}).Routing(t.Context())
	if err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("got %v", err)
	}
}

func TestCredentialsThatFail(t *testing.T) {
	reason := errors.New("token service is down")
	asked := false
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer server.Close()
	failing := CredentialsFunc(func(context.Context) (string, error) { return "", reason })
	_, err := transportFor(t, Config{Coordinators: []string{server.URL}, Stream: "orders", Group: "billing", Credentials: failing}).Routing(t.Context())
	if !errors.Is(err, reason) || asked {
		t.Errorf("got %v, the request was sent: %t", err, asked)
	}
}

func TestCoordinatorsInTurn(t *testing.T) {
	counts := make([]atomic.Int32, 2)
	var down atomic.Int32 // which of the two answers 503
	var servers []string
	for i := range counts {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			counts[i].Add(1)
			if int(down.Load()) == i {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte(routingBody))
		}))
		t.Cleanup(server.Close)
		servers = append(servers, server.URL)
	}
	transport := transportFor(t, Config{Coordinators: servers, Stream: "orders", Group: "billing"})
	ask := func(want0, want1 int32) {
		t.Helper()
		if _, err := transport.Routing(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got0, got1 := counts[0].Load(), counts[1].Load(); got0 != want0 || got1 != want1 {
			t.Errorf("asked %d and %d times, want %d and %d", got0, got1, want0, want1)
		}
	}
	ask(1, 1) // the first is down, the second answers
	ask(1, 2) // and is asked first from then on
	down.Store(1)
	ask(2, 3)

	down.Store(2)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := transport.Routing(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A coordinator that swallows requests uses all the time of one; the next
// request begins with another coordinator.
func TestCoordinatorThatSwallowsRequests(t *testing.T) {
	swallow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer swallow.Close()
	good := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(routingBody)) }))
	defer good.Close()
	transport := transportFor(t, Config{Coordinators: []string{swallow.URL, good.URL}, Stream: "orders", Group: "billing"})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := transport.Routing(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	if _, err := transport.Routing(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestPasswordsStayOutOfTexts(t *testing.T) {
	c := BasicAuth("ann", "s3cret")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, c); strings.Contains(text, "s3cret") || !strings.Contains(text, "ann") {
			t.Errorf("%s gives %q", verb, text)
		}
	}
	_, err := New(Config{Coordinators: []string{"http://ann:s3cret@host\x7f:1"}, Stream: "orders"})
	if err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}
