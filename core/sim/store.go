package sim

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
)

// store is the model of a metadata store: the aggregate and the stamps are
// separate objects, which a failover can lose separately.
type store struct {
	w         *world
	instance  int
	revision  int64
	nonce     string
	body      []byte
	stamps    map[string]string
	awayUntil time.Duration
	// past holds earlier contents, for failovers.
	past []snapshot
}

type snapshot struct {
	at       time.Duration
	revision int64
	nonce    string
	body     []byte
	stamps   map[string]string
}

// pastLimit bounds how many earlier contents are kept.
const pastLimit = 64

func newStore(w *world) *store {
	s := &store{w: w, instance: 1, stamps: map[string]string{}}
	g := group.New("s", "g", w.shape.Shards, 1, w.shape.Timings, wallStart)
	g.Saving(group.Save{Revision: 1, Nonce: "first"}, s.version().Instance)
	body, err := group.Encode(&g)
	if err != nil {
		w.violate("the first state cannot be written: %v", err)
	}
	s.revision, s.nonce, s.body = 1, "first", body
	s.remember()
	w.watch.committed(w, &g)
	return s
}

func (s *store) remember() {
	s.past = append(s.past, snapshot{s.w.now, s.revision, s.nonce, s.body, maps.Clone(s.stamps)})
	if len(s.past) > 2*pastLimit {
		s.past = append(s.past[:0], s.past[len(s.past)-pastLimit:]...)
	}
}

func (s *store) away() bool { return s.w.now < s.awayUntil }

func (s *store) version() engine.Version {
	return engine.Version{Instance: fmt.Sprintf("i%d", s.instance), Revision: s.revision, Nonce: s.nonce}
}

var errAway = errors.New("the store is away")

func (s *store) load(l engine.Load) engine.Loaded {
	if s.away() {
		return engine.Loaded{Err: errAway}
	}
	v := s.version()
	r := engine.Loaded{Version: v, Body: s.body, Stamps: maps.Clone(s.stamps)}
	if v == l.Known {
		r.Body = nil
	}
	return r
}

// unconditional is the revision with which an engine whose renewals compare
// nothing asks for them.
const unconditional = -1

func (s *store) renew(r engine.Renew) engine.Renewed {
	switch {
	case s.away():
		return engine.Renewed{Outcome: engine.Unknown, Err: errAway}
	case r.Expected != s.version() && r.Expected.Revision != unconditional:
		return engine.Renewed{Outcome: engine.Conflict}
	}
	for _, x := range r.Stamps {
		s.stamps[x.Life] = x.Value
	}
	s.w.counts.Renewals++
	s.remember()
	return engine.Renewed{Outcome: engine.Done}
}

func (s *store) save(r engine.Save) engine.Saved {
	switch {
	case s.away():
		return engine.Saved{Outcome: engine.Unknown, Err: errAway}
	case r.Expected != s.version():
		s.w.counts.Conflicts++
		return engine.Saved{Outcome: engine.Conflict}
	}
	for _, x := range r.Relied {
		if s.stamps[x.Life] != x.Value {
			s.w.counts.Conflicts++
			return engine.Saved{Outcome: engine.Conflict}
		}
	}
	s.revision++
	s.nonce, s.body = r.Nonce, r.Body
	for _, x := range r.Stamps {
		s.stamps[x.Life] = x.Value
	}
	for _, life := range r.Ended {
		delete(s.stamps, life)
	}
	s.w.counts.Saves++
	s.remember()
	g, err := group.Decode(r.Body)
	if err != nil {
		s.w.violate("what was saved cannot be read: %v", err)
		return engine.Saved{Outcome: engine.Done, Version: s.version()}
	}
	s.w.watch.committed(s.w, &g)
	return engine.Saved{Outcome: engine.Done, Version: s.version()}
}

// failover lets another instance answer, which has not seen the last writes of
// the aggregate, of the stamps, or of both.
func (s *store) failover() {
	s.instance++
	s.w.counts.Failovers++
	s.w.watch.failedOver = s.w.now
	lag := s.w.between(0, s.w.shape.Timings.HeartbeatInterval)
	old := s.past[0]
	for _, p := range s.past {
		if p.at <= s.w.now-lag {
			old = p
		}
	}
	which := s.w.rng.IntN(4)
	if which != 0 {
		s.revision, s.nonce, s.body = old.revision, old.nonce, old.body
	}
	if which != 1 {
		s.stamps = maps.Clone(old.stamps)
	}
	s.w.logf("failover to instance %d, the last %s are lost (%d), revision %d", s.instance, lag.Truncate(time.Millisecond), which, s.revision)
	s.past = s.past[:0]
	s.remember()
}

// loseStamps lets some stamps vanish, without another instance.
func (s *store) loseStamps() {
	s.stamps = map[string]string{}
	s.w.watch.failedOver = s.w.now
	s.w.logf("all stamps are lost")
	s.remember()
}

// retime lets an operator change the lease time.
func (s *store) retime() {
	g, err := group.Decode(s.body)
	if err != nil {
		s.w.violate("the state cannot be read: %v", err)
		return
	}
	t := g.Timings
	t.Lease = time.Duration(3+s.w.rng.IntN(7)) * time.Second
	next, r, _, err := group.Apply(g, group.Input{Now: wallStart.Add(s.w.now), ID: s.w.id("t"), Rules: s.w.rules}, group.Retime{Timings: t})
	if err != nil {
		s.w.violate("the timings cannot be changed: %v", err)
		return
	}
	if !r.Changed {
		return
	}
	s.w.counts.Retimes++
	s.w.logf("the lease time is now %s", t.Lease)
	s.revision++
	s.nonce = s.w.id("t")
	next.Saving(group.Save{Revision: s.revision, Nonce: s.nonce}, s.version().Instance)
	if s.body, err = group.Encode(&next); err != nil {
		s.w.violate("the state cannot be written: %v", err)
		return
	}
	s.remember()
	s.w.watch.committed(s.w, &next)
}
