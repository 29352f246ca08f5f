package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// changeGroup applies an operator's command to a group and saves it, past the
// engine: that finds the record moved and reads it again.
// Errors: protocol.ErrGroupNotFound, ErrCorrupt, ErrStoreUnavailable, ErrConflict.
func (c *Coordinator) changeGroup(ctx context.Context, key port.GroupKey, cmd group.Command) error {
	for attempt := range maxStreamAttempts {
		done, err := c.tryChange(ctx, key, cmd, attempt+1)
		if done || err != nil {
			return err
		}
	}
	return fmt.Errorf("change group %s: %w", key, protocol.ErrConflict)
}

func (c *Coordinator) tryChange(ctx context.Context, key port.GroupKey, cmd group.Command, attempt int) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	rec, err := c.ports.Store.LoadGroup(ctx, key, port.Version{})
	if err != nil {
		return false, c.storeError(ctx, "load group "+key.String(), err)
	}
	if rec.Version.Revision == 0 {
		return false, protocol.ErrGroupNotFound.With("stream %q has no group %q", key.Stream, key.Group)
	}
	state, err := group.Decode(rec.Body)
	if err != nil {
		return false, fmt.Errorf("group %s: %w", key, err)
	}
	return c.saveChange(ctx, key, rec, state, cmd, attempt)
}

// saveChange applies a command to a group as it was loaded, and saves it; false when
// the group has changed since, or perhaps.
func (c *Coordinator) saveChange(ctx context.Context, key port.GroupKey, rec port.GroupRecord, state group.State, cmd group.Command, attempt int) (done bool, err error) {
	in := c.input()
	next, resp, events, err := group.Apply(state, group.Input{Now: in.Now, ID: in.ID}, state.LoadedFrom(rec.Version.Instance, cmd))
	if err != nil {
		return false, fmt.Errorf("group %s: %w", key, err)
	}
	if !resp.Changed {
		return true, nil
	}
	next.Saving(group.Save{Revision: rec.Version.Revision + 1, Nonce: in.ID}, rec.Version.Instance)
	body, err := group.Encode(&next)
	if err != nil {
		return false, err
	}
	_, err = c.ports.Store.SaveGroup(ctx, key, port.GroupSave{
		Expected: rec.Version, Nonce: in.ID, Body: body, SchemaVersion: group.SchemaVersion, UpdatedAt: in.Now.Format(time.RFC3339Nano),
	})
	switch {
	case err == nil:
		c.publish(key, events)
		c.tell(key, engine.Changed{Revision: rec.Version.Revision + 1, Nonce: in.ID}) //nolint:contextcheck // It outlives the call.
		return true, nil
	case errors.Is(err, port.ErrConflict):
		c.conflict(onGroupChange, attempt)
		return false, nil
	case ctx.Err() != nil:
		return false, c.storeError(ctx, "save group "+key.String(), err)
	}
	// The outcome is unknown. Every such command can be applied again, and does
	// nothing when it was.
	return false, nil
}

// importStreams makes the records of streams whose groups an earlier
// implementation has left: it kept no record of the stream itself. The largest
// count of its groups is the stream's; groups with a smaller one are grown before
// the record is made, so that a coordinator which stops half-way leaves nothing
// behind that the next one would not do again.
func (c *Coordinator) importStreams(ctx context.Context, known []string) error {
	keys, err := c.ports.Store.ListGroups(ctx)
	if err != nil {
		return c.storeError(ctx, "list groups", err)
	}
	orphans := map[string][]string{}
	for _, key := range keys {
		if _, there := slices.BinarySearch(known, key.Stream); !there {
			orphans[key.Stream] = append(orphans[key.Stream], key.Group)
		} else if err := c.regain(ctx, key); err != nil {
			c.logTrouble(ctx, key.Stream, err)
		}
	}
	for prefix, names := range orphans {
		if err := c.importStream(ctx, prefix, names); err != nil {
			c.cfg.Logger.Warn("stream cannot be imported", "stream", prefix, "err", err)
		}
	}
	return nil
}

// regain has a stream know a group that it does not know and whose record exists: the
// stream's record has lost its last writes, and that of the group, which may lie elsewhere,
// has not. Without it nobody would tell the group of shards that are added.
func (c *Coordinator) regain(ctx context.Context, key port.GroupKey) error {
	if c.knows(key) {
		return nil
	}
	rec, err := c.loadGroup(ctx, key)
	if err != nil || rec.Version.Revision == 0 {
		return err
	}
	s, _, err := c.loadStream(ctx, key.Stream)
	if _, there := s.Group(key.Group); err != nil || there || slices.Contains(s.Deleted, key.Group) {
		return err
	}
	if _, err := c.changeStream(ctx, key.Stream, stream.EnsureGroup{Name: key.Group, Found: true}); err != nil && !errors.Is(err, protocol.ErrStreamNotFound) {
		return fmt.Errorf("group %s is not known to its stream: %w", key, err)
	}
	c.cfg.Logger.WarnContext(ctx, "a group was found that its stream did not know: the write that created it was lost", "stream", key.Stream, "group", key.Group)
	return nil
}

func (c *Coordinator) importStream(ctx context.Context, prefix string, names []string) error {
	if err := protocol.ValidatePrefix("streamPrefix", prefix); err != nil {
		return err
	}
	cmd := stream.Import{Prefix: prefix, RoutingLease: c.cfg.RoutingLease}
	for _, name := range names {
		p, err := c.picture(ctx, port.GroupKey{Stream: prefix, Group: name})
		switch {
		case errors.Is(err, protocol.ErrGroupNotFound):
			// It was deleted, or is only an entry of the index.
			continue
		case err != nil:
			return err
		}
		cmd.Groups = append(cmd.Groups, name)
		cmd.ShardCount = max(cmd.ShardCount, p.State.ShardCount)
	}
	if len(cmd.Groups) == 0 {
		return nil
	}
	for _, name := range cmd.Groups {
		if err := c.changeGroup(ctx, port.GroupKey{Stream: prefix, Group: name}, group.Adopt{ShardCount: cmd.ShardCount}); err != nil {
			return err
		}
	}
	if _, err := c.changeStream(ctx, prefix, cmd); err != nil {
		return err
	}
	_, err := c.settle(ctx, prefix)
	return err
}

// SetTimings changes the timings of a group while it lives. A longer lease counts
// at once, a shorter one after the longest that was promised before.
// Errors: protocol.ErrInvalidRequest, ErrGroupNotFound, ErrStoreUnavailable,
// ErrConflict.
func (c *Coordinator) SetTimings(ctx context.Context, prefix, name string, t protocol.Timings) (protocol.Group, error) {
	if err := c.open(t.Validate()); err != nil {
		return protocol.Group{}, err
	}
	if err := c.changeGroup(ctx, port.GroupKey{Stream: prefix, Group: name}, group.Retime{Timings: t}); err != nil {
		return protocol.Group{}, err
	}
	return c.Group(ctx, prefix, name)
}
