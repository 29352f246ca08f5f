package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Consumer is one member of a consumer group. Make one with New, then call Run.
// Its methods are safe for concurrent use.
type Consumer struct {
	cfg       Config
	transport Transport
	gate      gate
	poller    *poller // nil with a Lifecycle of the application
	agent     *agent

	mu      sync.Mutex
	started bool
	closed  bool
	// closing is closed by Close, abort when a Close cannot wait any longer,
	// done when Run has returned.
	closing chan struct{}
	abort   chan struct{}
	aborted bool
	done    chan struct{}
}

// New returns a consumer that does nothing yet: it connects to nothing and
// starts no goroutine before Run.
// Errors: what is wrong with cfg, all complaints in one.
func New(cfg Config) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Consumer{
		cfg: cfg, transport: cfg.Transport,
		closing: make(chan struct{}), abort: make(chan struct{}), done: make(chan struct{}),
	}
	if c.transport == nil {
		t, err := newHTTPTransport(&c.cfg)
		if err != nil {
			return nil, err
		}
		c.transport = t
	}
	o := newObserving(&c.cfg)
	lifecycle := cfg.Lifecycle
	if lifecycle == nil {
		c.poller = newPoller(&c.cfg, &c.gate, o)
		lifecycle = c.poller
	}
	a, err := newAgent(&c.cfg, c.transport, lifecycle, &c.gate, o)
	if err != nil {
		return nil, err
	}
	if c.poller != nil {
		a.progress, c.poller.poke = c.poller.progress, a.poke
	}
	c.agent = a
	return c, nil
}

// MemberID returns the id of this member, which is its consumer name in Redis.
func (c *Consumer) MemberID() string { return c.cfg.MemberID }

// LeaseLeft returns how long this member may still read its shards if no
// coordinator answers from now on; 0 or less means that it may not read at all.
// A Lifecycle looks at it before each read, and lets no read block longer.
func (c *Consumer) LeaseLeft() time.Duration { return c.gate.left() }

// Stats returns what the consumer has done so far.
func (c *Consumer) Stats() Stats {
	if c.poller == nil {
		return Stats{}
	}
	return c.poller.stats.snapshot()
}

// Run joins the group and reads until ctx ends or Close is called. Then it lets
// its shards go, says goodbye, and returns, after Config.ShutdownTimeout at the
// latest. Trouble with the coordinator or with Redis does not end it: it is
// logged, and tried again. Only what no waiting ends, seen before it joins, does.
//
// It returns nil after a shutdown, also one in which handlers had to be
// cancelled. Errors: ErrClosed, ErrStuck; ErrRedisPermission and ErrRedisMode
// when it did not join.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.begin() {
		return ErrClosed
	}
	defer close(c.done)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var closing sync.WaitGroup
	closing.Go(func() {
		select {
		case <-c.closing:
			stop()
		case <-ctx.Done():
		}
	})
	var refused error
	if c.poller != nil {
		c.poller.open(context.WithoutCancel(ctx))
		refused = c.poller.probe(ctx)
	}
	if refused == nil {
		c.agent.run(ctx, c.abort)
	}
	stop()
	closing.Wait()
	err := errors.Join(refused, c.awaitShards())
	if c.poller != nil {
		c.poller.close()
	}
	if t, ours := c.transport.(*httpTransport); ours {
		t.close()
	}
	return err
}

func (c *Consumer) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started || c.closed {
		return false
	}
	c.started = true
	return true
}

// awaitShards waits for the handlers, whose contexts have ended.
func (c *Consumer) awaitShards() error {
	ended := make(chan struct{})
	go func() {
		c.agent.tenures.Wait()
		close(ended)
	}()
	if await(ended, c.cfg.limits.stuck) {
		return nil
	}
	if c.poller != nil && c.poller.pool.busy() == 0 {
		// It is no handler that is waited for but Redis, which does not answer. That ends
		// with the connections.
		c.poller.servers.close()
		if await(ended, c.cfg.limits.stuck) {
			return nil
		}
	}
	c.agent.log.Error("a handler does not return although its context has ended: its goroutine is left behind", slog.Any("err", ErrStuck))
	return ErrStuck
}

// Close ends Run and waits until it has returned. When ctx ends first, handlers
// are cancelled and Run returns at once, without a goodbye; Close then returns
// the cause of ctx. It may be called any number of times, and before Run.
func (c *Consumer) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
	}
	started := c.started
	c.mu.Unlock()
	if !started {
		return nil
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	if !c.aborted {
		c.aborted = true
		close(c.abort)
	}
	c.mu.Unlock()
	<-c.done
	return context.Cause(ctx)
}
