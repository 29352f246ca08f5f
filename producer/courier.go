package producer

import (
	"context"
	"slices"
	"time"
)

// load is what a courier carries: one pipeline.
type load struct {
	entries []*entry // track by track
	parts   []part
	bytes   int
	stored  bool     // all of it: the tracks do not know yet
	kept    []*entry // of one part; used again
	over    []*entry // those with an outcome
}

// part is what one track has in a load.
type part struct {
	track *track
	n     int
}

// courier sends pipelines to l until nothing is ready there.
func (s *sender) courier(ctx context.Context, l *link) {
	var ld load
	ln := lane{p: s.p, client: l.client, ask: l.ask}
	for s.fetch(ctx, l, &ld) {
		ln.exchange(ctx, ld.entries)
		s.settle(ctx, &ld)
	}
}

// linger waits for more company while there is less than a full pipeline at l. It
// reports false when another courier does so already, which will take along what is
// ready. It is called with mu held, and lets go of it while it waits.
func (s *sender) linger(ctx context.Context, l *link) bool {
	for {
		s.gather(l)
		if l.lingering != nil {
			s.hurry(l)
			return false
		}
		if l.messages == 0 || s.full(l) {
			return true
		}
		cut := make(chan struct{})
		l.lingering = cut
		s.mu.Unlock()
		full := s.idle(ctx, cut)
		s.mu.Lock()
		if l.lingering == cut {
			l.lingering = nil
		}
		if !full {
			return true
		}
		// Another courier may have been faster to take the full pipeline.
	}
}

// idle waits as long as Linger says, and reports whether cut ended it before.
func (s *sender) idle(ctx context.Context, cut <-chan struct{}) bool {
	timer := time.NewTimer(s.p.cfg.Linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-cut:
		return true
	case <-s.p.closing:
	case <-ctx.Done():
	}
	return false
}

// gather counts what is ready at l.
func (s *sender) gather(l *link) {
	l.messages, l.bytes = 0, 0
	for _, t := range l.ready {
		for _, e := range t.queue {
			l.messages++
			l.bytes += e.size
		}
	}
}

// joins counts e, which has come to l while a courier lingers there.
func (s *sender) joins(l *link, e *entry) {
	l.messages++
	l.bytes += e.size
	s.hurry(l)
}

// hurry ends the lingering at l when there is a full pipeline.
func (s *sender) hurry(l *link) {
	if l.lingering != nil && s.full(l) {
		close(l.lingering)
		l.lingering = nil
	}
}

// full reports whether what has gathered at l fills a pipeline.
func (s *sender) full(l *link) bool {
	return l.messages >= s.p.cfg.PipelineMessages || l.bytes >= s.p.cfg.PipelineBytes
}

// fetch ends the load before and takes the next one, and reports false when
// there is none, or none for this courier: it is then gone.
func (s *sender) fetch(ctx context.Context, l *link, ld *load) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unload(ld)
	if s.p.cfg.Linger > 0 && !s.linger(ctx, l) {
		l.couriers--
		return false
	}
	s.fill(l, ld)
	if len(ld.parts) == 0 {
		l.couriers--
		return false
	}
	s.underWay++
	s.dispatch(l) // for what did not fit
	return true
}

// unload lets the tracks of a settled load go on.
func (s *sender) unload(ld *load) {
	if len(ld.parts) == 0 {
		return
	}
	s.underWay--
	if s.underWay == 0 {
		s.quiet.Broadcast()
	}
	for _, p := range ld.parts {
		t := p.track
		if ld.stored {
			t.landed(nil)
			t.stuckSince = time.Time{}
		}
		t.busy = false
		s.poke(t)
	}
	clear(ld.entries)
	clear(ld.parts)
	ld.entries, ld.parts, ld.bytes = ld.entries[:0], ld.parts[:0], 0
}

// fill takes from the tracks that are ready at l as much as one pipeline may hold.
func (s *sender) fill(l *link, ld *load) {
	if len(l.ready) == 0 || s.stopped {
		return
	}
	if s.snap != nil && !s.rerouting {
		s.adopt()
	}
	if !s.rerouting && !s.snap.valid(time.Now()) {
		s.reroute()
	}
	if s.rerouting {
		return
	}
	cfg := &s.p.cfg
	taken := 0
	for _, t := range l.ready {
		if len(ld.entries) == cfg.PipelineMessages || (taken > 0 && ld.bytes >= cfg.PipelineBytes) {
			break
		}
		taken++
		t.ready = false
		n := 0
		for _, e := range t.queue {
			if len(ld.entries) == cfg.PipelineMessages || (len(ld.entries) > 0 && ld.bytes+e.size > cfg.PipelineBytes) {
				break
			}
			e.shard, e.key, e.version, e.verdict = t.shard, t.key, s.snap.version, verdict{}
			ld.entries = append(ld.entries, e)
			ld.bytes += e.size
			if n++; !t.stuckSince.IsZero() {
				break // one alone finds out whether the trouble is over
			}
		}
		if n == 0 && len(t.queue) == 0 {
			continue // all of it has failed meanwhile
		}
		if n == 0 {
			// Its first message is too large for what is left: it goes next.
			t.ready = true
			taken--
			break
		}
		t.busy, t.underWay = true, n
		ld.parts = append(ld.parts, part{t, n})
	}
	rest := copy(l.ready, l.ready[taken:])
	clear(l.ready[rest:])
	l.ready = l.ready[:rest]
}

// settle takes the outcomes of a load.
func (s *sender) settle(ctx context.Context, ld *load) {
	over := ld.entries
	ld.stored = !slices.ContainsFunc(over, func(e *entry) bool { return e.verdict.kind != stored })
	if !ld.stored {
		over = s.settleFailures(ctx, ld)
	}
	// Outcomes are made known before the tracks go on, so that callbacks of one
	// key come in order too.
	s.complete(over)
}

func (s *sender) settleFailures(ctx context.Context, ld *load) []*entry {
	findOvertaken(ld.entries)
	s.mu.Lock()
	defer s.mu.Unlock()
	ld.over = ld.over[:0]
	entries, now := ld.entries, time.Now()
	for _, p := range ld.parts {
		s.settlePart(ctx, p.track, entries[:p.n], now, ld)
		entries = entries[p.n:]
	}
	s.sweep(&ld.over)
	return ld.over
}

// settlePart decides on each message that one track had in a pipeline, in order.
func (s *sender) settlePart(ctx context.Context, t *track, entries []*entry, now time.Time, ld *load) {
	var trouble *PublishError
	var elsewhere, lost, failed bool
	ld.kept = ld.kept[:0]
	for _, e := range entries {
		v := &e.verdict
		if v.kind == stored {
			t.stuckSince = time.Time{}
			ld.over = append(ld.over, e)
			continue
		}
		if err := s.failure(ctx, e); err != nil {
			s.chains.fail(e, err)
			failed = true
			ld.over = append(ld.over, e)
			continue
		}
		ld.kept = append(ld.kept, e)
		switch v.kind {
		case passing, uncertain:
			if trouble == nil {
				trouble = v.err
			}
		case redirected:
			t.to, t.toUntil = redirect{addr: v.addr, ask: v.ask}, now.Add(redirectTrust)
			elsewhere = true
		case missing:
			lost = true
		default:
		}
	}
	t.landed(ld.kept)
	if failed {
		t.drop(func(e *entry) bool {
			behind := s.chains.behind(e)
			if behind != nil {
				s.chains.fail(e, behind)
				ld.over = append(ld.over, e)
			}
			return behind != nil
		})
	}
	switch {
	case s.stopped, trouble != nil:
		if trouble == nil {
			trouble = ErrClosed
		}
		s.trouble(t, trouble, now, &ld.over)
	case elsewhere:
		s.detach(t)
	case lost:
		s.lose(t)
	}
}

// failure returns why e ends here, nil when it is sent again.
func (s *sender) failure(ctx context.Context, e *entry) *PublishError {
	v := &e.verdict
	if v.kind == refused || (v.kind == uncertain && !s.p.cfg.RetryUncertain) {
		return v.err
	}
	if behind := s.chains.behind(e); behind != nil {
		return behind
	}
	switch {
	case v.kind == redirected:
		return s.p.follow(ctx, e)
	case v.kind == missing && e.rerouted:
		return missingError(e, nil)
	}
	return nil
}
