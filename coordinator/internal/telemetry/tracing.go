package telemetry

import (
	"context"
	"fmt"
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
)

// Tracing says where spans go.
type Tracing struct {
	// Endpoint is the URL that spans are sent to by OTLP over HTTP, such as
	// http://127.0.0.1:4318/v1/traces; empty for no tracing.
	Endpoint string
	// Headers are sent along, in the form of the environment variable
	// OTEL_EXPORTER_OTLP_HEADERS; empty for none.
	Headers string
	// SampleRatio is the share of traces that are kept, from 0 to 1, where the caller
	// has not decided it.
	SampleRatio float64
}

// tracing makes spans. The zero value makes none, and costs nothing.
type tracing struct {
	tracer   trace.Tracer
	provider *sdktrace.TracerProvider
}

func newTracing(o Options) (tracing, error) {
	if o.Tracing.Endpoint == "" {
		return tracing{}, nil
	}
	exporter, err := newOTLP(o.Tracing.Endpoint, o.Tracing.Headers)
	if err != nil {
		return tracing{}, fmt.Errorf("tracing: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { o.Logger.Warn("spans could not be sent", "err", err) }))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Tracing.SampleRatio))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "redis-stream-coordinator"),
			attribute.String("service.version", o.Version),
			attribute.String("service.instance.id", o.ID),
		)),
	)
	return tracing{provider.Tracer("github.com/redis-stream-coordinator/rsc/coordinator"), provider}, nil
}

func (x tracing) close(ctx context.Context) error {
	if x.provider == nil {
		return nil
	}
	if err := x.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("tracing: %w", err)
	}
	return nil
}

// span may be none.
type span struct{ trace.Span }

// child begins a span below the one in ctx; there is none outside of a traced request.
func (x tracing) child(ctx context.Context, name string) (context.Context, span) {
	if x.tracer == nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, span{}
	}
	ctx, s := x.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient))
	return ctx, span{s}
}

func (s span) end(err error, failed bool) {
	if s.Span == nil {
		return
	}
	if err != nil {
		s.RecordError(err)
	}
	if failed {
		s.SetStatus(codes.Error, "")
	}
	s.End()
}

// Trace returns what an API begins the span of a request with, nil for no tracing.
func (t *Telemetry) Trace() httpapi.Trace {
	x := t.tracing
	if x.tracer == nil {
		return nil
	}
	var incoming propagation.TraceContext
	return func(r *http.Request, route string) (context.Context, func(status int)) {
		ctx := incoming.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, s := x.tracer.Start(ctx, r.Method+" "+route, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("http.request.method", r.Method),
			attribute.String("http.route", route),
			attribute.String("url.path", r.URL.Path),
		))
		return ctx, func(status int) {
			s.SetAttributes(attribute.Int("http.response.status_code", status))
			if status >= http.StatusInternalServerError {
				s.SetStatus(codes.Error, "")
			}
			s.End()
		}
	}
}
