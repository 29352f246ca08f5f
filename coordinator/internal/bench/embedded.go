package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/server"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

const embeddedUser = "bench"

// embedded is a coordinator in this process: the one that `rsc server` runs, with its
// settings left as they are, on a free port.
type embedded struct {
	url, password string
	client        *redis.Client // nil with its records in memory
	stop          context.CancelFunc
	ended         chan error
}

// startEmbedded starts it. Its records begin with prefix; it creates no shards, since
// nobody reads any.
func startEmbedded(ctx context.Context, o *Options, prefix string) (*embedded, error) {
	e := &embedded{password: rand.Text(), ended: make(chan error, 1)}
	cfg := config.Default()
	cfg.Server.Address = "127.0.0.1:0"
	cfg.Coordinator.ID = embeddedUser
	cfg.Coordinator.Limits.MaxShards = protocol.MaxShards
	cfg.Coordinator.API.Users = []config.User{{Username: embeddedUser, Password: config.Secret(e.password), Roles: []string{"ADMIN"}}}
	quiet := slog.New(slog.DiscardHandler)
	ports, err := e.ports(ctx, o, prefix, quiet)
	if err != nil {
		return nil, errors.Join(err, e.closeClient())
	}
	s, err := server.New(ctx, cfg, server.Options{Logger: quiet, Ports: ports})
	if err != nil {
		return nil, errors.Join(err, e.closeClient())
	}
	e.url = s.URL()
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	e.stop = stop
	go func() { e.ended <- s.Run(life) }()
	return e, nil
}

// ports opens what the records are kept in.
func (e *embedded) ports(ctx context.Context, o *Options, prefix string, log *slog.Logger) (service.Ports, error) {
	if o.Redis == nil {
		store := memstore.New()
		return service.Ports{Store: store, Signal: store, Mutex: new(memstore.Mutex)}, nil
	}
	client, err := redis.Open(ctx, adapterConfig(o.Redis, prefix, log))
	if err != nil {
		return service.Ports{}, err
	}
	e.client = client
	store, err := client.Store(ctx)
	if err != nil {
		return service.Ports{}, err
	}
	return service.Ports{Store: store, Signal: store, Mutex: client.Mutex()}, nil
}

// adapterConfig is what the adapter makes of the place.
func adapterConfig(o *goredis.UniversalOptions, prefix string, log *slog.Logger) redis.Config {
	c := redis.Config{
		Username: o.Username, Password: o.Password, TLS: o.TLSConfig, KeyPrefix: prefix, Logger: log,
		Mutex: redis.MutexConfig{Owner: embeddedUser},
	}
	switch {
	case o.MasterName != "":
		c.Addrs, c.MasterName, c.Database = o.Addrs, o.MasterName, o.DB
	case o.IsClusterMode || len(o.Addrs) > 1:
		c.Addrs = o.Addrs
	default:
		c.URL = fmt.Sprintf("redis://%s/%d", o.Addrs[0], o.DB)
	}
	return c
}

// close ends it in order.
func (e *embedded) close() error {
	e.stop()
	return errors.Join(<-e.ended, e.closeClient())
}

func (e *embedded) closeClient() error {
	if e.client == nil {
		return nil
	}
	return e.client.Close()
}
