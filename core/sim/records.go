package sim

import (
	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

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

// create makes the aggregate of a group that follows a layout, unless there is one. It
// grants nothing before it is confirmed.
func (s *store) create(name string, l stream.Layout, again bool) error {
	record := s.group(name)
	switch {
	case s.away():
		return errAway
	case record.revision != 0:
		return nil
	}
	now := wallStart.Add(s.w.now)
	g, _, _, err := group.Apply(group.NewUnconfirmed("s", name, s.w.shape.Timings, now), group.Input{Now: now}, adopt(l))
	if err != nil {
		return err
	}
	if again && s.w.rules.On(rules.RecreatedGroupWaits) {
		g, _, _, err = group.Apply(g, group.Input{Now: now, ID: s.w.id("c")}, group.Correct{Reason: "a group of this name was deleted"})
		if err != nil {
			return err
		}
	}
	nonce := s.w.id("g")
	g.Saving(group.Save{Revision: 1, Nonce: nonce}, s.instanceName())
	body, err := group.Encode(&g)
	if err != nil {
		return err
	}
	*record = aggregate{stamps: map[string]string{}}
	s.w.counts.GroupsCreated++
	s.w.counts.Saves-- // It is counted as a group.
	s.written(name, record, nonce, body)
	return nil
}

// confirm lets a group grant shards that waits for it.
func (s *store) confirm(name string) {
	at, state, err := s.read(name)
	if err != nil || !state.Unconfirmed() {
		return
	}
	next, _, _, err := group.Apply(state, group.Input{Now: wallStart.Add(s.w.now), ID: at.Nonce, Rules: s.w.rules}, group.Confirm{})
	if err == nil {
		_, err = s.saveGroup(name, at, next)
	}
	if err != nil {
		s.w.violate("the group cannot be confirmed: %v", err)
	}
}

// read loads a group past the engine; without a revision there is none.
func (s *store) read(name string) (engine.Version, group.State, error) {
	record := s.group(name)
	switch {
	case s.away():
		return engine.Version{}, group.State{}, errAway
	case record.revision == 0:
		return engine.Version{}, group.State{}, nil
	}
	state, err := group.Decode(record.body)
	return s.version(record), state, err
}

// saveGroup saves a group past the engine, if it is still at a version.
func (s *store) saveGroup(name string, at engine.Version, next group.State) (conflict bool, err error) {
	record := s.group(name)
	switch {
	case s.away():
		return false, errAway
	case at != s.version(record):
		return true, nil
	}
	nonce := s.w.id("x")
	next.Saving(group.Save{Revision: record.revision + 1, Nonce: nonce}, s.instanceName())
	body, err := group.Encode(&next)
	if err != nil {
		return false, err
	}
	s.written(name, record, nonce, body)
	return false, nil
}

// drop deletes a group, if it is still at a version; without a revision there is
// nothing to delete.
func (s *store) drop(name string, at engine.Version) (dropped bool, err error) {
	record := s.group(name)
	switch {
	case s.away():
		return false, errAway
	case at.Revision == 0:
		return true, nil
	case at != s.version(record):
		return false, nil
	}
	*record = aggregate{stamps: map[string]string{}}
	s.w.watch.failedOver = s.w.now
	s.w.logf("group %s is gone", name)
	s.w.signal(name, engine.Changed{})
	return true, nil
}

// streamVersion names one state of the stream's record.
type streamVersion struct {
	instance string
	revision int64
}

func (s *store) streamVersion() streamVersion {
	return streamVersion{s.instanceName(), s.streamRevision}
}

// saveStream saves the stream's record, if it is still at a version.
func (s *store) saveStream(by string, at streamVersion, next stream.State) (conflict bool, err error) {
	switch {
	case s.away():
		return false, errAway
	case at != s.streamVersion():
		return true, nil
	}
	s.stream = next
	s.streamRevision++
	s.remember()
	s.w.counts.StreamSaves++
	m := "settled"
	if open, there := next.Migrating(); there {
		m = string(open.State)
	}
	s.w.logf("%s: stream version %d: %d shards, %d read without %v, proven %v, %s", by, next.Version, next.ShardCount, next.ReadCount, next.Retired, next.Proofs, m)
	s.w.streams.books.saved(s.w, &next)
	return false, nil
}
