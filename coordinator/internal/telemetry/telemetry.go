package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// Options say who is measured.
type Options struct {
	// ID is the label coordinator of every series.
	ID string
	// Version is that of the program.
	Version string
	// Tracing says where spans go, if anywhere.
	Tracing Tracing
	// Logger gets what a scrape could not read. nil means none.
	Logger *slog.Logger
}

// Telemetry measures one coordinator. Its hooks may be called at once from many
// goroutines.
type Telemetry struct {
	log      *slog.Logger
	start    time.Time
	registry *prometheus.Registry
	provider *sdkmetric.MeterProvider
	process  *instruments
	scrape   *collector

	// rounds are those of the event loop, told apart by whether time brought something
	// about since the one before, which timeWorked says.
	rounds     struct{ changed, unchanged latency }
	timeWorked atomic.Bool

	// strangers are requests that concern no group that exists.
	strangers *groupStats
	refusals  refusals
	streams   streams
	tracing   tracing

	mu     sync.RWMutex
	groups map[port.GroupKey]*groupStats
}

// maxScrapes bounds the scrapes that are answered at once: each looks at everything.
const maxScrapes = 4

// New returns a Telemetry without anything to look at, see Watch.
// Errors: what OpenTelemetry or Prometheus refuse, which is a fault of this program.
func New(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Telemetry{
		log: o.Logger, registry: prometheus.NewRegistry(), strangers: newGroupStats(), groups: map[port.GroupKey]*groupStats{},
		// So that no time is 0, which stands for never.
		start: time.Now().Add(-time.Second),
	}
	own := prometheus.WrapRegistererWith(prometheus.Labels{"coordinator": o.ID}, t.registry)
	reader, err := otelprom.New(
		otelprom.WithRegisterer(own), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo(),
		otelprom.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithoutSuffixes),
	)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	// Without a limit: the instruments have few attributes, all of the program's own.
	t.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0))
	if t.process, err = newInstruments(ctx, t.provider); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	if t.tracing, err = newTracing(o); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.scrape = newCollector(t, o)
	for _, c := range []prometheus.Collector{
		t.scrape, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := t.registry.Register(c); err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
	}
	return t, nil
}

// now is the time on the clock of all durations here.
func (t *Telemetry) now() time.Duration { return time.Since(t.start) }

// Hook has a coordinator that is to be made with cfg tell what happens.
func (t *Telemetry) Hook(cfg *service.Config) {
	cfg.OnGroupEvents = t.groupEvents
	cfg.OnGroupState = t.groupState
	cfg.OnStreamEvents = t.streams.happened
	cfg.OnConflict = t.process.conflict
	cfg.OnRound = t.round
}

func (t *Telemetry) groupEvents(key port.GroupKey, events []group.Event) {
	t.of(key).happened(t.now(), events)
	if slices.ContainsFunc(events, byTime) {
		t.timeWorked.Store(true)
	}
}

// byTime reports whether something happened because time has passed.
func byTime(e group.Event) bool {
	switch e := e.(type) {
	case group.MemberEnded:
		return e.Reason == group.EndExpired
	case group.ShardReleased:
		return e.Cause == group.ByTimeout || e.Cause == group.ByLease
	case group.CorrectionEnded:
		return true
	}
	return false
}

// round measures a round of the event loop.
func (t *Telemetry) round(took time.Duration) {
	if t.timeWorked.Swap(false) {
		t.rounds.changed.observe(t.now(), took)
	} else {
		t.rounds.unchanged.observe(t.now(), took)
	}
}

// groupState follows the states of a group; nil means that it is gone.
func (t *Telemetry) groupState(key port.GroupKey, v *group.View) {
	if v == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.groups, key)
		return
	}
	t.of(key).became(t.now(), v.State)
}

// stranger is what requests about no group that exists are counted as. Those about a
// group of this name are counted with them, and its heartbeats and events are not.
var stranger = port.GroupKey{Stream: none, Group: none}

// of returns the statistics of a group that exists.
func (t *Telemetry) of(key port.GroupKey) *groupStats {
	if key == stranger {
		return t.strangers
	}
	if g := t.known(key); g != nil {
		return g
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	g, there := t.groups[key]
	if !there {
		g = newGroupStats()
		t.groups[key] = g
	}
	return g
}

// known returns the statistics of a group, nil for one that is not known to exist.
func (t *Telemetry) known(key port.GroupKey) *groupStats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.groups[key]
}

// Handler answers scrapes.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.HandlerFor(t.registry, promhttp.HandlerOpts{
		ErrorLog: &scrapeLog{log: t.log, now: time.Now},
		// What is wrong with one series is no reason to keep the others back.
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes,
		// Compressing would cost several times what all of the rest does, and the
		// scraper is near.
		DisableCompression: true,
	})
}

// Close sends what spans are left, and lets go of what New has made.
func (t *Telemetry) Close(ctx context.Context) error {
	if err := errors.Join(t.tracing.close(ctx), t.provider.Shutdown(ctx)); err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	return nil
}
