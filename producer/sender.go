package producer

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// couriersPerLink bounds the pipelines under way to one node: while one is
	// answered the next is written.
	couriersPerLink = 2
	// redirectTrust is how long a redirect is followed before the client's map of
	// the cluster is asked again.
	redirectTrust = time.Second
)

// sender is the asynchronous half of a producer. A message is put into the track
// of its shard. A courier of the node that holds the shard takes what is ready on
// all tracks that lead there, sends it as one pipeline, and settles what came of
// it; a track is with one courier at a time. What gathers meanwhile is the next
// pipeline: nothing waits while its way is free, and the busier it gets, the
// more travels together.
type sender struct {
	p    *Producer
	room *room
	// spawn runs work on a goroutine that stop waits for. It is called with mu held.
	spawn  func(work func(ctx context.Context))
	cancel context.CancelCauseFunc
	work   sync.WaitGroup

	mu sync.Mutex
	// shut: no message is taken any more. stopped: none is sent any more either.
	shut, stopped bool
	// snap is the routing that the tracks belong to, nil before the first.
	snap   *snapshot
	tracks []*track
	links  map[target]*link
	// unrouted came while the tracks are made anew, and goes behind what is in them.
	unrouted  []*entry
	rerouting bool
	underWay  int // pipelines
	quiet     sync.Cond
	// unresolved and lost are tracks that one goroutine each works off.
	unresolved            []*track
	resolving, refreshing bool
	lost                  []*track
	cohorts               cohorts
	chains                chains
	taken                 int // how many messages were
}

func newSender(p *Producer) *sender {
	s := &sender{
		p: p, links: make(map[target]*link), chains: make(chains),
		room: &room{maxMessages: p.cfg.MaxBufferedMessages, maxBytes: p.cfg.MaxBufferedBytes},
	}
	s.quiet.L = &s.mu
	s.cohorts.begin()
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	s.spawn = func(work func(context.Context)) { s.work.Go(func() { work(ctx) }) }
	return s
}

// accept takes a message for which there is room.
func (s *sender) accept(e *entry) *PublishError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return ErrClosed
	}
	e.queued = time.Now()
	e.index = s.taken
	s.taken++
	if err := s.chains.behind(e); err != nil {
		return err
	}
	if err := s.place(e); err != nil {
		return err
	}
	s.cohorts.join(e)
	return nil
}

// place puts e into the track of its shard, or among the unrouted.
func (s *sender) place(e *entry) *PublishError {
	if s.snap != nil && !s.rerouting {
		s.adopt()
	}
	if s.snap == nil || s.rerouting {
		s.reroute()
		s.unrouted = append(s.unrouted, e)
		return nil
	}
	t, err := s.trackOf(e)
	if err != nil {
		return err
	}
	t.queue = append(t.queue, e)
	s.poke(t)
	if t.link != nil {
		s.joins(t.link, e)
	}
	return nil
}

func (s *sender) trackOf(e *entry) (*track, *PublishError) {
	shard, err := s.p.router.shardOf(s.snap, e.msg)
	if err != nil {
		return nil, err
	}
	return s.tracks[shard], nil
}

// adopt takes over the routing as it is now: another lease for the same shards
// changes nothing, another number of shards makes new tracks.
func (s *sender) adopt() {
	if now := s.p.router.current.Load(); now != s.snap {
		if len(now.keys) != len(s.snap.keys) {
			s.reroute()
			return
		}
		s.snap = now
	}
}

// poke has t sent when it can be.
func (s *sender) poke(t *track) {
	if s.rerouting || s.stopped || t.blocked() {
		return
	}
	if t.link != nil && t.to.addr != "" && time.Now().After(t.toUntil) {
		t.to = redirect{}
		s.detach(t)
	}
	if t.link == nil {
		s.resolve(t)
		return
	}
	l := t.link
	t.ready = true
	l.ready = append(l.ready, t)
	s.dispatch(l)
}

// dispatch has a courier see to what is ready at l, unless enough of them do, or one
// lingers: that one takes it along.
func (s *sender) dispatch(l *link) {
	if len(l.ready) > 0 && l.couriers < couriersPerLink && l.lingering == nil {
		l.couriers++
		s.spawn(func(ctx context.Context) { s.courier(ctx, l) })
	}
}

// resolve finds out where t leads to. On one server there is nothing to find
// out; in a Cluster that may need the network.
func (s *sender) resolve(t *track) {
	if single := s.p.nodes.single; single != nil {
		s.attach(t, target{client: single}, nil)
		s.poke(t)
		return
	}
	t.resolving = true
	s.unresolved = append(s.unresolved, t)
	if !s.resolving {
		s.resolving = true
		s.spawn(s.resolveAll)
	}
}

func (s *sender) resolveAll(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unresolved) > 0 {
		t := s.unresolved[0]
		s.unresolved = s.unresolved[1:]
		to := target{ask: t.to.ask}
		var release func()
		var err error
		s.mu.Unlock()
		if t.to.addr != "" {
			to.client, release, err = s.p.nodes.forRedirect(ctx, t.to.addr)
		} else {
			to.client, err = s.p.nodes.forKey(ctx, t.key)
		}
		s.mu.Lock()
		t.resolving = false
		switch {
		case err != nil:
			var over []*entry
			v := judge(ctx, err, false)
			s.trouble(t, v.err, time.Now(), &over)
			s.sweep(&over)
			s.mu.Unlock()
			s.complete(over)
			s.mu.Lock()
		case t.gone:
			if release != nil {
				release()
			}
		default:
			s.attach(t, to, release)
			s.poke(t)
		}
	}
	s.unresolved = nil
	s.resolving = false
}

// attach leads t to a node.
func (s *sender) attach(t *track, to target, release func()) {
	l := s.links[to]
	if l == nil {
		l = &link{target: to, release: release}
		s.links[to] = l
	} else if release != nil {
		release() // the link holds the client already
	}
	l.users++
	t.link = l
}

// detach forgets where t leads to.
func (s *sender) detach(t *track) {
	l := t.link
	if l == nil {
		return
	}
	t.link = nil
	if l.users--; l.users == 0 {
		delete(s.links, l.target)
		if l.release != nil {
			l.release()
		}
	}
}

// trouble has t rest, because of err, and ends what has waited for too long into
// over. Everything that waits on t would only run into the same.
func (s *sender) trouble(t *track, err *PublishError, now time.Time, over *[]*entry) {
	if t.stuckSince.IsZero() {
		t.stuckSince, t.pause = now, firstPause
	}
	t.to = redirect{}
	s.detach(t)
	t.drop(func(e *entry) bool {
		since := e.queued
		if since.Before(t.stuckSince) {
			since = t.stuckSince
		}
		own := e.verdict.err // what its own last attempt came to, if there was one
		if own == nil {
			own = ErrRedisUnavailable.because(err)
		}
		switch behind := s.chains.behind(e); {
		case behind != nil:
			s.chains.fail(e, behind)
		case s.stopped:
			s.chains.fail(e, own.because(closedBecause(own)))
		case now.Sub(since) >= s.p.cfg.RetryFor:
			s.chains.fail(e, own)
		default:
			return false
		}
		*over = append(*over, e)
		return true
	})
	if t.gone || s.stopped || len(t.queue) == 0 {
		return
	}
	pause := t.pause/2 + rand.N(t.pause/2)
	t.pause = min(2*t.pause, lastPause)
	t.resting = true
	s.work.Add(1)
	t.timer = time.AfterFunc(pause, func() {
		defer s.work.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		t.resting, t.timer = false, nil
		s.poke(t)
	})
}

// sweep ends what waits for new tracks behind a message that has failed.
func (s *sender) sweep(over *[]*entry) {
	if len(s.chains) == 0 || len(s.unrouted) == 0 {
		return
	}
	kept := s.unrouted[:0]
	for _, e := range s.unrouted {
		if err := s.chains.behind(e); err != nil {
			s.chains.fail(e, err)
			*over = append(*over, e)
			continue
		}
		kept = append(kept, e)
	}
	clear(s.unrouted[len(kept):])
	s.unrouted = kept
}

// wake ends the rest of t.
func (s *sender) wake(t *track) {
	if t.timer != nil && t.timer.Stop() {
		s.work.Done()
		t.resting, t.timer = false, nil
	}
}

// complete makes the outcomes of entries known, which have left their tracks.
func (s *sender) complete(entries []*entry) {
	if len(entries) == 0 {
		return
	}
	bytes := 0
	for _, e := range entries {
		bytes += e.size
	}
	s.room.free(len(entries), bytes)
	for _, e := range entries {
		s.p.finished(e)
		if e.err == nil {
			e.future.finish()
		} else {
			s.mu.Lock()
			e.future.finish()
			s.chains.told(e)
			s.mu.Unlock()
		}
		e.future.call()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		s.cohorts.leave(e)
	}
}

// flush returns when everything that was taken before the call has its outcome.
func (s *sender) flush(ctx context.Context) error {
	s.mu.Lock()
	waits := s.cohorts.seal()
	s.mu.Unlock()
	for _, done := range waits {
		if err := waitFor(ctx, done); err != nil {
			return err
		}
	}
	return nil
}

// refuse lets no message in any more.
func (s *sender) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
}

// abort ends everything that is in no pipeline with ErrClosed, and returns how
// many messages that were. What is in one ends when its connection does.
func (s *sender) abort() int {
	s.mu.Lock()
	s.shut, s.stopped = true, true
	over := s.unrouted
	s.unrouted = nil
	for _, t := range s.tracks {
		s.wake(t)
		over = append(over, t.waiting()...)
		t.drop(func(*entry) bool { return true })
	}
	s.mu.Unlock()
	s.cancel(ErrClosed)
	for _, e := range over {
		if err := e.verdict.err; err != nil {
			e.fail(err.because(closedBecause(err)))
		} else {
			e.fail(ErrClosed)
		}
	}
	s.complete(over)
	return len(over)
}

// stop waits until no goroutine is left, as long as ctx allows. It comes after
// abort, or when nothing is buffered and nothing is taken any more.
func (s *sender) stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	over := make(chan struct{})
	go func() {
		s.work.Wait()
		close(over)
	}()
	if err := waitFor(ctx, over); err != nil {
		return err
	}
	s.cancel(ErrClosed)
	return nil
}
