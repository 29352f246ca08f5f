package producer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// closeGrace is how long Close waits at most, beyond its context, for what ends
// because connections were closed: at once, but on a machine at load a goroutine may
// stand still for seconds before it gets to it.
const closeGrace = 10 * time.Second

// Producer publishes to one stream. It is safe for use by many goroutines; one
// per stream and process is enough.
type Producer struct {
	cfg       Config
	transport *httpTransport // nil when Config.Transport is used
	router    *router
	nodes     *nodes
	sender    *sender
	limit     *limit // nil without one
	stats     stats
	observing *observing
	warned    atomic.Int64 // when unread drops were logged last, Unix ns
	// closing is closed when Close begins, closed when it is over.
	closing, closed chan struct{}

	mu       sync.Mutex
	shut     bool
	running  int           // calls under way
	idle     chan struct{} // closed when shut and none is running
	closeErr error
}

// New returns a producer and starts to ask for the routing; it does not wait for
// it, and connects to Redis when something is published. Close must be called.
//
// Errors: every complaint about cfg in one error that names the fields.
func New(cfg Config) (*Producer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Producer{
		cfg:     cfg,
		closing: make(chan struct{}), closed: make(chan struct{}), idle: make(chan struct{}),
	}
	transport := cfg.Transport
	if transport == nil {
		t, err := newHTTPTransport(&cfg)
		if err != nil {
			return nil, err
		}
		p.transport, transport = t, t
	}
	p.nodes = newNodes(cfg.Redis)
	p.observing, p.limit = newObserving(&p.cfg), newLimit(&p.cfg)
	p.router = newRouter(&p.cfg, transport, &p.stats, p.observing)
	p.sender = newSender(p)
	p.router.start()
	return p, nil
}

// Publish stores m in the stream and returns where. The first call waits for the
// routing as long as ctx allows.
//
// Errors: a *PublishError, whose Outcome says whether the record may be stored
// all the same. A context that ends before the message was sent is ErrCanceled;
// one whose deadline passes while the answer is awaited is ErrOutcomeUnknown.
// Cancelling ctx without a deadline does not cut that wait short, Redis.ReadTimeout does.
func (p *Producer) Publish(ctx context.Context, m Message) (Receipt, error) {
	if err := p.enter(); err != nil {
		return Receipt{}, err
	}
	defer p.leave()
	entries := [1]entry{{msg: &m}}
	newBatch(ctx, p, entries[:]).run(ctx)
	p.finished(&entries[0])
	r := entries[0].result()
	return r.Receipt, r.Err
}

// PublishBatch stores the messages, pipelined and with the nodes of a Redis
// Cluster at the same time, and returns the outcome of each, in the order of
// messages. Messages of one key are stored in their order; the package comment
// says what happens to those behind one that fails. A batch is not atomic.
//
// Errors: nil when every message was stored, otherwise a *BatchError that sums
// up the results; or, with no results and nothing sent, ErrClosed and
// ErrBatchTooLarge.
func (p *Producer) PublishBatch(ctx context.Context, messages []Message) ([]Result, error) {
	if len(messages) > MaxBatchMessages {
		return nil, ErrBatchTooLarge.with("the batch has %d messages, at most %d are allowed: publish it in parts", len(messages), MaxBatchMessages)
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	entries := make([]entry, len(messages))
	for i := range messages {
		entries[i].msg = &messages[i]
	}
	newBatch(ctx, p, entries).run(ctx)
	for i := range entries {
		p.finished(&entries[i])
	}
	return results(entries)
}

// finished counts a message that has come to its end.
func (p *Producer) finished(e *entry) {
	switch {
	case e.err != nil:
		p.stats.countFailure(e.err)
		if p.observing != nil {
			notify(p.observing, Observer.Failed, FailedEvent{Err: e.err, Latency: time.Since(e.queued)})
		}
	default:
		p.stats.published.Add(1)
		if p.observing != nil {
			notify(p.observing, Observer.Published, PublishedEvent{Receipt: e.receipt(), Bytes: e.size, Latency: time.Since(e.queued)})
		}
	}
}

// Stats returns what the producer has done and holds.
func (p *Producer) Stats() Stats {
	s := p.stats.snapshot()
	s.Buffered, s.BufferedBytes = p.sender.room.taken()
	return s
}

// results hands the outcomes out and sums the failures up.
func results(entries []entry) ([]Result, error) {
	out := make([]Result, len(entries))
	var failed *BatchError
	for i := range entries {
		e := &entries[i]
		if e.err == nil {
			out[i].Receipt = e.receipt()
			continue
		}
		out[i].Err = e.err
		if failed == nil {
			failed = &BatchError{Messages: len(entries), FirstIndex: i, First: e.err}
		}
		if e.err.Outcome == Unknown {
			failed.Unknown++
		} else {
			failed.NotApplied++
		}
	}
	if failed != nil {
		return out, failed
	}
	return out, nil
}

// Routing returns what the producer knows about the stream, for display. It is
// false before the first answer of the coordinator.
func (p *Producer) Routing() (Routing, bool) { return p.router.display() }

// Close refuses further calls, lets those under way finish, has what Send took
// stored, and releases everything the producer holds. A call that waits, for a
// routing, for room in the buffer or to send something again, ends with ErrClosed or the error that
// it waited to overcome. What Send took is sent again as long as Config.RetryFor and ctx allow.
//
// When ctx ends first, what is buffered and not under way ends with ErrClosed, or the
// error of its last attempt. Connections are closed under the rest, which then ends
// by itself, and Close says so. Every future has its outcome when Close returns, unless
// a function of SendFunc does not return.
//
// Close may be called more than once and by several goroutines; each call
// returns when the producer is closed.
func (p *Producer) Close(ctx context.Context) error {
	p.mu.Lock()
	first := !p.shut
	if first {
		p.shut = true
		close(p.closing)
		if p.running == 0 {
			close(p.idle)
		}
	}
	p.mu.Unlock()
	if first {
		p.closeErr = p.release(ctx)
		close(p.closed)
		return p.closeErr
	}
	select {
	case <-p.closed:
		return p.closeErr
	case <-ctx.Done():
		return fmt.Errorf("close the producer: another Close is under way: %w", context.Cause(ctx))
	}
}

// release is the body of the first Close.
func (p *Producer) release(ctx context.Context) error {
	var late error
	p.sender.refuse()
	if err := p.sender.flush(ctx); err != nil {
		n, _ := p.sender.room.taken()
		p.sender.abort()
		late = fmt.Errorf("close the producer: %d messages of Send were not confirmed: %w", n, err)
	}
	if err := waitFor(ctx, p.idle); err != nil && late == nil {
		late = fmt.Errorf("close the producer: calls were still under way: %w", err)
	}
	if err := p.router.stop(ctx); err != nil && late == nil {
		late = fmt.Errorf("close the producer: the transport does not return: %w", err)
	}
	if p.transport != nil {
		p.transport.close()
	}
	if err := p.nodes.close(); err != nil && late == nil {
		late = fmt.Errorf("close the producer: %w", err)
	}
	// Without connections what is left ends at once.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
	defer cancel()
	if err := p.sender.stop(grace); err != nil && late == nil {
		late = fmt.Errorf("close the producer: a function of SendFunc does not return: %w", err)
	}
	return late
}

// waitFor waits for over as long as ctx allows. What is over is, whatever ctx says.
func waitFor(ctx context.Context, over <-chan struct{}) error {
	select {
	case <-over:
		return nil
	default:
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter counts a call in; every enter without an error is followed by leave.
func (p *Producer) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return ErrClosed
	}
	p.running++
	return nil
}

func (p *Producer) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running--; p.running == 0 && p.shut {
		close(p.idle)
	}
}
