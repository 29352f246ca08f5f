package consumer

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// ackBatch is how many acknowledgements of a shard are sent without waiting
	// for more, and how many one XACK carries at most.
	ackBatch = 500
	// maxUnacked bounds what a shard has handled and not acknowledged, in
	// batches: beyond it the shard's worker waits.
	maxUnacked = 20
)

// acker sends the acknowledgements of all shards, collected, and pipelined for each
// node, on connections that no read blocks. XACK can be repeated without harm.
type acker struct {
	servers *servers
	stream  string
	group   string
	every   time.Duration
	// timeout bounds one pipeline.
	timeout time.Duration
	gate    *gate
	log     *slog.Logger
	stats   *stats
	// observing may be nil.
	observing *observing

	// wake says that there is something to send, hurry that it is not to wait.
	wake, hurry chan struct{}

	// sending counts the goroutines that send, one for each node at most.
	sending sync.WaitGroup

	mu      sync.Mutex
	queues  map[*ackQueue]struct{}
	outlets map[string]*outlet
}

func newAcker(s *servers, cfg *Config, g *gate, log *slog.Logger, st *stats, o *observing) *acker {
	return &acker{
		servers: s, stream: cfg.Stream, group: cfg.Group, every: cfg.AckInterval, timeout: s.options.ReadTimeout, gate: g, log: log, stats: st, observing: o,
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), queues: map[*ackQueue]struct{}{},
		outlets: map[string]*outlet{},
	}
}

// ackQueue holds what one tenure of a shard has handled and Redis has not
// confirmed as acknowledged.
type ackQueue struct {
	acker *acker
	shard Shard
	limit int

	mu sync.Mutex
	// closed drops what comes: the shard is not ours any more.
	closed bool
	// waiting is what has not been sent; unacked also what is on its way.
	waiting []string
	unacked map[string]struct{}
	// last is the id that was confirmed last.
	last string
	// resting: the server refuses this shard's acknowledgements, and alarm ends the
	// pause. The others of its node go on.
	resting bool
	pace    backoff
	alarm   *time.Timer
	ailment complaint
	// known reports whether the shard's reader has the same trouble and speaks of it.
	known func() bool
	// changed is poked when something was confirmed.
	changed chan struct{}
}

func (a *acker) queue(s Shard, batch int, known func() bool) *ackQueue {
	q := &ackQueue{
		acker: a, shard: s, limit: maxUnacked * batch, unacked: map[string]struct{}{}, changed: make(chan struct{}, 1),
		pace: redisBackoff(), known: known,
	}
	a.mu.Lock()
	a.queues[q] = struct{}{}
	a.mu.Unlock()
	return q
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// add takes a record that was handled.
func (q *ackQueue) add(id string) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return
	}
	q.unacked[id] = struct{}{}
	q.waiting = append(q.waiting, id)
	n := len(q.waiting)
	q.mu.Unlock()
	poke(q.acker.wake)
	if n >= ackBatch {
		poke(q.acker.hurry)
	}
}

// has reports whether a record was handled already and waits for its
// acknowledgement.
func (q *ackQueue) has(id string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, there := q.unacked[id]
	return there
}

func (q *ackQueue) size() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.unacked)
}

// waits reports whether something is to be sent.
func (q *ackQueue) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) > 0 && !q.resting
}

func (q *ackQueue) lastAcked() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// forget drops what is not confirmed: the group that it was pending in is gone.
func (q *ackQueue) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = nil
	clear(q.unacked)
}

// close drops everything, now and from now on.
func (q *ackQueue) close() {
	q.acker.mu.Lock()
	delete(q.acker.queues, q)
	q.acker.mu.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.waiting = nil
	clear(q.unacked)
	if q.alarm != nil {
		q.alarm.Stop()
	}
}

// await returns true when at most n records are unconfirmed, false when ctx or
// quit ended first.
func (q *ackQueue) await(ctx context.Context, quit <-chan struct{}, n int) bool {
	for q.size() > n {
		poke(q.acker.wake)
		poke(q.acker.hurry)
		select {
		case <-q.changed:
		case <-quit:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// take returns the next ids to send.
func (q *ackQueue) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.resting {
		return nil
	}
	n := min(len(q.waiting), ackBatch)
	ids := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return ids
}

// settle notes what became of ids that were sent.
func (q *ackQueue) settle(ids []string, err error) {
	q.mu.Lock()
	switch {
	case q.closed:
	case err != nil:
		// In front, so that they stay in order.
		q.waiting = append(ids, q.waiting...)
	default:
		for _, id := range ids {
			delete(q.unacked, id)
		}
		q.last = ids[len(ids)-1]
	}
	q.mu.Unlock()
	poke(q.changed)
}

// rest lets a queue wait whose acknowledgements were refused, and returns how long.
func (q *ackQueue) rest() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	pause := q.pace.pause()
	if q.closed {
		return pause
	}
	q.resting = true
	q.alarm = time.AfterFunc(pause, func() {
		q.mu.Lock()
		q.resting = false
		q.mu.Unlock()
		poke(q.acker.wake)
	})
	return pause
}

// run has sent what there is until ctx ends.
func (a *acker) run(ctx context.Context) {
	defer a.sending.Wait()
	for {
		select {
		case <-a.wake:
		case <-ctx.Done():
			return
		}
		// Collect a little, unless somebody waits.
		collect := time.NewTimer(a.every)
		hurried := false
		select {
		case <-collect.C:
		case <-a.hurry:
			hurried = true
		case <-ctx.Done():
		}
		collect.Stop()
		a.dispatch(ctx, hurried)
	}
}
