package producer

import (
	"context"
)

// reroute has the tracks made anew: because there are none yet, because the lease
// is over, or because the stream has another number of shards. Until that is done
// no pipeline begins, and what is taken waits.
func (s *sender) reroute() {
	if s.rerouting {
		return
	}
	s.rerouting = true
	s.spawn(s.remake)
}

func (s *sender) remake(ctx context.Context) {
	s.mu.Lock()
	for s.underWay > 0 {
		s.quiet.Wait()
	}
	s.mu.Unlock()

	wait, cancel := context.WithTimeout(ctx, max(s.p.cfg.RetryFor, routingTimeout))
	snap, err := s.p.router.acquire(wait, nil)
	cancel()

	s.mu.Lock()
	var over []*entry
	switch {
	case err != nil:
		over = s.failAll(err)
	case s.snap == nil || len(snap.keys) != len(s.snap.keys):
		over = s.renewTracks(snap)
	default:
		s.snap = snap
	}
	s.rerouting = false
	unrouted := s.unrouted
	s.unrouted = nil
	for _, e := range unrouted {
		s.replace(e, &over)
	}
	for _, t := range s.tracks {
		s.poke(t)
	}
	for _, l := range s.links {
		s.dispatch(l)
	}
	s.mu.Unlock()
	s.complete(over)
}

// failAll takes everything that is buffered and fails it with err. No pipeline is
// under way.
func (s *sender) failAll(err *PublishError) []*entry {
	over := s.unrouted
	s.unrouted = nil
	for _, t := range s.tracks {
		over = append(over, t.waiting()...)
		t.drop(func(*entry) bool { return true })
		// Or a courier would come for what is not there, find the lease over and have
		// this done again, without end.
		t.ready = false
	}
	for _, l := range s.links {
		l.ready = nil
	}
	for _, e := range over {
		s.chains.fail(e, err)
	}
	return over
}

// renewTracks makes the tracks of snap and puts into them what was in the old
// ones. It returns what cannot go there.
func (s *sender) renewTracks(snap *snapshot) []*entry {
	old := s.tracks
	s.snap = snap
	s.tracks = make([]*track, len(snap.keys))
	for i, key := range snap.keys {
		s.tracks[i] = &track{shard: i, key: key}
	}
	var over []*entry
	// A unit is in one of the old tracks, so going through them one by one keeps
	// its order.
	for _, t := range old {
		t.gone = true
		s.wake(t)
		if t.link != nil {
			t.link.ready = nil
			s.detach(t)
		}
		for _, e := range t.queue {
			s.replace(e, &over)
		}
		t.queue = nil
	}
	return over
}

// replace puts e behind what is in its track under the new routing, or into over.
func (s *sender) replace(e *entry, over *[]*entry) {
	err := s.chains.behind(e)
	var t *track
	if err == nil {
		t, err = s.trackOf(e)
	}
	if err == nil && e.verdict.kind == missing && t.key == e.key {
		err = missingError(e, nil)
	}
	if err != nil {
		s.chains.fail(e, err)
		*over = append(*over, e)
		return
	}
	t.queue = append(t.queue, e)
}

// lose has the routing asked for again because the key of t does not exist: the
// stream may have fewer shards by now. The other tracks go on meanwhile.
func (s *sender) lose(t *track) {
	t.lost = true
	s.lost = append(s.lost, t)
	if !s.refreshing {
		s.refreshing = true
		s.spawn(s.findLost)
	}
}

func (s *sender) findLost(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.lost) > 0 {
		tracks := s.lost
		s.lost = nil
		before := len(s.snap.keys)
		s.mu.Unlock()
		_, asked, err := s.p.router.refresh(ctx, nil, func(now *snapshot) bool { return len(now.keys) != before })
		s.mu.Lock()
		if err == nil && !s.rerouting {
			s.adopt()
		}
		var over []*entry
		for _, t := range tracks {
			s.found(t, asked, err, &over)
		}
		s.sweep(&over)
		s.mu.Unlock()
		s.complete(over)
		s.mu.Lock()
		for _, t := range tracks {
			t.lost = false
			s.poke(t)
		}
	}
	s.refreshing = false
}

// found decides what becomes of the messages that found no key, now that there is
// another routing, or that it was asked for again, or could not be because of err.
func (s *sender) found(t *track, asked bool, err error, over *[]*entry) {
	if t.gone {
		return // its messages have found their place already
	}
	t.drop(func(e *entry) bool {
		why := s.chains.behind(e)
		switch {
		case why != nil:
		case e.verdict.kind != missing:
			return false
		case err == nil && (s.rerouting || !asked):
			e.rerouted = e.rerouted || asked // the new tracks decide
			return false
		default:
			why = missingError(e, err)
		}
		s.chains.fail(e, why)
		*over = append(*over, e)
		return true
	})
}
