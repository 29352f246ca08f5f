package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/consumer"
)

const (
	// balanceTimeout bounds the wait for the shards of a group to be balanced.
	balanceTimeout = time.Minute
	// visitPause lies between the coming and the going of the visitor of a group.
	visitPause = 200 * time.Millisecond
	// goodbye bounds the stop of a member.
	goodbye = 30 * time.Second
)

// wait lets members of the consumer module live, with their heartbeats held, while
// one more member of each group comes and goes.
func (b *run) wait(ctx context.Context) (_ *Result, err error) {
	r := b.begin()
	w := &waiting{run: b, groups: make([]*waitingGroup, b.Groups)}
	for g := range w.groups {
		w.groups[g] = &waitingGroup{name: groupName(g), watch: httpload.NewWatch(b.Shards)}
		w.groups[g].watch.Want(b.Members)
	}
	defer func() { err = errors.Join(err, w.end(ctx)) }()
	idle := selfUse()
	b.Progress(fmt.Sprintf("%d members join", b.Groups*b.Members))
	began := time.Now()
	if err := w.start(ctx); err != nil {
		return nil, err
	}
	if err := w.balanced(ctx); err != nil {
		return nil, err
	}
	r.Settled = Duration(time.Since(began))
	if b.Embedded {
		r.MemberBytes = max(0, selfUse().memory-idle.memory) / int64(b.Groups*b.Members)
	}
	b.Progress(fmt.Sprintf("members wait and one of each group comes and goes, for %s", b.Duration))
	err = b.measure(ctx, r, func(ctx context.Context) error {
		w.counting.Store(true)
		defer w.counting.Store(false)
		from := time.Now()
		err := w.visits(ctx)
		r.waited(w, time.Since(from))
		return err
	})
	return r, err
}

// waiting is the members of all groups.
type waiting struct {
	*run

	groups []*waitingGroup
	// counting is set while it is measured.
	counting       atomic.Bool
	answers, fails atomic.Int64
}

type waitingGroup struct {
	name    string
	watch   *httpload.Watch
	members []*member
	// joins and leaves are how long the visits took until all was balanced.
	joins, leaves httpload.Histogram
	moved         int
}

// member is a consumer that runs. It reads nothing.
type member struct {
	consumer.NopObserver

	consumer *consumer.Consumer
	w        *waiting
	watch    *httpload.Watch
	id       string
	ended    chan error
}

// Assigned implements consumer.Lifecycle.
func (m *member) Assigned(_ context.Context, s consumer.Shard) { m.watch.Assigned(m.id, s.Index) }

// Revoked implements consumer.Lifecycle.
func (m *member) Revoked(_ context.Context, s consumer.Shard) { m.watch.Released(m.id, s.Index) }

// Lost implements consumer.Lifecycle.
func (m *member) Lost(s consumer.Shard, _ error) { m.watch.Released(m.id, s.Index) }

// Heartbeat implements consumer.Observer.
func (m *member) Heartbeat(e consumer.HeartbeatEvent) {
	switch {
	case !m.w.counting.Load():
	case e.Err != nil || !e.Status.RenewsLease():
		m.w.fails.Add(1)
	default:
		m.w.answers.Add(1)
	}
}

func (w *waiting) join(ctx context.Context, group int, id string) (*member, error) {
	g := w.groups[group]
	_, url := w.target(group)
	m := &member{w: w, watch: g.watch, id: id, ended: make(chan error, 1)}
	c, err := consumer.New(consumer.Config{
		Coordinators: []string{url}, Credentials: consumer.BasicAuth(w.Username, w.Password),
		Stream: w.stream, Group: g.name, MemberID: id, MaxWait: w.Wait,
		Lifecycle: m, Observer: m, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	m.consumer = c
	go func() { m.ended <- c.Run(context.WithoutCancel(ctx)) }()
	return m, nil
}

// leave says goodbye and waits for the end.
func (m *member) leave(ctx context.Context) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer done()
	return errors.Join(m.consumer.Close(ctx), <-m.ended)
}

// start starts all members.
func (w *waiting) start(ctx context.Context) error {
	for i, g := range w.groups {
		for n := range w.Members {
			m, err := w.join(ctx, i, fmt.Sprintf("member-%05d", n))
			if err != nil {
				return err
			}
			g.members = append(g.members, m)
		}
	}
	return nil
}

// balanced waits until the shards of each group are.
func (w *waiting) balanced(ctx context.Context) error {
	for _, g := range w.groups {
		if _, err := g.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (g *waitingGroup) await(ctx context.Context) (httpload.Tally, error) {
	ctx, done := context.WithTimeoutCause(ctx, balanceTimeout, fmt.Errorf("the shards of %s are not balanced after %s", g.name, balanceTimeout))
	defer done()
	return g.watch.Await(ctx)
}

// visits lets one more member of each group come and go until the time is over, and
// once at least.
func (w *waiting) visits(outer context.Context) error {
	ctx, done := context.WithTimeout(outer, w.Duration)
	defer done()
	errs := make([]error, len(w.groups))
	var visiting sync.WaitGroup
	for i, g := range w.groups {
		visiting.Go(func() {
			for n := 0; errs[i] == nil && (pause(ctx, visitPause) || n == 0 && outer.Err() == nil); n++ {
				errs[i] = w.visit(context.WithoutCancel(ctx), i, g, n)
			}
		})
	}
	visiting.Wait()
	return errors.Join(errs...)
}

// pause reports false if ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (w *waiting) visit(ctx context.Context, group int, g *waitingGroup, n int) error {
	g.watch.Want(w.Members + 1)
	began := time.Now()
	m, err := w.join(ctx, group, fmt.Sprintf("visitor-%05d", n))
	if err != nil {
		return err
	}
	t, err := g.await(ctx)
	if err != nil {
		return errors.Join(err, m.leave(ctx))
	}
	g.joins.Record(t.Balanced.Sub(began))
	g.moved += t.Assigned
	pause(ctx, visitPause)
	g.watch.Want(w.Members)
	began = time.Now()
	if err := m.leave(ctx); err != nil {
		return err
	}
	if t, err = g.await(ctx); err != nil {
		return err
	}
	g.leaves.Record(t.Balanced.Sub(began))
	g.moved += t.Assigned
	return nil
}

// end stops all members, at the same time.
func (w *waiting) end(ctx context.Context) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer done()
	var mu sync.Mutex
	var errs []error
	var ending sync.WaitGroup
	for _, g := range w.groups {
		for _, m := range g.members {
			ending.Go(func() {
				err := m.leave(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err != nil && len(errs) < 3 { // all say the same
					errs = append(errs, err)
				}
			})
		}
	}
	ending.Wait()
	return errors.Join(errs...)
}
