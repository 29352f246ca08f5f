package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

const (
	// startPatience is how long a start waits for a Redis that cannot be reached
	// yet: the two are often started together.
	startPatience = 30 * time.Second
	// firstPause and longestPause lie between two attempts.
	firstPause   = 100 * time.Millisecond
	longestPause = 2 * time.Second
)

// parts are what a coordinator works with, and how to let it go again.
type parts struct {
	ports   service.Ports
	clients []*redis.Client
	// closers let other stores go.
	closers []func() error
	// audit is nil where the log is enough.
	audit port.Audit
}

// openParts opens what the settings ask for.
func openParts(ctx context.Context, cfg *config.Coordinator, log *slog.Logger) (*parts, error) {
	p := &parts{}
	if err := p.open(ctx, cfg, log); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *parts) open(ctx context.Context, cfg *config.Coordinator, log *slog.Logger) error {
	var shared *redis.Client
	switch cfg.Store.Type {
	case config.StoreMemory:
		store := memstore.New()
		p.ports.Store, p.ports.Signal = store, store
		p.ports.Mutex = new(memstore.Mutex)
	case config.StoreRedis:
		var store *redis.Store
		client, err := p.openRedis(ctx, cfg, mainRedis(cfg), log, func(ctx context.Context, client *redis.Client) (err error) {
			store, err = client.Store(ctx)
			return err
		})
		if err != nil {
			return err
		}
		p.ports.Store, p.ports.Signal = store, store
		if cfg.Coordination.StateMutex.Enabled {
			p.ports.Mutex = client.Mutex()
		}
		if cfg.Audit.Sink == config.AuditRedis {
			p.audit = client.Audit()
		}
		shared = client
	case config.StoreSQL:
		if err := p.openSQL(ctx, cfg, log); err != nil {
			return err
		}
	}
	provisions := cfg.Streams.ProvisioningEnabled
	if !provisions && shared == nil && !cfg.Streams.Redis.Configured() {
		return nil
	}
	if shared == nil || cfg.Streams.Redis.Configured() {
		client, err := p.openRedis(ctx, cfg, streamsRedis(cfg), log, nothing)
		if err != nil {
			return err
		}
		shared = client
	}
	streams := shared.Streams()
	p.ports.Inspector = streams
	if provisions {
		p.ports.Streams, p.ports.Shards = streams, streams
	}
	return nil
}

// place is where a Redis is, by the settings below key.
type place struct {
	key string
	*config.Redis
}

func mainRedis(cfg *config.Coordinator) place { return place{"coordinator.redis", &cfg.Redis.Redis} }

func streamsRedis(cfg *config.Coordinator) place {
	if cfg.Streams.Redis.Configured() {
		return place{"coordinator.streams.redis", &cfg.Streams.Redis}
	}
	return mainRedis(cfg)
}

// close lets go of what was opened.
func (p *parts) close() error {
	var errs []error
	for _, c := range p.clients {
		errs = append(errs, c.Close())
	}
	for _, end := range p.closers {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// nothing is opened where the client is enough.
func nothing(context.Context, *redis.Client) error { return nil }

// openRedis reaches a Redis and opens something there. One that cannot be reached, or
// is not ready, is waited for, and the log says so once for each reason; one that
// answers and refuses us is not.
func (p *parts) openRedis(ctx context.Context, cfg *config.Coordinator, r place, log *slog.Logger, open func(context.Context, *redis.Client) error) (*redis.Client, error) {
	settings, err := redisConfig(cfg, r, log)
	if err != nil {
		return nil, err
	}
	var client *redis.Client
	err = await(ctx, log, r.key, redis.Unavailable, func(ctx context.Context) (err error) {
		if client, err = reach(ctx, settings, open); err == nil {
			p.clients = append(p.clients, client)
		}
		return err
	})
	return client, err
}

// await opens what the settings below key are about. What cannot be reached, or is not
// ready, is waited for, and the log says so once for each reason.
func await(ctx context.Context, log *slog.Logger, key string, unavailable func(error) bool, open func(context.Context) error) error {
	ctx, done := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("it could not be reached for %s", startPatience))
	defer done()
	said := ""
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := open(ctx)
		if err == nil {
			return nil
		}
		if !unavailable(err) {
			return fmt.Errorf("%s: %w", key, err)
		}
		if err.Error() != said {
			said = err.Error()
			log.WarnContext(ctx, "a server cannot be reached yet", "settings", key, "patience", startPatience, "err", err)
		} else {
			log.DebugContext(ctx, "a server still cannot be reached", "settings", key)
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(err, cause) {
				err = fmt.Errorf("%w: %w", err, cause)
			}
			return fmt.Errorf("%s: %w", key, err)
		case <-time.After(pause):
		}
	}
}

func reach(ctx context.Context, settings redis.Config, open func(context.Context, *redis.Client) error) (*redis.Client, error) {
	client, err := redis.Open(ctx, settings)
	if err != nil {
		return nil, err
	}
	if err := open(ctx, client); err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return client, nil
}

func redisConfig(cfg *config.Coordinator, r place, log *slog.Logger) (redis.Config, error) {
	m := &cfg.Coordination.StateMutex
	tlsConfig, err := redisTLS(r.Redis)
	if err != nil {
		return redis.Config{}, fmt.Errorf("%s.tls.%w", r.key, err)
	}
	c := redis.Config{
		Username:     r.Username,
		Password:     r.Password.Reveal(),
		TLS:          tlsConfig,
		KeyPrefix:    cfg.Store.KeyPrefix,
		WaitReplicas: cfg.Redis.WaitReplicas,
		WaitTimeout:  cfg.Redis.WaitReplicasTimeout,
		AuditEntries: cfg.Audit.RedisMaxEntries,
		Mutex: redis.MutexConfig{
			Owner:          cfg.ID,
			TTL:            time.Duration(m.TTLMs) * time.Millisecond,
			AcquireTimeout: time.Duration(m.AcquireTimeoutMs) * time.Millisecond,
			RetryInterval:  time.Duration(m.RetryIntervalMs) * time.Millisecond,
		},
		Logger: log,
	}
	switch {
	case r.OneServer():
		c.URL = redisURL(r.Redis)
	case r.Sentinel.Master != "":
		c.Addrs, c.MasterName, c.Database = r.Sentinel.Addresses, r.Sentinel.Master, r.Database
		c.SentinelUsername, c.SentinelPassword = r.Sentinel.Username, r.Sentinel.Password.Reveal()
	default:
		c.Addrs = r.Addresses
	}
	return c, nil
}

// redisURL is the configured URL, or one made of its parts.
func redisURL(r *config.Redis) string {
	if r.URL != "" {
		return r.URL.Reveal()
	}
	u := url.URL{Scheme: "redis", Host: net.JoinHostPort(r.Host, strconv.Itoa(r.Port)), Path: "/" + strconv.Itoa(r.Database)}
	if r.SSL {
		u.Scheme = "rediss"
	}
	return u.String()
}

// redisTLS returns nil where the URL says it all. Its errors begin with the
// setting they are about.
func redisTLS(r *config.Redis) (*tls.Config, error) {
	files := &r.TLS
	if *files == (config.RedisTLS{}) && (r.OneServer() || !r.SSL) {
		return nil, nil //nolint:nilnil // no settings is what the adapter takes for its default
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CAFile != "" {
		pem, err := os.ReadFile(files.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca-file: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca-file: %s holds no certificate in PEM form", files.CAFile)
		}
	}
	if files.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("cert-file: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}
