package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// Coordinator is one running coordinator. Its methods are safe for concurrent
// use. Run must be running for leases to end and open steps to be taken;
// heartbeats are answered without it as well.
type Coordinator struct {
	cfg   Config
	ports Ports

	// life ends when Close is done; every goroutine stops with it.
	life context.Context
	kill context.CancelFunc
	// closing ends when Close begins, and with it what nobody waits for.
	closing context.Context
	close   context.CancelFunc
	owned   sync.WaitGroup
	closed  atomic.Bool
	// most is what Config.MaxShards was replaced by, 0 if it was not.
	most atomic.Int64

	mu     sync.Mutex
	groups map[port.GroupKey]*runner
	// known is what is remembered of streams, by prefix.
	known map[string]*known
	// lost are shards that members report missing.
	lost lostShards
	// repairing is true while the index is repaired after a loss.
	repairing bool
	// lanes keep the steps of one stream from running twice at once here.
	lanes map[string]*lane
	// doubts are groups that may have lost what they had adopted, until the stream is told.
	doubts map[port.GroupKey]struct{}

	// turnedAway counts heartbeats that no group was asked about.
	turnedAway statusCounts

	// replies has channels for answers whose answer was taken.
	replies sync.Pool

	health health
	losses losses
	looks  looks
}

// New returns a coordinator.
// Errors: what is wrong with cfg, all complaints in one.
func New(cfg Config, ports Ports) (*Coordinator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("coordinator: %w", err)
	}
	if ports.Store == nil {
		return nil, errors.New("coordinator: a store is needed")
	}
	if ports.Clock == nil {
		ports.Clock = systemClock{time.Now()}
	}
	if ports.IDs == nil {
		ports.IDs = randomIDs{}
	}
	life, kill := context.WithCancel(context.Background())
	closing, begin := context.WithCancel(life)
	c := &Coordinator{
		cfg: cfg, ports: ports, life: life, kill: kill, closing: closing, close: begin,
		groups: map[port.GroupKey]*runner{}, known: map[string]*known{}, lanes: map[string]*lane{}, lost: lostShards{}, doubts: map[port.GroupKey]struct{}{},
	}
	c.health.loopSeen.Store(int64(ports.Clock.Mono()))
	if ports.Signal != nil {
		c.owned.Add(1)
		go func() {
			defer c.owned.Done()
			ports.Signal.Watch(c.closing, c.changed)
		}()
	}
	return c, nil
}

// streamScan is how often all streams are looked at for open steps. What a
// request begins is finished by the request itself; this is for what was cut off, and
// for what has to wait.
const streamScan = time.Second

// Run is the event loop: it finds groups that other coordinators created, so
// that their leases are watched here too, finishes open steps of streams, and
// drops what is no longer needed. It returns when ctx ends.
func (c *Coordinator) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	detach := context.AfterFunc(c.life, stop) //nolint:contextcheck // Close ends it too.
	defer detach()
	// Beside it, because the Redis of the streams may hang.
	var scans sync.WaitGroup
	defer scans.Wait()
	defer stop()
	scans.Go(func() { every(ctx, streamScan, c.scanStreams) })
	every(ctx, c.cfg.TickInterval, func(ctx context.Context) {
		start := c.ports.Clock.Mono()
		_ = c.watchIdentity(ctx) // what is wrong was logged
		c.watchGroups(ctx)
		c.reap()
		end := c.ports.Clock.Mono()
		c.health.loopSeen.Store(int64(end))
		if c.cfg.OnRound != nil {
			c.cfg.OnRound(end - start)
		}
	})
	return nil
}

// every does something at once and then again and again until ctx ends.
func every(ctx context.Context, interval time.Duration, do func(context.Context)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		do(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// watchGroups starts a runner for every group of the store.
func (c *Coordinator) watchGroups(ctx context.Context) {
	call, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	keys, err := c.ports.Store.ListGroups(call)
	if err != nil {
		c.storeTrouble(ctx, "list groups", err)
		return
	}
	for _, key := range keys {
		//nolint:contextcheck // A runner outlives whoever starts it.
		if r := c.runner(key, true); r != nil {
			c.release(r)
		}
	}
}

func (c *Coordinator) storeTrouble(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		c.health.complain(c.cfg.Logger, what, err)
	}
}

// runner returns the runner of a group, to be given back with release. It is
// nil when there is none and create is false, or when the coordinator is closed.
func (c *Coordinator) runner(key port.GroupKey, create bool) *runner {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		return nil
	}
	r, running := c.groups[key]
	if !running {
		if !create {
			return nil
		}
		r = newRunner(c, key)
		c.groups[key] = r
		c.owned.Add(1)
		go func() {
			defer c.owned.Done()
			r.run()
		}()
	}
	r.users++
	return r
}

func (c *Coordinator) release(r *runner) {
	c.mu.Lock()
	r.users--
	c.mu.Unlock()
}

// reap ends the runners of groups that do not exist (any more).
func (c *Coordinator) reap() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, r := range c.groups {
		if r.users == 0 && r.idle.Load() {
			delete(c.groups, key)
			r.stop()
		}
	}
}

// Heartbeat answers a heartbeat of a member. It never fails: what is wrong is
// in the status, and temporary trouble is RETRY.
func (c *Coordinator) Heartbeat(ctx context.Context, streamName, groupName string, q *protocol.Heartbeat) protocol.HeartbeatResponse {
	key := port.GroupKey{Stream: streamName, Group: groupName}
	r := c.runner(key, false) //nolint:contextcheck // A runner outlives whoever starts it.
	if r == nil {
		if refused := c.admit(ctx, key, q); refused != nil {
			c.refused(refused.Status)
			return *refused
		}
		//nolint:contextcheck // A runner outlives whoever starts it.
		if r = c.runner(key, true); r == nil {
			return protocol.NewHeartbeatResponse(q, protocol.StatusRetry, protocol.ErrTerminating.Message, c.cfg.Timings)
		}
	}
	defer c.release(r)
	c.noteMissing(streamName, q) //nolint:contextcheck // It outlives the heartbeat.
	return r.heartbeat(ctx, q)
}

// admit refuses heartbeats for groups that do not exist and cannot come to be,
// so that nobody can make the coordinator keep state for names of his choice.
func (c *Coordinator) admit(ctx context.Context, key port.GroupKey, q *protocol.Heartbeat) *protocol.HeartbeatResponse {
	refuse := func(status protocol.Status, reason string) *protocol.HeartbeatResponse {
		r := protocol.NewHeartbeatResponse(q, status, reason, c.cfg.Timings)
		return &r
	}
	if c.closed.Load() {
		return refuse(protocol.StatusRetry, protocol.ErrTerminating.Message)
	}
	if q.MemberID == "" {
		return refuse(protocol.StatusInvalidRequest, "memberId: must not be blank")
	}
	c.speaksOfFormer(key, q)
	s, _, err := c.loadStream(ctx, key.Stream)
	if err != nil {
		status, reason := engine.Refusal(err)
		return refuse(status, reason)
	}
	if !s.Exists() {
		return refuse(protocol.StatusUnknownMember, "no such stream, or the metadata store was emptied since: create it")
	}
	if _, there := s.Group(key.Group); there {
		return nil
	}
	if q.MemberEpoch != protocol.EpochJoin {
		return refuse(protocol.StatusUnknownMember, "no such group, or no such member in it")
	}
	_, _, _, err = stream.Apply(s, stream.Input{Now: c.ports.Clock.Wall()}, stream.EnsureGroup{Name: key.Group, ByJoin: true})
	if err != nil {
		status, reason := engine.Refusal(err)
		return refuse(status, reason)
	}
	return nil
}

// Close answers what is held, refuses new work and waits for every goroutine,
// at most until ctx ends; then what is left is cut off. It may be called more
// than once. Errors: the cause of ctx.
func (c *Coordinator) Close(ctx context.Context) error {
	c.mu.Lock()
	if !c.closed.Swap(true) {
		c.close()
		for _, r := range c.groups {
			r.close()
		}
	}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		c.owned.Wait()
		close(done)
	}()
	select {
	case <-done:
		c.kill()
		return nil
	case <-ctx.Done():
		c.kill()
		<-done
		return context.Cause(ctx)
	}
}

func (c *Coordinator) input() engine.Input {
	return engine.Input{Mono: c.ports.Clock.Mono(), Now: c.ports.Clock.Wall().UTC().Truncate(time.Millisecond), ID: c.ports.IDs.NewID()}
}
