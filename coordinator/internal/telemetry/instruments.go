package telemetry

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// instruments measure what the whole process does.
type instruments struct {
	operations  metric.Float64Histogram
	failed      metric.Int64Counter
	waits       metric.Float64Histogram
	unavailable metric.Int64Counter
	conflicts   metric.Int64Counter
	unread      metric.Int64Counter

	// store and mutex are the attributes of what is measured often, made once.
	store map[string]metric.MeasurementOption
	mutex map[string]metric.MeasurementOption
}

// storeBounds are for calls that are local or near, up to the call's own limit.
var storeBounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5}

// The operations of the store.
const (
	opLoadGroup    = "load-group"
	opSaveGroup    = "save-group"
	opRenewGroup   = "renew-group"
	opDeleteGroup  = "delete-group"
	opListGroups   = "list-groups"
	opReports      = "reports"
	opLoadStream   = "load-stream"
	opSaveStream   = "save-stream"
	opDeleteStream = "delete-stream"
	opListStreams  = "list-streams"
	opIdentity     = "identity"
	opPing         = "ping"
)

var operations = []string{
	opLoadGroup, opSaveGroup, opRenewGroup, opDeleteGroup, opListGroups, opReports,
	opLoadStream, opSaveStream, opDeleteStream, opListStreams, opIdentity, opPing,
}

// The mutexes.
const (
	mutexGroup  = "group"
	mutexStream = "stream"
)

// The sources of what is read for a scrape.
const (
	sourceReports = "reports"
	sourceOffsets = "offsets"
)

func newInstruments(ctx context.Context, provider metric.MeterProvider) (*instruments, error) {
	m := provider.Meter("github.com/redis-stream-coordinator/rsc/coordinator")
	p := &instruments{store: map[string]metric.MeasurementOption{}, mutex: map[string]metric.MeasurementOption{}}
	var bad []error
	histogram := func(name, help string) metric.Float64Histogram {
		h, err := m.Float64Histogram(prefix+name, metric.WithDescription(help), metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(storeBounds...))
		bad = append(bad, err)
		return h
	}
	counter := func(name, help string) metric.Int64Counter {
		c, err := m.Int64Counter(prefix+name, metric.WithDescription(help))
		bad = append(bad, err)
		return c
	}
	p.operations = histogram("store_operation_duration_seconds", "How long calls of the metadata store took.")
	p.failed = counter("store_operation_failed_total", "Calls of the metadata store that failed.")
	p.waits = histogram("mutex_wait_duration_seconds", "How long the mutex of a group or stream was waited for.")
	p.unavailable = counter("mutex_unavailable_total", "Waits for a mutex that ended without it.")
	p.conflicts = counter("state_conflict_total", "Writes that met a record changed by somebody else.")
	p.unread = counter("scrape_failed_total", "Reads for a scrape that failed or took too long.")
	// A counter that is there before it counts can be compared with what it is later.
	for _, op := range operations {
		p.store[op] = metric.WithAttributeSet(attribute.NewSet(attribute.String("operation", op)))
		p.failed.Add(ctx, 0, p.store[op])
	}
	for _, kind := range []string{mutexGroup, mutexStream} {
		p.mutex[kind] = metric.WithAttributeSet(attribute.NewSet(attribute.String("kind", kind)))
		p.unavailable.Add(ctx, 0, p.mutex[kind])
	}
	for _, source := range []string{sourceReports, sourceOffsets} {
		p.unread.Add(ctx, 0, metric.WithAttributes(attribute.String("source", source)))
	}
	return p, errors.Join(bad...)
}

// operation measures a call of the store.
func (p *instruments) operation(ctx context.Context, op string, took time.Duration, failed bool) {
	p.operations.Record(ctx, took.Seconds(), p.store[op])
	if failed {
		p.failed.Add(ctx, 1, p.store[op])
	}
}

// wait measures a wait for a mutex.
func (p *instruments) wait(ctx context.Context, kind string, took time.Duration, got bool) {
	p.waits.Record(ctx, took.Seconds(), p.mutex[kind])
	if !got {
		p.unavailable.Add(ctx, 1, p.mutex[kind])
	}
}

func (p *instruments) conflict(operation string, attempt int) {
	p.conflicts.Add(context.Background(), 1, metric.WithAttributes(
		attribute.String("operation", operation), attribute.String("attempt", strconv.Itoa(attempt))))
}

// unreadable counts a read for a scrape that failed.
func (p *instruments) unreadable(ctx context.Context, source string) {
	p.unread.Add(ctx, 1, metric.WithAttributes(attribute.String("source", source)))
}
