package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// maxStreamAttempts bounds how often a change of a stream record is tried.
const maxStreamAttempts = 8

// loadStream reads a stream record; the zero State when there is none.
// Errors: protocol.ErrCorrupt, protocol.ErrStoreUnavailable, wrapped.
func (c *Coordinator) loadStream(ctx context.Context, prefix string) (stream.State, port.Version, error) {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	rec, err := c.ports.Store.LoadStream(ctx, prefix)
	if err != nil {
		return stream.State{}, port.Version{}, c.storeError(ctx, "load stream "+prefix, err)
	}
	c.health.storeUp(c.cfg.Logger)
	if rec.Version.Revision == 0 {
		c.remember(prefix, nil, "")
		return stream.State{}, rec.Version, nil
	}
	s, err := stream.Decode(rec.Body)
	if err != nil {
		return stream.State{}, port.Version{}, fmt.Errorf("load stream %s: %w", prefix, err)
	}
	c.remember(prefix, &s, rec.Version.Instance)
	return s, rec.Version, nil
}

// storeError gives a failed store call its code.
func (c *Coordinator) storeError(ctx context.Context, what string, err error) error {
	var told *protocol.Error
	if errors.As(err, &told) {
		return fmt.Errorf("%s: %w", what, err)
	}
	c.storeTrouble(ctx, what, err)
	return fmt.Errorf("%s: %w (%w)", what, protocol.ErrStoreUnavailable, err)
}

// changeStream applies commands to a stream record, one after the other, and saves it
// once. An error of one of them leaves the record as it is.
func (c *Coordinator) changeStream(ctx context.Context, prefix string, cmds ...stream.Command) (stream.State, error) {
	var tried string
	var told []stream.Event
	var failed error
	for attempt := range maxStreamAttempts {
		s, at, err := c.loadStream(ctx, prefix)
		if err != nil {
			return stream.State{}, err
		}
		if tried != "" && at.Nonce == tried {
			// The save whose reply was lost took place.
			c.publishStream(prefix, told)
			return s, nil
		}
		next, resp, events, err := stream.ApplyAll(s, stream.Input{Now: c.input().Now}, cmds...)
		if err != nil || !resp.Changed {
			return s, err
		}
		body, err := stream.Encode(&next)
		if err != nil {
			return s, err
		}
		tried, told = c.ports.IDs.NewID(), events
		failed = c.saveStream(ctx, prefix, port.StreamSave{Expected: at, Nonce: tried, Body: body})
		switch err := failed; {
		case err == nil:
			c.remember(prefix, &next, at.Instance)
			c.publishStream(prefix, events)
			return next, nil
		case errors.Is(err, port.ErrTooLarge):
			return s, protocol.ErrTooLarge.With("the record of stream %q is larger than the store takes", prefix)
		case ctx.Err() != nil:
			return s, fmt.Errorf("save stream %s: %w", prefix, context.Cause(ctx))
		case errors.Is(err, port.ErrConflict):
			c.conflict(purpose(cmds), attempt+1)
		}
	}
	if !errors.Is(failed, port.ErrConflict) {
		return stream.State{}, c.storeError(ctx, "save stream "+prefix, failed)
	}
	return stream.State{}, fmt.Errorf("change stream %s: %w", prefix, protocol.ErrConflict)
}

func (c *Coordinator) saveStream(ctx context.Context, prefix string, s port.StreamSave) error {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	_, err := c.ports.Store.SaveStream(ctx, prefix, s)
	return err
}

// lane is the turn to take the steps of one stream here; it lives while somebody
// has or wants it.
type lane struct {
	turn  chan struct{}
	users int
}

// enter lets one caller at a time take the steps of a stream: here, and under the
// stream's mutex.
func (c *Coordinator) enter(ctx context.Context, prefix string) (leave func(), err error) {
	c.mu.Lock()
	l, there := c.lanes[prefix]
	if !there {
		l = &lane{turn: make(chan struct{}, 1)}
		c.lanes[prefix] = l
	}
	l.users++
	c.mu.Unlock()
	forget := func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(c.lanes, prefix)
		}
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		forget()
		return nil, context.Cause(ctx)
	}
	done := func() {
		<-l.turn
		forget()
	}
	if c.ports.Mutex == nil {
		return done, nil
	}
	unlock, err := c.ports.Mutex.LockStream(ctx, prefix)
	if err != nil {
		done()
		return nil, fmt.Errorf("lock stream %s: %w", prefix, err)
	}
	return func() {
		unlock()
		done()
	}, nil
}

// removeStream deletes a stream: its shards if that is asked for, then its record.
func (c *Coordinator) removeStream(ctx context.Context, prefix string, at port.Version, step stream.DeleteStreamStep) error {
	if step.DeleteData && c.ports.Streams != nil {
		gone, err := c.removeShards(ctx, prefix, at, step.End)
		if err != nil || !gone {
			return err
		}
	}
	return c.dropStream(ctx, prefix, at)
}

// removeShards deletes the shards of a stream that is being deleted, false when that is
// over already. Another coordinator may have finished while we were slow, and somebody
// may have created the stream anew: so first the shards are looked at, then the record
// once more, and what goes is what was seen before that.
func (c *Coordinator) removeShards(ctx context.Context, prefix string, at port.Version, end int) (gone bool, err error) {
	var found []port.Shard
	if c.ports.Shards != nil {
		if found, err = c.ports.Shards.LookAt(ctx, prefix, slices.Collect(spans.Set{{End: end}}.All())); err != nil {
			return false, fmt.Errorf("look at the shards of stream %s: %w", prefix, err)
		}
	}
	if _, now, err := c.loadStream(ctx, prefix); err != nil || now != at {
		return false, err
	}
	if c.ports.Shards == nil {
		return true, c.ports.Streams.Remove(ctx, prefix, 0, end)
	}
	ask := port.Retirement{Prefix: prefix}
	for _, sh := range found {
		if sh.Exists {
			ask.Shards = append(ask.Shards, port.RetireShard{Index: sh.Index, LastID: sh.LastID, Force: true})
		}
	}
	outcomes, err := c.ports.Shards.Retire(ctx, ask)
	if err != nil {
		return false, fmt.Errorf("remove the shards of stream %s: %w", prefix, err)
	}
	if slices.ContainsFunc(outcomes, func(o port.RetireOutcome) bool { return o != port.ShardGone }) {
		return false, protocol.ErrConflict.With("stream %q is written to while it is deleted: stop its producers; it is tried again", prefix)
	}
	return true, nil
}

func (c *Coordinator) createAggregate(ctx context.Context, s *stream.State, step stream.CreateGroupStep) error {
	name := step.Name
	key := port.GroupKey{Stream: s.Prefix, Group: name}
	rec, err := c.loadGroup(ctx, key)
	switch {
	case err != nil:
		return err
	case rec.Version.Revision != 0:
		return c.confirmGroup(ctx, key)
	}
	// Now, and not at the last tick: the store may have been emptied since.
	if err := c.watchIdentity(ctx); err != nil {
		return err
	}
	now := c.input().Now
	state, _, _, err := group.Apply(group.NewUnconfirmed(s.Prefix, name, c.cfg.Timings, now), group.Input{Now: now}, adopt(s.Layout()))
	if err != nil {
		return fmt.Errorf("group %s: %w", key, err)
	}
	loss := c.afterLoss(key)
	if loss == nil && step.Again {
		loss = &group.Correct{Reason: "a group of this name was deleted, and its members may still read"}
	}
	if loss != nil {
		if state, _, _, err = group.Apply(state, group.Input{Now: now, ID: c.ports.IDs.NewID()}, *loss); err != nil {
			return fmt.Errorf("group %s: %w", key, err)
		}
	}
	nonce := c.ports.IDs.NewID()
	state.Saving(group.Save{Revision: 1, Nonce: nonce}, rec.Version.Instance)
	body, err := group.Encode(&state)
	if err != nil {
		return err
	}
	if err := c.newGroup(ctx, key, port.GroupSave{
		Expected: rec.Version, Nonce: nonce, Body: body,
		SchemaVersion: group.SchemaVersion, UpdatedAt: now.Format(time.RFC3339Nano),
	}); err != nil {
		return err
	}
	return c.confirmGroup(ctx, key)
}

// confirmGroup lets a group that was just created grant shards, if the stream says that
// it is a new one. While we were slow, the group may have been created and deleted by
// others: then its record goes again, or grants nothing for a lease time. So the stream is
// asked after the record was seen, and the record is written only as it was seen.
func (c *Coordinator) confirmGroup(ctx context.Context, key port.GroupKey) error {
	for attempt := range maxStreamAttempts {
		if done, err := c.tryConfirm(ctx, key, attempt); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("create group %s: %w", key, protocol.ErrConflict)
}

func (c *Coordinator) tryConfirm(ctx context.Context, key port.GroupKey, attempt int) (done bool, err error) {
	rec, err := c.loadGroup(ctx, key)
	if err != nil || rec.Version.Revision == 0 {
		return true, err
	}
	s, _, err := c.loadStream(ctx, key.Stream)
	if err != nil {
		return false, err
	}
	state, err := group.Decode(rec.Body)
	if err != nil {
		// It is there, and reported by whoever reads it.
		return true, nil
	}
	g, _ := s.Group(key.Group)
	switch {
	case !state.Unconfirmed():
		// Somebody may read. If it is to go, that is not for us to do; if the stream
		// does not know it, it will again.
		return true, nil
	case s.Unwanted(key.Group):
		_, err := c.dropGroup(ctx, key, rec.Version)
		return true, err
	case g.Phase != stream.GroupCreating || g.Again:
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	return c.saveChange(ctx, key, rec, state, group.Confirm{}, attempt)
}

// wants reports whether a stream is to have a group.
func wants(s *stream.State, name string) bool {
	g, there := s.Group(name)
	return there && g.Phase != stream.GroupDeleting
}

// newGroup writes the first record of a group, unless another coordinator has just done
// so.
func (c *Coordinator) newGroup(ctx context.Context, key port.GroupKey, s port.GroupSave) error {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	if _, err := c.ports.Store.SaveGroup(ctx, key, s); err != nil && !errors.Is(err, port.ErrConflict) {
		return c.storeError(ctx, "create group "+key.String(), err)
	}
	return nil
}

// askGroup looks for live members of a group that is to be deleted unless it has some;
// it returns the command that notes what was found.
func (c *Coordinator) askGroup(ctx context.Context, prefix string, step stream.AskGroupStep) (stream.Command, error) {
	rec, err := c.loadGroup(ctx, port.GroupKey{Stream: prefix, Group: step.Name})
	if err != nil || rec.Version.Revision == 0 {
		return step.Done, err
	}
	// A record that cannot be read has no members that could be asked for.
	if s, err := group.Decode(rec.Body); err == nil && s.HasActive() {
		return step.Refused, nil
	}
	return step.Done, nil
}

// deleteAggregate removes the state of a group. It returns the command that notes the
// outcome; none when the deletion is over already.
func (c *Coordinator) deleteAggregate(ctx context.Context, prefix string, step stream.DeleteGroupStep) (stream.Command, error) {
	key := port.GroupKey{Stream: prefix, Group: step.Name}
	for range maxStreamAttempts {
		rec, err := c.loadGroup(ctx, key)
		if err != nil {
			return nil, err
		}
		// In this order: what was loaded is deleted only if the group is still to
		// be deleted after that. Another coordinator may have finished while we
		// were slow, and the group may have been created anew; then its record
		// is another one, or it is not to be deleted. Nor is it if the stream has lost
		// the last writes of its record, the deletion among them.
		if s, _, err := c.loadStream(ctx, prefix); err != nil || !s.Goes(step.Name) {
			return nil, err
		}
		// By force, or while somebody leaves: then a lease may still run.
		held := step.Force
		if rec.Version.Revision != 0 {
			s, err := group.Decode(rec.Body)
			held = held || err != nil || len(s.Lives) > 0
			deleted, err := c.dropGroup(ctx, key, rec.Version)
			if err != nil {
				return nil, err
			}
			if !deleted {
				continue
			}
		}
		if step.DeleteData && c.ports.Streams != nil {
			if err := c.ports.Streams.RemoveGroup(ctx, prefix, step.Name, 0, step.End); err != nil {
				return nil, err
			}
		}
		if held {
			return step.DoneHeld, nil
		}
		return step.Done, nil
	}
	return nil, fmt.Errorf("delete group %s: %w", key, protocol.ErrConflict)
}

// loadGroup reads the record of a group; Revision 0 when there is none.
func (c *Coordinator) loadGroup(ctx context.Context, key port.GroupKey) (port.GroupRecord, error) {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	rec, err := c.ports.Store.LoadGroup(ctx, key, port.Version{})
	if err != nil {
		return rec, c.storeError(ctx, "load group "+key.String(), err)
	}
	return rec, nil
}

// dropGroup deletes the record of a group; false when it has changed.
func (c *Coordinator) dropGroup(ctx context.Context, key port.GroupKey, at port.Version) (bool, error) {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	err := c.ports.Store.DeleteGroup(ctx, key, at)
	if err != nil && !errors.Is(err, port.ErrConflict) {
		return false, c.storeError(ctx, "delete group "+key.String(), err)
	}
	if err == nil {
		c.tell(key, engine.Changed{}) //nolint:contextcheck // It outlives the call.
	}
	return err == nil, nil
}

func (c *Coordinator) dropStream(ctx context.Context, prefix string, at port.Version) error {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	err := c.ports.Store.DeleteStream(ctx, prefix, at)
	if err == nil || errors.Is(err, port.ErrConflict) {
		c.remember(prefix, nil, "")
		return nil
	}
	return c.storeError(ctx, "delete stream "+prefix, err)
}

// ensureForJoin makes a group for a member that joins, if its stream allows it.
func (c *Coordinator) ensureForJoin(ctx context.Context, key port.GroupKey) error {
	s, err := c.changeStream(ctx, key.Stream, stream.EnsureGroup{Name: key.Group, ByJoin: true})
	if err != nil {
		return err
	}
	if isLive(&s, key.Group) {
		_, err := c.presentGroup(ctx, key)
		if errors.Is(err, protocol.ErrGroupNotFound) {
			return protocol.ErrConflict.With("the group is being deleted: try again")
		}
		return err
	}
	_, err = c.settle(ctx, key.Stream)
	return err
}

func isLive(s *stream.State, name string) bool {
	g, there := s.Group(name)
	return there && g.Phase == stream.GroupLive
}

// presentGroup reads the record of a group that is to be there, and says what it means that
// it is not. A record is written before its stream calls the group live, and deleted after
// it no longer does: one that is absent while the stream's record stays as it is, and calls
// the group live, is lost. It is not made from scratch then.
// Errors: ErrGroupNotFound, ErrCorrupt, ErrConflict if the stream changes again and again.
func (c *Coordinator) presentGroup(ctx context.Context, key port.GroupKey) (port.GroupRecord, error) {
	var live port.Version
	for range maxStreamAttempts {
		rec, err := c.loadGroup(ctx, key)
		if err != nil || rec.Version.Revision != 0 {
			return rec, err
		}
		s, at, err := c.loadStream(ctx, key.Stream)
		switch {
		case err != nil:
			return rec, err
		case !isLive(&s, key.Group):
			return rec, protocol.ErrGroupNotFound.With("stream %s has no group %s: create it, or let a member join", strconv.Quote(key.Stream), strconv.Quote(key.Group))
		case at == live:
			return rec, protocol.ErrCorrupt.With("the record of group %s is missing although the stream lists it: restore it from a backup, or delete the group and create it again", key)
		}
		live = at
	}
	return port.GroupRecord{}, fmt.Errorf("load group %s: %w", key, protocol.ErrConflict)
}
