package server

import (
	"context"
	"os"
	"time"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/telemetry"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// telemetryTimeout bounds how long spans that are left are sent at the end.
const telemetryTimeout = 5 * time.Second

// measure has the coordinator that is to be made with cfg be measured; it returns the
// ports that it is to be made with.
func (s *Server) measure(ctx context.Context, cfg *service.Config) (service.Ports, error) {
	k := &s.cfg.Coordinator
	var err error
	s.telemetry, err = telemetry.New(ctx, telemetry.Options{
		ID: k.ID, Version: s.version, Logger: s.log,
		Tracing: telemetry.Tracing{
			Endpoint: k.Tracing.Endpoint, SampleRatio: float64(k.Tracing.SamplePercent) / 100,
			Headers: os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"),
		},
	})
	if err != nil {
		return service.Ports{}, err
	}
	s.telemetry.Hook(cfg)
	return s.telemetry.Ports(s.parts.ports), nil
}

// watch has the metrics show the coordinator, which was made with ports.
func (s *Server) watch(ports service.Ports) {
	k := &s.cfg.Coordinator
	w := telemetry.World{Coordinator: s.coordinator, Store: ports.Store, Retention: k.StaleMemberRetention, Loop: k.Loop.Enabled}
	if k.Monitoring.ShardMetrics {
		w.Streams = ports.Inspector
	}
	s.telemetry.Watch(w)
}

// serveMetrics has the API be measured, and answer scrapes.
func (s *Server) serveMetrics(cfg *httpapi.Config) {
	cfg.Observe, cfg.Trace = s.telemetry.Served, s.telemetry.Trace()
	cfg.Metrics, cfg.AuthenticateMetrics = s.telemetry.Handler(), s.cfg.Coordinator.Monitoring.AuthenticateMetrics
}

// release lets go of what New has opened. Spans that could not be sent are no failure
// of the server.
func (s *Server) release(ctx context.Context) error {
	if s.telemetry != nil {
		ending, done := context.WithTimeout(ctx, telemetryTimeout)
		defer done()
		if err := s.telemetry.Close(ending); err != nil {
			s.log.WarnContext(ctx, "the last spans could not be sent", "err", err)
		}
	}
	return s.parts.close()
}
