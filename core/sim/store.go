package sim

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// store is the model of a metadata store: the aggregate, the stream record and
// the stamps are separate objects, which a failover can lose separately.
type store struct {
	w         *world
	instance  int
	revision  int64
	nonce     string
	body      []byte
	stamps    map[string]string
	awayUntil time.Duration
	// stream is the stream's record, with a revision of its own.
	stream         stream.State
	streamRevision int64
	// past holds earlier contents, for failovers.
	past []snapshot
}

type snapshot struct {
	at       time.Duration
	revision int64
	nonce    string
	body     []byte
	stamps   map[string]string

	stream         stream.State
	streamRevision int64
}

// pastLimit bounds how many earlier contents are kept.
const pastLimit = 64

func newStore(w *world) *store {
	s := &store{w: w, instance: 1, stamps: map[string]string{}}
	made, _, _, err := stream.Apply(stream.State{}, stream.Input{Now: wallStart}, stream.Create{
		Prefix: "s", ShardCount: w.shape.Shards, AutoCreateGroups: true, RoutingLease: time.Minute, GroupStart: "earliest",
	})
	if err != nil {
		w.violate("the stream cannot be made: %v", err)
	}
	s.stream, s.streamRevision = made, 1
	s.remember()
	return s
}

func (s *store) remember() {
	s.past = append(s.past, snapshot{s.w.now, s.revision, s.nonce, s.body, maps.Clone(s.stamps), s.stream, s.streamRevision})
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
	if s.revision == 0 {
		return engine.Loaded{Version: engine.Version{Instance: v.Instance}}
	}
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
	which := s.w.rng.IntN(5)
	if old.streamRevision > 0 && which == 4 {
		s.stream, s.streamRevision = old.stream, old.streamRevision
	}
	if which != 0 && old.revision > 0 {
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
	if s.revision == 0 {
		return
	}
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

// changeStream applies a command to the stream's record as it was at a revision;
// false when it has changed since.
func (s *store) changeStream(at int64, cmd stream.Command) (bool, error) {
	switch {
	case s.away():
		return false, errAway
	case at != s.streamRevision:
		return false, nil
	}
	next, r, _, err := stream.Apply(s.stream, stream.Input{Now: wallStart.Add(s.w.now)}, cmd)
	if err != nil {
		return false, err
	}
	if r.Changed {
		s.stream = next
		s.streamRevision++
		s.remember()
	}
	return true, nil
}

// create makes the aggregate of the group, unless there is one.
func (s *store) create(again bool) error {
	switch {
	case s.away():
		return errAway
	case s.revision != 0:
		return nil
	}
	now := wallStart.Add(s.w.now)
	g := group.New("s", "g", s.stream.ShardCount, s.stream.Version, s.w.shape.Timings, now)
	if again && s.w.rules.On(rules.RecreatedGroupWaits) {
		next, _, _, err := group.Apply(g, group.Input{Now: now, ID: s.w.id("c")}, group.Correct{Reason: "a group of this name was deleted"})
		if err != nil {
			return err
		}
		g = next
	}
	nonce := s.w.id("g")
	g.Saving(group.Save{Revision: 1, Nonce: nonce}, s.version().Instance)
	body, err := group.Encode(&g)
	if err != nil {
		return err
	}
	s.revision, s.nonce, s.body = 1, nonce, body
	s.stamps = map[string]string{}
	s.remember()
	s.w.counts.GroupsCreated++
	s.w.watch.committed(s.w, &g)
	return nil
}

// recreate lets an operator delete the group by force, members and all, and
// create it again at once.
func (s *store) recreate() {
	if g, there := s.stream.Group("g"); s.away() || !there || g.Phase != stream.GroupLive || s.revision == 0 {
		return
	}
	s.w.logf("the group is deleted by force and created again")
	s.w.counts.GroupsDeleted++
	s.w.watch.failedOver = s.w.now
	for _, cmd := range []stream.Command{
		stream.DeleteGroup{Name: "g", Force: true}, stream.GroupDeleted{Name: "g", Held: true}, stream.EnsureGroup{Name: "g"},
	} {
		if _, err := s.changeStream(s.streamRevision, cmd); err != nil {
			s.w.violate("the group cannot be deleted and created again: %v", err)
		}
	}
	s.revision, s.nonce, s.body = 0, "", nil
	s.stamps = map[string]string{}
	s.remember()
}

// errLost: the stream lists a group whose aggregate is gone.
var errLost = protocol.ErrCorrupt
