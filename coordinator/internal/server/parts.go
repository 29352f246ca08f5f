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
	ports service.Ports
	close func() error
}

// openParts opens what the settings ask for.
func openParts(ctx context.Context, cfg *config.Coordinator, log *slog.Logger) (*parts, error) {
	p := &parts{close: func() error { return nil }}
	if cfg.Store.Type == config.StoreMemory {
		p.ports.Store = memstore.New()
		p.ports.Mutex = new(memstore.Mutex)
	}
	if cfg.Store.Type != config.StoreRedis && !cfg.Streams.ProvisioningEnabled {
		return p, nil
	}
	client, err := openRedis(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	p.close = client.Close
	if cfg.Streams.ProvisioningEnabled {
		p.ports.Streams = client.Streams()
	}
	if cfg.Store.Type == config.StoreRedis {
		store, err := client.Store(ctx)
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		p.ports.Store = store
		if cfg.Coordination.StateMutex.Enabled {
			mutex, err := client.Mutex()
			if err != nil {
				return nil, errors.Join(err, client.Close())
			}
			p.ports.Mutex = mutex
		}
	}
	return p, nil
}

// openRedis reaches the Redis. One that refuses connections is waited for; one
// that answers and refuses us is not.
func openRedis(ctx context.Context, cfg *config.Coordinator, log *slog.Logger) (*redis.Client, error) {
	settings, err := redisConfig(cfg, log)
	if err != nil {
		return nil, err
	}
	ctx, done := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("it could not be reached for %s", startPatience))
	defer done()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		client, err := redis.Open(ctx, settings)
		var network net.Error
		if err == nil || !errors.As(err, &network) {
			return client, err
		}
		log.WarnContext(ctx, "redis cannot be reached yet", "err", err)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

func redisConfig(cfg *config.Coordinator, log *slog.Logger) (redis.Config, error) {
	r, m := &cfg.Redis, &cfg.Coordination.StateMutex
	tlsConfig, err := redisTLS(&r.TLS)
	return redis.Config{
		URL:       redisURL(r),
		Username:  r.Username,
		Password:  r.Password.Reveal(),
		TLS:       tlsConfig,
		KeyPrefix: cfg.Store.KeyPrefix,
		Mutex: redis.MutexConfig{
			Owner:          cfg.ID,
			TTL:            time.Duration(m.TTLMs) * time.Millisecond,
			AcquireTimeout: time.Duration(m.AcquireTimeoutMs) * time.Millisecond,
			RetryInterval:  time.Duration(m.RetryIntervalMs) * time.Millisecond,
		},
		Logger: log,
	}, err
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

// redisTLS returns nil when there are no certificates of one's own.
func redisTLS(files *config.RedisTLS) (*tls.Config, error) {
	if *files == (config.RedisTLS{}) {
		return nil, nil //nolint:nilnil // no settings is what the adapter takes for its default
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if files.CAFile != "" {
		pem, err := os.ReadFile(files.CAFile)
		if err != nil {
			return nil, fmt.Errorf("coordinator.redis.tls.ca-file: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("coordinator.redis.tls.ca-file: %s holds no certificate in PEM form", files.CAFile)
		}
	}
	if files.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("coordinator.redis.tls: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}
