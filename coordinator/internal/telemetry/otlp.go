package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// otlp sends spans as JSON by OTLP over HTTP. The exporter that comes with OpenTelemetry
// would bring gRPC and all that hangs on it into the program, for a request that is made
// every few seconds at most.
//
// Source: OTLP specification 1, "OTLP/HTTP" and "JSON Protobuf encoding": ids are hex,
// 64-bit numbers are texts, enumerations are numbers.
type otlp struct {
	url    string
	header http.Header
	client *http.Client
}

const (
	// exportTimeout bounds one delivery of spans.
	exportTimeout = 10 * time.Second
	// maxReply is how much of an answer is read so that the connection can be used again.
	maxReply = 64 << 10
)

// newOTLP takes headers as OTEL_EXPORTER_OTLP_HEADERS has them: name=value pairs,
// separated by commas, the values encoded as in URLs.
func newOTLP(endpoint, headers string) (*otlp, error) {
	x := &otlp{url: endpoint, header: http.Header{}, client: &http.Client{Timeout: exportTimeout}}
	for pair := range strings.SplitSeq(headers, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, both := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !both || name == "" || err != nil {
			// The pair is not shown: it is likely to be a secret.
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: must be like name=value,name=value")
		}
		x.header.Set(name, value)
	}
	x.header.Set("Content-Type", "application/json")
	return x, nil
}

// ExportSpans implements sdktrace.SpanExporter. Spans that cannot be delivered are lost:
// they are a sample anyway.
func (x *otlp) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body, err := json.Marshal(otlpRequestOf(spans))
	if err != nil {
		return fmt.Errorf("encode %d spans: %w", len(spans), err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, x.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send %d spans: %w", len(spans), err)
	}
	request.Header = x.header.Clone()
	response, err := x.client.Do(request)
	if err != nil {
		return fmt.Errorf("send %d spans: %w", len(spans), err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxReply))
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("send %d spans: %s answers %s", len(spans), request.URL.Redacted(), response.Status)
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (x *otlp) Shutdown(context.Context) error {
	x.client.CloseIdleConnections()
	return nil
}

// The messages of the protocol, as far as they are used here.
type (
	otlpRequest struct {
		ResourceSpans []otlpResourceSpans `json:"resourceSpans"`
	}
	otlpResourceSpans struct {
		Resource   otlpResource     `json:"resource"`
		ScopeSpans []otlpScopeSpans `json:"scopeSpans"`
	}
	otlpResource struct {
		Attributes []otlpAttribute `json:"attributes"`
	}
	otlpScopeSpans struct {
		Scope otlpScope  `json:"scope"`
		Spans []otlpSpan `json:"spans"`
	}
	otlpScope struct {
		Name string `json:"name"`
	}
	otlpSpan struct {
		TraceID      string          `json:"traceId"`
		SpanID       string          `json:"spanId"`
		ParentSpanID string          `json:"parentSpanId,omitempty"`
		TraceState   string          `json:"traceState,omitempty"`
		Name         string          `json:"name"`
		Kind         int             `json:"kind"`
		Start        string          `json:"startTimeUnixNano"`
		End          string          `json:"endTimeUnixNano"`
		Attributes   []otlpAttribute `json:"attributes,omitempty"`
		Events       []otlpEvent     `json:"events,omitempty"`
		Status       otlpStatus      `json:"status"`
	}
	otlpEvent struct {
		Time       string          `json:"timeUnixNano"`
		Name       string          `json:"name"`
		Attributes []otlpAttribute `json:"attributes,omitempty"`
	}
	otlpStatus struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message,omitempty"`
	}
	otlpAttribute struct {
		Key   string    `json:"key"`
		Value otlpValue `json:"value"`
	}
	otlpValue struct {
		String *string `json:"stringValue,omitempty"`
		Int    *string `json:"intValue,omitempty"`
		Bool   *bool   `json:"boolValue,omitempty"`
	}
)

// otlpRequestOf words spans, which are all of one resource and one scope: this program
// makes them in one place.
func otlpRequestOf(spans []sdktrace.ReadOnlySpan) otlpRequest {
	out := make([]otlpSpan, len(spans))
	for i, s := range spans {
		out[i] = otlpSpanOf(s)
	}
	return otlpRequest{[]otlpResourceSpans{{
		Resource:   otlpResource{otlpAttributes(spans[0].Resource().Attributes())},
		ScopeSpans: []otlpScopeSpans{{otlpScope{spans[0].InstrumentationScope().Name}, out}},
	}}}
}

func otlpSpanOf(s sdktrace.ReadOnlySpan) otlpSpan {
	c := s.SpanContext()
	out := otlpSpan{
		TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), TraceState: c.TraceState().String(),
		Name: s.Name(), Kind: int(s.SpanKind()), Start: nanos(s.StartTime()), End: nanos(s.EndTime()),
		Attributes: otlpAttributes(s.Attributes()), Status: otlpStatus{Message: s.Status().Description},
	}
	if p := s.Parent(); p.HasSpanID() {
		out.ParentSpanID = p.SpanID().String()
	}
	switch s.Status().Code {
	case codes.Ok:
		out.Status.Code = 1
	case codes.Error:
		out.Status.Code = 2
	case codes.Unset:
	}
	for _, e := range s.Events() {
		out.Events = append(out.Events, otlpEvent{nanos(e.Time), e.Name, otlpAttributes(e.Attributes)})
	}
	return out
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// otlpAttributes words attributes; those that are no text, whole number or truth value
// are given as text.
func otlpAttributes(all []attribute.KeyValue) []otlpAttribute {
	out := make([]otlpAttribute, len(all))
	for i, a := range all {
		out[i].Key = string(a.Key)
		v := &out[i].Value
		switch a.Value.Type() {
		case attribute.INT64:
			n := strconv.FormatInt(a.Value.AsInt64(), 10)
			v.Int = &n
		case attribute.BOOL:
			b := a.Value.AsBool()
			v.Bool = &b
		default:
			text := a.Value.String()
			v.String = &text
		}
	}
	return out
}
