package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	redisadapter "github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/server"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// localCoordinator is a coordinator in this process, with its store in memory: what
// `rsc server` runs. The store outlives it.
type localCoordinator struct {
	cfg     config.Config
	options server.Options
	// failed is told when it ends by itself.
	failed func(error)

	stopRunning context.CancelFunc
	ended       chan struct{}
	err         error
	// streams is the connection that provisions streams.
	streams *redisadapter.Client
}

func newLocalCoordinator(ctx context.Context, orders coordinatorOrders, log func(string), rebalanced func(), failed func(error)) (*localCoordinator, error) {
	c := &localCoordinator{cfg: orders.config(), failed: failed}
	c.cfg.Coordinator.Store.Type = config.StoreMemory
	var err error
	if c.streams, err = redisadapter.Open(ctx, redisadapter.Config{URL: orders.RedisURL, KeyPrefix: orders.KeyPrefix}); err != nil {
		return nil, err
	}
	c.options = server.Options{
		Logger: slog.New(coordinatorLog(func(line string) { log("coordinator: " + line) }, rebalanced)),
		Ports:  service.Ports{Store: memstore.New(), Mutex: new(memstore.Mutex), Streams: c.streams.Streams(), Shards: c.streams.Streams()},
	}
	return c, nil
}

// coordinatorLog hands warnings to tell, and calls rebalanced when the coordinator
// computes who should hold what.
func coordinatorLog(tell func(string), rebalanced func()) slog.Handler {
	return newLineHandler(tell, func(message string) {
		if message == targetChanged {
			rebalanced()
		}
	})
}

// start runs it until end.
func (c *localCoordinator) start(ctx context.Context) (string, error) {
	s, err := server.New(ctx, c.cfg, c.options)
	if err != nil {
		return "", err
	}
	c.cfg.Server.Address = strings.TrimPrefix(s.URL(), "http://")
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	c.stopRunning, c.ended = stop, ended
	go func() {
		defer close(ended)
		c.err = s.Run(running)
		if running.Err() == nil {
			c.failed(fmt.Errorf("the coordinator ended by itself: %w", orUnknown(c.err)))
		}
	}()
	return s.URL(), nil
}

// end stops it and waits for its end. Errors: what it could not end in order.
func (c *localCoordinator) end() error {
	if c.ended == nil {
		return nil
	}
	c.stopRunning()
	<-c.ended
	c.ended = nil
	if c.err != nil {
		return fmt.Errorf("stop the coordinator: %w", c.err)
	}
	return nil
}

func (c *localCoordinator) close(context.Context) error {
	return errors.Join(c.end(), c.streams.Close())
}
