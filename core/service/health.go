package service

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// health remembers how the store and the loop are doing.
type health struct {
	// loopSeen is the monotonic time of the last round of the loop.
	loopSeen atomic.Int64
	// failing is true from the first failed call to the next good one, so that
	// an outage is two lines in the log and not thousands.
	failing atomic.Bool

	mu     sync.Mutex
	at     time.Duration
	known  bool
	answer protocol.Health
}

func (h *health) complain(log *slog.Logger, what string, err error) {
	if !h.failing.Swap(true) {
		log.Error("metadata store is away", "doing", what, "err", err)
	}
}

func (h *health) storeUp(log *slog.Logger) {
	if h.failing.Load() && h.failing.Swap(false) {
		log.Info("metadata store is back")
	}
}

// How long an answer of Health is used again, and how long a ping may take.
const (
	healthTTL   = time.Second
	pingTimeout = 300 * time.Millisecond
)

// Health says how this coordinator is doing. It is DOWN when the metadata store
// cannot be reached, DEGRADED when the Redis of the streams cannot, or when the
// event loop does not run.
func (c *Coordinator) Health(ctx context.Context) protocol.Health {
	c.health.mu.Lock()
	defer c.health.mu.Unlock()
	now := c.ports.Clock.Mono()
	if c.health.known && now-c.health.at < healthTTL {
		return c.health.answer
	}
	h := protocol.Health{Status: protocol.HealthUp, CoordinatorID: c.cfg.ID, Store: "UP", Redis: "NOT_CONFIGURED", Loop: "UP"}
	if c.loopStalled(now) {
		h.Status, h.Loop, h.Reason = protocol.HealthDegraded, "DOWN", "the event loop does not run: leases do not end"
	}
	if c.ports.Streams != nil {
		h.Redis = "UP"
		if err := ping(ctx, c.ports.Streams.Ping); err != nil {
			h.Status, h.Redis, h.Reason = protocol.HealthDegraded, "DOWN", "the Redis of the streams cannot be reached"
		}
	}
	err := ping(ctx, func(ctx context.Context) error {
		_, err := c.ports.Store.Ping(ctx)
		return err
	})
	if err != nil {
		h.Status, h.Store, h.Reason = protocol.HealthDown, "DOWN", "the metadata store cannot be reached"
	}
	if ctx.Err() == nil {
		c.health.at, c.health.known, c.health.answer = now, true, h
	}
	return h
}

func (c *Coordinator) loopStalled(now time.Duration) bool {
	patience := max(5*time.Second, 3*c.cfg.TickInterval) + c.cfg.CallTimeout
	return now-time.Duration(c.health.loopSeen.Load()) > patience
}

func ping(ctx context.Context, do func(context.Context) error) error {
	ctx, done := context.WithTimeoutCause(ctx, pingTimeout, errors.New("no answer in time"))
	defer done()
	return do(ctx)
}
