package producer

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxRedirections bounds how often one message follows MOVED or ASK. A slot
	// that moves costs one or two.
	maxRedirections = 8
	// firstPause and lastPause bound the growing pause before a message is sent again.
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	// maxLanes bounds the nodes of a cluster that one batch sends to at a time.
	maxLanes = 32
)

// batch carries the messages of one call through. It works in passes: route what
// is waiting, send it on one lane per node, look at what came of it, and decide
// with everything in view what is sent again. A lane stops at the first part in
// which anything failed, so that nothing overtakes a message which is to be sent
// again.
type batch struct {
	p       *Producer
	waiting []*entry // in the order of the call
	// redirects says which node to ask for a shard from the next pass on. ASK is
	// kept like MOVED: should the move be given up, that node answers MOVED.
	redirects map[string]redirect
	// broken holds, for each unit of which a message has failed, the first that did.
	broken map[unit]*entry
	// stuckSince is when the first attempt failed since anything was stored, zero
	// if none did; pause is how long to wait before the next one.
	stuckSince time.Time
	pause      time.Duration
}

type redirect struct {
	addr string
	ask  bool
}

func newBatch(ctx context.Context, p *Producer, entries []entry) *batch {
	now := time.Now()
	b := &batch{p: p, waiting: make([]*entry, 0, len(entries)), pause: firstPause}
	for i := range entries {
		e := &entries[i]
		e.index = i
		e.queued = now
		p.prepare(ctx, e)
		if err := e.msg.check(&p.cfg, e.size); err != nil {
			b.fail(e, err)
			continue
		}
		b.waiting = append(b.waiting, e)
	}
	return b
}

// run returns when every message is stored or has failed for good.
func (b *batch) run(ctx context.Context) {
	for {
		if b.dropBroken(); len(b.waiting) == 0 {
			return
		}
		if ctx.Err() != nil {
			b.giveUp(context.Cause(ctx))
			return
		}
		s, err := b.p.router.acquire(ctx, b.p.closing)
		if err != nil {
			b.failAll(err)
			return
		}
		b.route(s)
		b.send(ctx, s)
		b.settle(ctx)
	}
}

// fail ends e with err, and with it the chain of its unit.
func (b *batch) fail(e *entry, err *PublishError) {
	e.fail(err)
	if b.broken == nil {
		b.broken = make(map[unit]*entry)
	}
	if first := b.broken[e.unit]; first == nil || e.index < first.index {
		b.broken[e.unit] = e
	}
}

// behind returns the error of the failed message that e stands behind, nil if
// there is none.
func (b *batch) behind(e *entry) *PublishError {
	if first := b.broken[e.unit]; first != nil && first.index < e.index {
		return first.err
	}
	return nil
}

func (b *batch) failAll(err *PublishError) {
	for _, e := range b.waiting {
		b.fail(e, err)
	}
	b.waiting = nil
}

// giveUp fails everything because of reason: with what the last attempt came to
// where there was one, since that is what the caller can do something about.
func (b *batch) giveUp(reason error) {
	for _, e := range b.waiting {
		if err := e.verdict.err; err != nil {
			b.fail(e, err.because(errors.Join(reason, err.Err)))
			continue
		}
		b.fail(e, ErrCanceled.because(reason))
	}
	b.waiting = nil
}

// dropBroken fails what waits behind a message that has failed.
func (b *batch) dropBroken() {
	if len(b.broken) == 0 {
		return
	}
	b.keep(func(e *entry) bool {
		cause := b.behind(e)
		if cause != nil {
			b.fail(e, ErrEarlierFailed.because(cause))
		}
		return cause == nil
	})
}

// keep filters waiting in place.
func (b *batch) keep(wanted func(*entry) bool) {
	kept := b.waiting[:0]
	for _, e := range b.waiting {
		if wanted(e) {
			kept = append(kept, e)
		}
	}
	clear(b.waiting[len(kept):])
	b.waiting = kept
}

// route chooses the shard of every waiting message by s.
func (b *batch) route(s *snapshot) {
	failed := false
	for _, e := range b.waiting {
		shard, err := b.p.router.shardOf(s, e.msg)
		if err != nil {
			b.fail(e, err)
			failed = true
			continue
		}
		e.shard, e.key, e.version = shard, s.keys[shard], s.version
		e.verdict = verdict{}
	}
	if failed {
		b.keep(func(e *entry) bool { return e.err == nil })
	}
}

// send runs one pass.
func (b *batch) send(ctx context.Context, s *snapshot) {
	lanes := b.lanes(ctx)
	if len(lanes) == 1 {
		lanes[0].run(ctx, s)
		return
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, maxLanes)
	for _, l := range lanes {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			l.run(ctx, s)
		})
	}
	running.Wait()
}

// lanes groups what is waiting by the node that it goes to, in order.
func (b *batch) lanes(ctx context.Context) []*lane {
	if n := b.p.nodes; n.single != nil {
		return []*lane{{p: b.p, client: n.single, entries: b.waiting, probe: !b.stuckSince.IsZero()}}
	}
	type target struct {
		client *redis.Client
		ask    bool
	}
	var lanes []*lane
	byTarget := make(map[target]*lane)
	byKey := make(map[string]*lane)
	for _, e := range b.waiting {
		l, ok := byKey[e.key]
		if !ok {
			l = b.laneFor(ctx, e.key)
			to := target{l.client, l.ask}
			if same := byTarget[to]; same != nil && l.err == nil {
				l.close()
				l = same
			} else {
				byTarget[to] = l
				lanes = append(lanes, l)
			}
			byKey[e.key] = l
		}
		l.entries = append(l.entries, e)
	}
	return lanes
}

// laneFor returns a lane to the node that holds key.
func (b *batch) laneFor(ctx context.Context, key string) *lane {
	l := &lane{p: b.p, probe: !b.stuckSince.IsZero()}
	to, redirected := b.redirects[key]
	if !redirected {
		l.client, l.err = b.p.nodes.forKey(ctx, key)
		return l
	}
	l.ask = to.ask
	l.client, l.release, l.err = b.p.nodes.forRedirect(ctx, to.addr)
	return l
}

// settle takes the outcomes of a pass, and waits where waiting helps.
func (b *batch) settle(ctx context.Context) {
	findOvertaken(b.waiting)
	var again, stale, progress bool
	b.keep(func(e *entry) bool {
		v := &e.verdict
		switch cause := b.behind(e); {
		case v.kind == stored:
			progress = true
			return false
		case v.kind == refused, v.kind == uncertain && !b.p.cfg.RetryUncertain:
			b.fail(e, v.err)
			return false
		case cause != nil:
			b.fail(e, ErrEarlierFailed.because(cause))
			return false
		}
		switch v.kind {
		case passing, uncertain:
			// The node that a redirect named may be the one that is in trouble.
			delete(b.redirects, e.key)
			again = true
		case redirected:
			return b.redirect(ctx, e)
		case missing:
			if e.rerouted {
				b.fail(e, missingError(e, nil))
				return false
			}
			stale = true
		default:
		}
		return true
	})
	if progress {
		b.stuckSince, b.pause = time.Time{}, firstPause
	}
	if stale {
		b.reroute(ctx)
	}
	if again {
		b.rest(ctx)
	}
}

// findOvertaken looks for messages that were refused while a later one of their
// unit was stored. Only a server that changed its mind within a pipeline can do
// that. Sending them again would put them behind.
func findOvertaken(entries []*entry) {
	failed := slices.ContainsFunc(entries, func(e *entry) bool {
		return e.verdict.kind != stored && e.verdict.kind != unsent
	})
	if !failed || len(entries) == 1 {
		return
	}
	later := make(map[unit]struct{})
	for _, e := range slices.Backward(entries) {
		switch e.verdict.kind {
		case stored:
			later[e.unit] = struct{}{}
		case missing, redirected, passing, refused:
			if _, overtaken := later[e.unit]; overtaken {
				e.verdict = verdict{kind: refused, err: ErrOvertaken.because(e.verdict.err)}
			}
		default:
		}
	}
}

// redirect sends the messages of e's shard to another node in the next pass. It
// reports false when e has failed instead.
func (b *batch) redirect(ctx context.Context, e *entry) bool {
	if err := b.p.follow(ctx, e); err != nil {
		b.fail(e, err)
		return false
	}
	if b.redirects == nil {
		b.redirects = make(map[string]redirect)
	}
	b.redirects[e.key] = redirect{addr: e.verdict.addr, ask: e.verdict.ask}
	return true
}

// follow returns nil when e is to be sent where its redirect points to.
func (p *Producer) follow(ctx context.Context, e *entry) *PublishError {
	if p.nodes.cluster == nil {
		return e.verdict.err.with("Redis is a Cluster and the producer was told of one server: set Redis.IsClusterMode, or name several Addrs")
	}
	if e.redirections++; e.redirections > maxRedirections {
		return e.verdict.err.with("the nodes of the Redis Cluster do not agree where the shard is: sent on %d times", maxRedirections)
	}
	if !e.verdict.ask {
		p.nodes.moved(ctx)
	}
	return nil
}

// reroute asks for the routing again because keys were missing: the stream may
// have fewer shards by now. A message for which that changes nothing fails.
func (b *batch) reroute(ctx context.Context) {
	fresh, asked, err := b.p.router.refresh(ctx, b.p.closing, b.elsewhere)
	if !asked {
		return
	}
	b.keep(func(e *entry) bool {
		if e.verdict.kind != missing {
			return true
		}
		e.rerouted = true
		if err != nil {
			b.fail(e, missingError(e, err))
			return false
		}
		shard, unroutable := fresh.shardOf(e.msg)
		if unroutable == nil && fresh.keys[shard] == e.key {
			b.fail(e, missingError(e, nil))
			return false
		}
		return true
	})
}

// elsewhere reports whether s leads all messages that found no key to another one. If it
// came while they were under way, nobody has to be asked: the next pass goes by it.
func (b *batch) elsewhere(s *snapshot) bool {
	return !slices.ContainsFunc(b.waiting, func(e *entry) bool {
		if e.verdict.kind != missing {
			return false
		}
		shard, err := s.shardOf(e.msg)
		return err == nil && s.keys[shard] == e.key
	})
}

// missingError names the key, and why the routing could not be asked for again.
func missingError(e *entry, refresh error) *PublishError {
	if refresh == nil {
		return ErrShardMissing
	}
	return ErrShardMissing.with("key %s does not exist in Redis, and the routing could not be refreshed to learn whether the shard was given up", e.key).because(refresh)
}

// rest waits before what failed for a passing reason is sent again, or fails it
// when the time for that is over.
func (b *batch) rest(ctx context.Context) {
	if b.stuckSince.IsZero() {
		b.stuckSince = time.Now()
	}
	pause := b.pause/2 + rand.N(b.pause/2)
	b.pause = min(2*b.pause, lastPause)
	var reason error
	if time.Since(b.stuckSince)+pause <= b.p.cfg.RetryFor {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			reason = context.Cause(ctx)
		case <-b.p.closing:
			reason = ErrClosed
		}
	}
	b.keep(func(e *entry) bool {
		if e.verdict.kind != passing && e.verdict.kind != uncertain {
			return true
		}
		err := e.verdict.err
		if reason != nil {
			err = err.because(errors.Join(reason, err.Err))
		}
		b.fail(e, err)
		return false
	})
}
