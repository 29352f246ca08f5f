package sim

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// store is the model of a metadata store: the aggregate, the stream record and
// the stamps are separate objects, which a failover can lose separately.
type store struct {
	w        *world
	instance int
	// groups are the aggregates, in the order of the shape's groups.
	groups    []*aggregate
	awayUntil time.Duration
	// stream is the stream's record, with a revision of its own.
	stream         stream.State
	streamRevision int64
	// past holds earlier contents, for failovers.
	past []snapshot
}

// aggregate is the record of one group with the stamps beside it; without a revision
// there is none.
type aggregate struct {
	revision int64
	nonce    string
	body     []byte
	stamps   map[string]string
}

type snapshot struct {
	at     time.Duration
	groups []aggregate

	stream         stream.State
	streamRevision int64
}

// pastLimit bounds how many earlier contents are kept.
const pastLimit = 64

func newStore(w *world) *store {
	s := &store{w: w, instance: 1}
	for range w.groups {
		s.groups = append(s.groups, &aggregate{stamps: map[string]string{}})
	}
	made, _, _, err := stream.Apply(stream.State{}, stream.Input{Now: wallStart}, stream.Create{
		Prefix: "s", ShardCount: w.shape.Shards, AutoCreateGroups: true, RoutingLease: w.shape.RoutingLease, GroupStart: w.shape.start(),
	})
	if err != nil {
		w.violate("the stream cannot be made: %v", err)
	}
	s.stream, s.streamRevision = made, 1
	s.remember()
	return s
}

func (s *store) remember() {
	if s.w.shape.Failover == 0 {
		return
	}
	now := snapshot{at: s.w.now, stream: s.stream, streamRevision: s.streamRevision}
	for _, g := range s.groups {
		kept := *g
		kept.stamps = maps.Clone(g.stamps)
		now.groups = append(now.groups, kept)
	}
	s.past = append(s.past, now)
	if len(s.past) > 2*pastLimit {
		s.past = append(s.past[:0], s.past[len(s.past)-pastLimit:]...)
	}
}

// group returns the record of a group.
func (s *store) group(name string) *aggregate { return s.groups[slices.Index(s.w.groups, name)] }

func (s *store) away() bool { return s.w.now < s.awayUntil }

func (s *store) instanceName() string { return fmt.Sprintf("i%d", s.instance) }

func (s *store) version(g *aggregate) engine.Version {
	return engine.Version{Instance: s.instanceName(), Revision: g.revision, Nonce: g.nonce}
}

var errAway = errors.New("the store is away")

func (s *store) load(group string, l engine.Load) engine.Loaded {
	if s.away() {
		return engine.Loaded{Err: errAway}
	}
	g := s.group(group)
	v := s.version(g)
	if g.revision == 0 {
		return engine.Loaded{Version: engine.Version{Instance: v.Instance}}
	}
	r := engine.Loaded{Version: v, Body: g.body, Stamps: maps.Clone(g.stamps)}
	if v == l.Known {
		r.Body = nil
	}
	return r
}

// unconditional is the revision with which an engine whose renewals compare
// nothing asks for them.
const unconditional = -1

func (s *store) renew(group string, r engine.Renew) engine.Renewed {
	g := s.group(group)
	switch {
	case s.away():
		return engine.Renewed{Outcome: engine.Unknown, Err: errAway}
	case r.Expected != s.version(g) && r.Expected.Revision != unconditional:
		return engine.Renewed{Outcome: engine.Conflict}
	}
	for _, x := range r.Stamps {
		g.stamps[x.Life] = x.Value
	}
	s.w.counts.Renewals++
	s.remember()
	return engine.Renewed{Outcome: engine.Done}
}

func (s *store) save(name string, r engine.Save) engine.Saved {
	g := s.group(name)
	switch {
	case s.away():
		return engine.Saved{Outcome: engine.Unknown, Err: errAway}
	case r.Expected != s.version(g):
		s.w.counts.Conflicts++
		return engine.Saved{Outcome: engine.Conflict}
	}
	for _, x := range r.Relied {
		if g.stamps[x.Life] != x.Value {
			s.w.counts.Conflicts++
			return engine.Saved{Outcome: engine.Conflict}
		}
	}
	for _, x := range r.Stamps {
		g.stamps[x.Life] = x.Value
	}
	for _, life := range r.Ended {
		delete(g.stamps, life)
	}
	s.written(name, g, r.Nonce, r.Body)
	return engine.Saved{Outcome: engine.Done, Version: s.version(g)}
}

// written is what every save of an aggregate comes to.
func (s *store) written(name string, g *aggregate, nonce string, body []byte) {
	g.revision++
	g.nonce, g.body = nonce, body
	s.w.counts.Saves++
	s.remember()
	s.w.signal(name, engine.Changed{Revision: g.revision, Nonce: nonce})
	state, err := group.Decode(body)
	if err != nil {
		s.w.violate("what was saved cannot be read: %v", err)
		return
	}
	s.w.watch.group(name).committed(s.w, &state)
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
	if old.streamRevision > 0 && (which == 4 || s.w.streams != nil && s.w.rng.IntN(2) == 0) {
		s.stream, s.streamRevision = old.stream, old.streamRevision
	}
	for i, g := range s.groups {
		before := &old.groups[i]
		if which != 0 && before.revision > 0 {
			g.revision, g.nonce, g.body = before.revision, before.nonce, before.body
		}
		if which != 1 {
			g.stamps = maps.Clone(before.stamps)
		}
	}
	s.w.logf("failover to instance %d, the last %s are lost (%d), revision %d", s.instance, lag.Truncate(time.Millisecond), which, s.groups[0].revision)
	s.past = s.past[:0]
	s.remember()
	if s.w.streams != nil {
		s.w.streams.books.last = s.stream
	}
}

// loseStamps lets some stamps vanish, without another instance.
func (s *store) loseStamps() {
	for _, g := range s.groups {
		g.stamps = map[string]string{}
	}
	s.w.watch.failedOver = s.w.now
	s.w.logf("all stamps are lost")
	s.remember()
}

// retime lets an operator change the lease time.
func (s *store) retime() {
	s.operate(func(g *group.State) group.Command {
		t := g.Timings
		t.Lease = time.Duration(3+s.w.rng.IntN(7)) * time.Second
		s.w.logf("the lease time is to be %s", t.Lease)
		return group.Retime{Timings: t}
	}, &s.w.counts.Retimes)
}

// drain lets an operator take a member out of work, or put it back.
func (s *store) drain() {
	s.operate(func(g *group.State) group.Command {
		if len(g.Lives) == 0 {
			return group.Batch{}
		}
		l := &g.Lives[s.w.rng.IntN(len(g.Lives))]
		s.w.logf("an operator drains %s, undo %v", l.Member, l.Draining)
		return group.Drain{Member: l.Member, Undo: l.Draining}
	}, &s.w.counts.Drains)
}

// endDrains puts everybody back to work.
func (s *store) endDrains() {
	s.operate(func(g *group.State) group.Command {
		var all group.Batch
		for i := range g.Lives {
			all = append(all, group.Drain{Member: g.Lives[i].Member, Undo: true})
		}
		return all
	}, nil)
}

// operate applies an operator's command to the first group, past the coordinators, and
// counts it if it changed anything.
func (s *store) operate(command func(*group.State) group.Command, count *int) {
	name := s.w.groups[0]
	record := s.group(name)
	if record.revision == 0 {
		return
	}
	g, err := group.Decode(record.body)
	if err != nil {
		s.w.violate("the state cannot be read: %v", err)
		return
	}
	next, r, _, err := group.Apply(g, group.Input{Now: wallStart.Add(s.w.now), ID: s.w.id("t"), Rules: s.w.rules}, g.LoadedFrom(s.instanceName(), command(&g)))
	if err != nil {
		s.w.violate("an operator's command cannot be applied: %v", err)
		return
	}
	if !r.Changed {
		return
	}
	if count != nil {
		*count++
	}
	nonce := s.w.id("t")
	next.Saving(group.Save{Revision: record.revision + 1, Nonce: nonce}, s.instanceName())
	body, err := group.Encode(&next)
	if err != nil {
		s.w.violate("the state cannot be written: %v", err)
		return
	}
	s.w.counts.Saves-- // It is counted as an operator's command.
	s.written(name, record, nonce, body)
}

// recreate lets an operator delete the group by force, members and all, and
// create it again at once.
func (s *store) recreate() {
	name := s.w.groups[0]
	if g, there := s.stream.Group(name); s.away() || !there || g.Phase != stream.GroupLive || s.group(name).revision == 0 {
		return
	}
	s.w.logf("the group is deleted by force and created again")
	s.w.counts.GroupsDeleted++
	s.w.watch.failedOver = s.w.now
	for _, cmd := range []stream.Command{
		stream.DeleteGroup{Name: name, Force: true}, stream.GroupDeleted{Name: name, Held: true}, stream.EnsureGroup{Name: name},
	} {
		if _, err := s.changeStream(s.streamRevision, cmd); err != nil {
			s.w.violate("the group cannot be deleted and created again: %v", err)
		}
	}
	*s.group(name) = aggregate{stamps: map[string]string{}}
	s.remember()
}

// errLost: the stream lists a group whose aggregate is gone.
var errLost = protocol.ErrCorrupt
