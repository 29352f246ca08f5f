package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// coordinator is the real one, on the store in memory, in this process.
type coordinator struct {
	*service.Coordinator

	stop    context.CancelFunc
	running sync.WaitGroup
}

// newCoordinator starts one that gives its groups these timings; the zero value
// means the defaults.
func newCoordinator(ctx context.Context, timings protocol.Timings) (*coordinator, error) {
	c, err := service.New(service.Config{
		ID: "streambench", Timings: timings, TickInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	}, service.Ports{Store: memstore.New(), Mutex: new(memstore.Mutex)})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	own := &coordinator{Coordinator: c, stop: stop}
	own.running.Go(func() { _ = c.Run(ctx) })
	return own, nil
}

func (c *coordinator) close(ctx context.Context) error {
	c.stop()
	c.running.Wait()
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer done()
	return c.Close(ctx)
}

// declare makes a stream known.
func (c *coordinator) declare(ctx context.Context, prefix string, shards int) error {
	_, err := c.CreateStream(ctx, prefix, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "streambench"})
	return err
}

// line is the way of a consumer and a producer to the coordinator.
type line struct {
	c             *coordinator
	stream, group string
}

// Heartbeat implements the consumer's Transport.
func (l line) Heartbeat(ctx context.Context, q *protocol.Heartbeat) (*protocol.HeartbeatResponse, error) {
	r := l.c.Coordinator.Heartbeat(ctx, l.stream, l.group, q)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &r, nil
}

// Routing implements the producer's Transport.
func (l line) Routing(ctx context.Context) (*protocol.Routing, error) {
	r, err := l.c.Coordinator.Routing(ctx, l.stream, l.group)
	if err != nil {
		return nil, err
	}
	return &r, nil
}
