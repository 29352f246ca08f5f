package telemetry

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Spans are sent in the words of the protocol.
func TestOTLPSendsTheWordsOfTheProtocol(t *testing.T) {
	var body []byte
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ = io.ReadAll(q.Body)
		header = q.Header
	}))
	defer server.Close()
	x, err := newOTLP(server.URL, "Authorization=Basic%20abc, x-tenant = one,")
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(x), sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "it"))))
	start := time.Unix(1700000000, 123)
	parent := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{0xab, 15: 0xcd}, SpanID: trace.SpanID{1, 7: 2}, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	_, s := provider.Tracer("scope").Start(trace.ContextWithRemoteSpanContext(t.Context(), parent), "POST /x",
		trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(start), trace.WithAttributes(attribute.Int("n", 7), attribute.Bool("b", true), attribute.Float64("f", 1.5)))
	s.RecordError(errors.New("no"), trace.WithTimestamp(start))
	s.SetStatus(codes.Error, "failed")
	s.End(trace.WithTimestamp(start.Add(time.Second)))
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	id := s.SpanContext().SpanID().String()
	want := `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"it"}}]},"scopeSpans":[{"scope":{"name":"scope"},"spans":[` +
		`{"traceId":"ab0000000000000000000000000000cd","spanId":"` + id + `","parentSpanId":"0100000000000002","name":"POST /x","kind":2,` +
		`"startTimeUnixNano":"1700000000000000123","endTimeUnixNano":"1700000001000000123",` +
		`"attributes":[{"key":"n","value":{"intValue":"7"}},{"key":"b","value":{"boolValue":true}},{"key":"f","value":{"stringValue":"1.5"}}],` +
		`"events":[{"timeUnixNano":"1700000000000000123","name":"exception","attributes":[{"key":"exception.type","value":{"stringValue":"*errors.errorString"}},{"key":"exception.message","value":{"stringValue":"no"}}]}],` +
		`"status":{"code":2,"message":"failed"}}]}]}]}`
	if string(body) != want {
		t.Errorf("sent\n%s\nwant\n%s", body, want)
	}
	for name, value := range map[string]string{"Authorization": "Basic abc", "X-Tenant": "one", "Content-Type": "application/json"} {
		if header.Get(name) != value {
			t.Errorf("header %s is %q, want %q", name, header.Get(name), value)
		}
	}
}

// What the tracing system refuses is an error that shows no secret.
func TestOTLPRefusals(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }))
	defer server.Close()
	x, err := newOTLP(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.ExportSpans(t.Context(), nil); err != nil {
		t.Errorf("nothing to send: %v", err)
	}
	provider := sdktrace.NewTracerProvider()
	_, s := provider.Tracer("scope").Start(t.Context(), "x")
	s.End()
	only, ok := s.(sdktrace.ReadOnlySpan)
	if !ok {
		t.Fatalf("%T is no span", s)
	}
	if err := x.ExportSpans(t.Context(), []sdktrace.ReadOnlySpan{only}); err == nil || !strings.Contains(err.Error(), "429") {
		t.Errorf("429 is %v", err)
	}
	for _, headers := range []string{"hunter2", "=hunter2", "a=%zzhunter2"} {
		if _, err := newOTLP(server.URL, headers); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("headers %q: %v", headers, err)
		}
	}
}
