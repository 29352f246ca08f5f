package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/telemetry"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// Limits of a connection. A heartbeat is held for up to 10 s, so reading and
// writing may take longer than that.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 90 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// Options change what the settings do not say.
type Options struct {
	// Logger gets everything that is logged. nil means slog.Default.
	Logger *slog.Logger
	// Version is that of the program, for metrics and traces.
	Version string
	// Ports are used instead of what the settings ask for, if Ports.Store is
	// set. They are not closed.
	Ports service.Ports
}

// Server is a coordinator that listens. Make one with New, then Run it.
type Server struct {
	cfg         config.Config
	log         *slog.Logger
	parts       *parts
	coordinator *service.Coordinator
	telemetry   *telemetry.Telemetry
	version     string
	listener    net.Listener
	// lost tells that the store was emptied, so that declared streams are made
	// again.
	lost chan struct{}
	http *http.Server
	api  *httpapi.API
	// certificate is nil without TLS.
	certificate *serverCertificate
	// reloading guards current, the settings in effect after Reload; cfg are those of the
	// start.
	reloading sync.Mutex
	current   config.Config
}

// New opens what the settings ask for and begins to listen; requests are
// answered once Run is called. A Redis that cannot be reached is waited for, up
// to 30 s. Call Run afterwards, which also closes what New has opened.
// Errors: whatever could not be opened.
func New(ctx context.Context, cfg config.Config, options Options) (*Server, error) {
	s := &Server{cfg: cfg, current: cfg, log: options.Logger, version: options.Version, lost: make(chan struct{}, 1)}
	if s.log == nil {
		s.log = slog.Default()
	}
	var err error
	if s.certificate, err = newCertificate(&cfg.Server.TLS); err != nil {
		return nil, err
	}
	if options.Ports.Store != nil {
		s.parts = &parts{ports: options.Ports}
	} else if s.parts, err = openParts(ctx, &cfg.Coordinator, s.log); err != nil {
		return nil, err
	}
	if err := s.assemble(ctx); err != nil {
		return nil, errors.Join(err, s.release(ctx))
	}
	return s, nil
}

// assemble puts the coordinator, its API and the listener together.
func (s *Server) assemble(ctx context.Context) error {
	k := &s.cfg.Coordinator
	cfg := service.Config{
		ID:              k.ID,
		Timings:         k.Timings(),
		TickInterval:    k.Loop.TickInterval,
		RoutingLease:    k.RoutingLease,
		DefaultShards:   k.Defaults.InitialShardCount,
		MaxShards:       k.Limits.MaxShards,
		MemberRetention: k.StaleMemberRetention,
		Logger:          s.log,
		// The API is there before the first member.
		OnShardsRecreated: s.shardsRecreated,
		OnStoreLost: func() {
			select {
			case s.lost <- struct{}{}:
			default:
				// Told already, and not acted on yet.
			}
		},
	}
	ports, err := s.measure(ctx, &cfg)
	if err != nil {
		return err
	}
	if s.coordinator, err = service.New(cfg, ports); err != nil {
		return err
	}
	s.watch(ports)
	api := httpapi.Config{
		BasePath:            k.API.BasePath,
		Access:              s.cfg.Access(),
		AuthenticateMembers: k.API.AuthenticateMemberAPI,
		Audit:               s.parts.audit,
		CoordinatorID:       k.ID,
		Timings:             k.Timings(),
		Logger:              s.log,
	}
	s.serveMetrics(&api)
	//nolint:contextcheck // requests bring contexts of their own
	if s.api, err = httpapi.New(api, s.telemetry.API(s.coordinator)); err != nil {
		return err
	}
	s.http = &http.Server{
		Handler:           s.api,
		TLSConfig:         s.certificate.config(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Server.Address); err != nil {
		return fmt.Errorf("server.address: %w", err)
	}
	return nil
}

// URL is where the server is reached from this machine; its port is the real one
// also when the configured one was 0.
func (s *Server) URL() string {
	scheme := "http"
	if s.certificate != nil {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return scheme + "://" + s.listener.Addr().String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// Run answers requests until ctx ends, then shuts down: what is held is
// answered, what is under way is finished, within the configured time. It
// returns when everything has stopped. Call it once.
// Errors: a listener that broke, or a shutdown that had to cut something off.
func (s *Server) Run(ctx context.Context) error {
	loop, stopLoop := context.WithCancel(ctx)
	defer stopLoop()
	var running sync.WaitGroup
	failures := make(chan error, 2)
	// Before the first answer, so that whoever sees this server up finds them.
	if left := s.declareAtStart(loop); len(left) > 0 {
		running.Go(func() { declare(loop, s.coordinator, left, s.log) })
	}
	running.Go(func() { s.declareAgain(loop) })
	running.Go(func() {
		if err := s.serve(); !errors.Is(err, http.ErrServerClosed) {
			failures <- fmt.Errorf("serve: %w", err)
		}
	})
	if s.cfg.Coordinator.Loop.Enabled {
		running.Go(func() {
			if err := s.coordinator.Run(loop); err != nil {
				failures <- fmt.Errorf("event loop: %w", err)
			}
		})
	} else {
		s.log.WarnContext(ctx, "the event loop is switched off: another coordinator on this store must run one, or no lease ends", "key", "coordinator.loop.enabled")
	}
	k := &s.cfg.Coordinator
	s.log.InfoContext(ctx, "coordinator listens", "url", s.URL(), "id", k.ID, "store", k.Store.Type, "provisioning", k.Streams.ProvisioningEnabled)

	var failure error
	select {
	case <-ctx.Done():
	case failure = <-failures:
	}
	stopLoop()
	err := s.shutdown(context.WithoutCancel(ctx))
	running.Wait()
	return errors.Join(failure, err, s.release(context.WithoutCancel(ctx)))
}

// declareAtStart makes the declared streams and returns those that have to be
// tried again.
func (s *Server) declareAtStart(ctx context.Context) []config.Declared {
	ctx, done := context.WithTimeout(ctx, declareTimeout)
	defer done()
	return declareOnce(ctx, s.coordinator, s.cfg.Coordinator.Streams.Declared, s.log)
}

// declareAgain makes the declared streams whenever the store was emptied.
func (s *Server) declareAgain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.lost:
			declare(ctx, s.coordinator, s.cfg.Coordinator.Streams.Declared, s.log)
		}
	}
}

func (s *Server) serve() error {
	if s.certificate != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

// shutdown closes the listener first, so that clients go elsewhere, and answers
// what is held at the same time: the server waits for those answers.
func (s *Server) shutdown(ctx context.Context) error {
	limit := s.cfg.Server.ShutdownTimeout
	s.log.InfoContext(ctx, "coordinator shuts down", "at_most", limit.String())
	ctx, done := context.WithTimeoutCause(ctx, limit, fmt.Errorf("requests were under way for longer than server.shutdown-timeout (%s) and were cut off", limit))
	defer done()
	var closing sync.WaitGroup
	var coordinatorErr error
	closing.Go(func() { coordinatorErr = s.coordinator.Close(ctx) })
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("shut down: %w", errors.Join(context.Cause(ctx), s.http.Close()))
	}
	closing.Wait()
	if coordinatorErr != nil && err == nil {
		err = fmt.Errorf("shut down: %w", coordinatorErr)
	}
	if err == nil {
		s.log.InfoContext(ctx, "coordinator stopped")
	}
	return err
}
