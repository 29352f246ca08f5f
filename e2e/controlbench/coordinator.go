package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	redisstore "github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

const (
	user, password = "bench", "bench"
	stopTimeout    = 60 * time.Second
)

// coordinator is the real one, in this process.
type coordinator struct {
	*service.Coordinator

	store  *countingStore
	url    string // empty without HTTP
	server *http.Server
	client *redisstore.Client // nil on other stores than Redis
	// closePool closes what a database was opened with, nil on other stores.
	closePool func() error
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// countingStore counts what moves between the coordinator and its store.
type countingStore struct {
	port.Store

	saves, renewals atomic.Int64
	// bodies are the bytes of aggregates, in both directions.
	bodies atomic.Int64
}

func (s *countingStore) LoadGroup(ctx context.Context, key port.GroupKey, known port.Version) (port.GroupRecord, error) {
	rec, err := s.Store.LoadGroup(ctx, key, known)
	s.bodies.Add(int64(len(rec.Body)))
	return rec, err
}

func (s *countingStore) SaveGroup(ctx context.Context, key port.GroupKey, save port.GroupSave) (port.Version, error) {
	s.saves.Add(1)
	s.bodies.Add(int64(len(save.Body)))
	return s.Store.SaveGroup(ctx, key, save)
}

func (s *countingStore) RenewGroup(ctx context.Context, key port.GroupKey, n port.Renewal) error {
	s.renewals.Add(1)
	return s.Store.RenewGroup(ctx, key, n)
}

// plan says what a coordinator is started with.
type plan struct {
	// redis is where the records are kept; empty means in memory.
	redis string
	// database opens the one where they are kept instead, if it is not nil.
	database func() (sql.Config, error)
	// timings are given to groups; the zero value means the defaults.
	timings protocol.Timings
	// http serves the API on a free port.
	http bool
	// streams creates the shards in Redis.
	streams bool
}

// keyPrefixes makes the records of each coordinator its own.
var keyPrefixes atomic.Int64

func startCoordinator(ctx context.Context, p plan) (_ *coordinator, err error) {
	c := &coordinator{store: &countingStore{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close(ctx))
		}
	}()
	ports := service.Ports{Store: c.store}
	if p.database != nil {
		if err := c.openDatabase(ctx, p, &ports); err != nil {
			return nil, err
		}
	} else if p.redis == "" {
		c.store.Store, ports.Mutex = memstore.New(), new(memstore.Mutex)
	} else if err := c.openRedis(ctx, p, &ports); err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	c.Coordinator, err = service.New(service.Config{
		ID: "controlbench", Timings: p.timings, MaxShards: protocol.MaxShards, Logger: quiet,
	}, ports)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	c.running.Go(func() { _ = c.Run(life) })
	if !p.http {
		return c, nil
	}
	//nolint:contextcheck // requests bring contexts of their own
	handler, err := httpapi.New(httpapi.Config{
		Access: httpapi.Access{Users: []httpapi.User{{Username: user, Password: password, Roles: []httpapi.Role{httpapi.RoleAdmin}}}}, Logger: quiet,
	}, c.Coordinator)
	if err != nil {
		return nil, err
	}
	c.server, c.url, err = serve(ctx, handler, &c.running)
	return c, err
}

func (c *coordinator) openRedis(ctx context.Context, p plan, ports *service.Ports) error {
	client, err := redisstore.Open(ctx, redisstore.Config{
		URL: "redis://" + p.redis, KeyPrefix: fmt.Sprintf("bench-%d", keyPrefixes.Add(1)),
		Mutex: redisstore.MutexConfig{Owner: "controlbench"}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	c.client = client
	store, err := client.Store(ctx)
	if err != nil {
		return err
	}
	c.store.Store = store
	ports.Mutex = client.Mutex()
	if p.streams {
		ports.Streams = client.Streams()
	}
	return nil
}

// serve answers on a free port until the server is closed.
func serve(ctx context.Context, handler http.Handler, running *sync.WaitGroup) (*http.Server, string, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: stopTimeout}
	running.Go(func() { _ = server.Serve(listener) }) // it always ends with an error
	return server, "http://" + listener.Addr().String(), nil
}

func (c *coordinator) close(ctx context.Context) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer done()
	var errs []error
	if c.stop != nil {
		c.stop()
	}
	if c.Coordinator != nil {
		errs = append(errs, c.Close(ctx))
	}
	if c.server != nil {
		errs = append(errs, c.server.Close())
	}
	c.running.Wait()
	if c.client != nil {
		errs = append(errs, c.client.Close())
	}
	if c.closePool != nil {
		errs = append(errs, c.closePool())
	}
	return errors.Join(errs...)
}

// declare makes a stream known.
func (c *coordinator) declare(ctx context.Context, prefix string, shards int) error {
	_, err := c.CreateStream(ctx, prefix, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "controlbench"})
	return err
}

// beat sends a heartbeat at the service port.
func (c *coordinator) beat(stream, group string) func(context.Context, *protocol.Heartbeat) (*protocol.HeartbeatResponse, error) {
	return func(ctx context.Context, q *protocol.Heartbeat) (*protocol.HeartbeatResponse, error) {
		r := c.Heartbeat(ctx, stream, group, q)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return &r, nil
	}
}

// settled makes a stream and a group of so many members on it, which have nothing to
// say any more, and returns their keepalives.
func (c *coordinator) settled(ctx context.Context, members, shards int) ([]*protocol.Heartbeat, error) {
	if err := c.declare(ctx, stream, shards); err != nil {
		return nil, err
	}
	fleet := httpload.NewFleet("member-", members)
	// Past HTTP, which has no part in it.
	if err := fleet.Settle(ctx, shards, settleAtOnce, c.beat(stream, group)); err != nil {
		return nil, err
	}
	return fleet.Requests(), nil
}
