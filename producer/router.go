package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// routingTimeout bounds one request for the routing.
	routingTimeout = 5 * time.Second
	// requestGap is the least time between two requests, whoever asks for them.
	requestGap = 100 * time.Millisecond
	// emptyGap is the same while the stream has no shards. Whoever publishes then has the
	// routing asked for, so this is how soon publishing goes on when there are some.
	emptyGap = 400 * time.Millisecond
	// maxRequestPause bounds the growing pause after failures. It is short so that
	// publishing resumes soon after a coordinator is back.
	maxRequestPause    = time.Second
	maxRefreshInterval = 10 * time.Second
)

// router keeps the routing fresh. One goroutine asks the transport, one request
// at a time; everybody else reads the snapshot and, where it does not serve,
// waits for an attempt to end.
type router struct {
	transport     Transport
	stream, group string
	interval      time.Duration // 0: a third of the lease
	log           *slog.Logger
	stats         *stats
	observing     *observing

	current atomic.Pointer[snapshot]
	kicks   chan struct{} // holds one; asks for an attempt ahead of time
	cancel  context.CancelFunc
	stopped chan struct{} // closed when the goroutine is over
	// saidOver: the end of the lease was reported. Touched by the goroutine only.
	saidOver bool

	mu sync.Mutex
	// begun and ended count attempts. Attempt n was sent before begun became n+1.
	begun, ended uint64
	lastErr      error         // of the attempt that ended last
	changed      chan struct{} // closed and replaced whenever an attempt ends
}

func newRouter(cfg *Config, transport Transport, stats *stats, observing *observing) *router {
	return &router{
		transport: transport, stream: cfg.Stream, group: cfg.Group,
		interval: cfg.RefreshInterval, log: cfg.Logger.With("stream", cfg.Stream),
		kicks: make(chan struct{}, 1), stopped: make(chan struct{}),
		stats: stats, observing: observing,
		changed: make(chan struct{}),
	}
}

// start runs the router until stop is called.
func (r *router) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	go r.run(ctx)
}

// stop ends the goroutine and waits for it, at most as long as ctx allows.
func (r *router) stop(ctx context.Context) error {
	r.cancel()
	return waitFor(ctx, r.stopped)
}

func (r *router) run(ctx context.Context) {
	defer close(r.stopped)
	pause := requestGap
	for {
		next, gap := r.interval, requestGap
		err := r.attempt(ctx)
		if err == nil {
			pause = requestGap
			now := r.current.Load()
			if next == 0 {
				next = maxRefreshInterval
			}
			next = min(next, now.lease/3)
			if len(now.keys) == 0 {
				gap = emptyGap
			}
		} else {
			next = pause
			pause = min(2*pause, maxRequestPause)
		}
		// Jitter, so that many producers do not ask in step.
		next += rand.N(next/8 + 1)
		if ctx.Err() != nil || !r.sleep(ctx, next, gap, err == nil) {
			return
		}
	}
}

// sleep waits for d. A kick ends it, but not before gap, and not after a
// failure: those who wait for a routing would turn the pauses into a storm.
func (r *router) sleep(ctx context.Context, d, gap time.Duration, kickable bool) bool {
	if !kickable {
		return pauseFor(ctx, d, nil)
	}
	gap = min(d, gap)
	return pauseFor(ctx, gap, nil) && pauseFor(ctx, d-gap, r.kicks)
}

// pauseFor waits for d or for cut, and reports false when ctx ended.
func pauseFor(ctx context.Context, d time.Duration, cut <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-cut:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempt asks once and publishes what comes of it.
func (r *router) attempt(ctx context.Context) error {
	r.mu.Lock()
	r.begun++
	failedBefore := r.lastErr != nil
	r.mu.Unlock()

	old := r.current.Load()
	requested := time.Now()
	fresh, err := r.ask(ctx, requested)
	if ctx.Err() != nil {
		err = ErrClosed
	}
	if err == nil {
		r.current.Store(fresh)
	}

	r.mu.Lock()
	r.ended++
	r.lastErr = err
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()

	if ctx.Err() == nil {
		r.report(old, fresh, err, failedBefore)
	}
	return err
}

func (r *router) ask(ctx context.Context, requested time.Time) (*snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, routingTimeout)
	defer cancel()
	body, err := r.transport.Routing(ctx)
	if err != nil {
		return nil, err
	}
	s, err := newSnapshot(body, r.stream, r.group, requested)
	if err != nil {
		return nil, fmt.Errorf("the coordinator's answer cannot be used: %w", err)
	}
	if now := time.Now(); !s.valid(now) {
		return nil, fmt.Errorf("the coordinator's answer took %s, longer than the routing lease of %s that it grants",
			now.Sub(requested).Round(time.Millisecond), s.lease)
	}
	return s, nil
}

// report logs a change: the first failure, the end of the lease, the recovery,
// another version. Everything else is for debugging.
func (r *router) report(old, fresh *snapshot, err error, failedBefore bool) {
	r.tell(old, fresh, err)
	over := err != nil && old != nil && !old.valid(time.Now())
	defer func() { r.saidOver = over }()
	switch {
	case over && !r.saidOver:
		r.log.Error("routing lease is over: publishing is refused until a coordinator answers", "err", err)
	case err != nil && !failedBefore:
		r.log.Warn("routing cannot be refreshed", "err", err)
	case err != nil:
		r.log.Debug("routing cannot be refreshed", "err", err)
	case old == nil || old.version != fresh.version:
		r.log.Info("routing", "shards", len(fresh.keys), "metadata_version", fresh.version, "lease", fresh.lease)
	case failedBefore:
		r.log.Info("routing is refreshed again", "metadata_version", fresh.version)
	}
}

// tell counts an attempt, and tells the observer of what is worth it.
func (r *router) tell(old, fresh *snapshot, err error) {
	before := -1
	if old != nil {
		before = len(old.keys)
	}
	switch {
	case err != nil:
		r.stats.routingFailures.Add(1)
		e := RoutingFailedEvent{Err: err}
		if old != nil {
			e.LeaseLeft = time.Until(old.ends)
		}
		notify(r.observing, Observer.RoutingFailed, e)
	case len(fresh.keys) != before:
		if old != nil {
			r.stats.routingChanges.Add(1)
		}
		notify(r.observing, Observer.RoutingChanged, RoutingChangedEvent{
			MetadataVersion: fresh.version, Shards: len(fresh.keys), Before: before,
		})
	}
}

// kick asks for an attempt ahead of time.
func (r *router) kick() {
	select {
	case r.kicks <- struct{}{}:
	default:
	}
}

// shardOf picks the shard of m by s. Where there is none at all, the routing is asked for
// again soon: the stream may have shards by now.
func (r *router) shardOf(s *snapshot, m *Message) (int, *PublishError) {
	if len(s.keys) == 0 {
		r.kick()
	}
	return s.shardOf(m)
}

// acquire returns a snapshot whose lease holds. Without one it waits: for the
// first snapshot as long as ctx allows, for the next one only while there is
// hope, which there is not once an attempt has failed since the last success. The
// end of closing ends the wait too.
func (r *router) acquire(ctx context.Context, closing <-chan struct{}) (*snapshot, *PublishError) {
	for {
		if s := r.current.Load(); s != nil && s.valid(time.Now()) {
			return s, nil
		}
		r.mu.Lock()
		s, lastErr, changed := r.current.Load(), r.lastErr, r.changed
		r.mu.Unlock()
		switch {
		case s != nil && s.valid(time.Now()):
			return s, nil
		case s == nil && lastErr != nil && isRefusal(lastErr):
			return nil, ErrRoutingRefused.because(lastErr)
		case s != nil && lastErr != nil:
			return nil, ErrRoutingExpired.because(lastErr)
		}
		r.kick()
		if err := r.await(ctx, changed, closing); err != nil {
			switch {
			case errors.Is(err, ErrClosed):
				return nil, ErrClosed
			case s == nil:
				return nil, ErrNoRouting.because(errors.Join(err, lastErr))
			default:
				return nil, ErrRoutingExpired.because(err)
			}
		}
	}
}

// refresh returns the snapshot of an attempt that begins after the call, or why that
// attempt failed: asked is true then. One from before will do if it serves; there may be
// one, or be one on its way, when many find out at the same time that theirs is stale.
func (r *router) refresh(ctx context.Context, closing <-chan struct{}, serves func(*snapshot) bool) (s *snapshot, asked bool, err error) {
	r.mu.Lock()
	wanted := r.begun + 1
	r.mu.Unlock()
	for {
		r.mu.Lock()
		ended, lastErr, changed := r.ended, r.lastErr, r.changed
		r.mu.Unlock()
		s = r.current.Load()
		if ended >= wanted {
			return s, true, lastErr
		}
		if s != nil && s.valid(time.Now()) && serves(s) {
			return s, false, nil
		}
		r.kick()
		if err := r.await(ctx, changed, closing); err != nil {
			return nil, true, err
		}
	}
}

func (r *router) await(ctx context.Context, changed, closing <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-closing:
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// display returns what is known for display; false before the first answer.
func (r *router) display() (Routing, bool) {
	r.mu.Lock()
	lastErr := r.lastErr
	r.mu.Unlock()
	s := r.current.Load()
	if s == nil {
		return Routing{Stream: r.stream, Group: r.group, RefreshError: lastErr}, false
	}
	return s.display(r.stream, r.group, lastErr), true
}
