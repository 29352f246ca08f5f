package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
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
		c.remember(prefix, 0)
		return stream.State{}, rec.Version, nil
	}
	s, err := stream.Decode(rec.Body)
	if err != nil {
		return stream.State{}, port.Version{}, fmt.Errorf("load stream %s: %w", prefix, err)
	}
	c.remember(prefix, s.ShardCount)
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

// remember keeps the shard count of a stream, 0 for one that does not exist.
func (c *Coordinator) remember(prefix string, shards int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if shards == 0 {
		delete(c.shards, prefix)
		return
	}
	c.shards[prefix] = shards
}

// HeartbeatLimit bounds the body of a heartbeat for a stream, in bytes.
func (c *Coordinator) HeartbeatLimit(prefix string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return protocol.HeartbeatLimit(c.shards[prefix])
}

// changeStream applies a command to a stream record and saves it.
func (c *Coordinator) changeStream(ctx context.Context, prefix string, cmd stream.Command) (stream.State, error) {
	var tried string
	for range maxStreamAttempts {
		s, at, err := c.loadStream(ctx, prefix)
		if err != nil {
			return stream.State{}, err
		}
		if tried != "" && at.Nonce == tried {
			// The save whose reply was lost took place.
			return s, nil
		}
		next, resp, events, err := stream.Apply(s, stream.Input{Now: c.input().Now}, cmd)
		if err != nil {
			return s, err
		}
		if !resp.Changed {
			return s, nil
		}
		body, err := stream.Encode(&next)
		if err != nil {
			return s, err
		}
		tried = c.ports.IDs.NewID()
		switch err := c.saveStream(ctx, prefix, port.StreamSave{Expected: at, Nonce: tried, Body: body}); {
		case err == nil:
			c.remember(prefix, next.ShardCount)
			c.publishStream(prefix, events)
			return next, nil
		case errors.Is(err, port.ErrTooLarge):
			return s, protocol.ErrTooLarge.With("the record of stream %q is larger than the store takes", prefix)
		case ctx.Err() != nil:
			return s, fmt.Errorf("save stream %s: %w", prefix, context.Cause(ctx))
		}
	}
	return stream.State{}, fmt.Errorf("change stream %s: %w", prefix, protocol.ErrConflict)
}

func (c *Coordinator) saveStream(ctx context.Context, prefix string, s port.StreamSave) error {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	_, err := c.ports.Store.SaveStream(ctx, prefix, s)
	return err
}

// lane lets one caller at a time take the steps of a stream.
func (c *Coordinator) lane(ctx context.Context, prefix string) (leave func(), err error) {
	c.mu.Lock()
	l, there := c.lanes[prefix]
	if !there {
		l = make(chan struct{}, 1)
		c.lanes[prefix] = l
	}
	c.mu.Unlock()
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// settle takes the open steps of a stream until none is left. It is safe to run
// on several coordinators: each step can be repeated.
func (c *Coordinator) settle(ctx context.Context, prefix string) (stream.State, error) {
	leave, err := c.lane(ctx, prefix)
	if err != nil {
		return stream.State{}, err
	}
	defer leave()
	for range maxStreamAttempts {
		s, at, err := c.loadStream(ctx, prefix)
		if err != nil {
			return stream.State{}, err
		}
		steps := s.Next()
		if len(steps) == 0 {
			return s, nil
		}
		if err := c.take(ctx, &s, at, steps); err != nil {
			return s, err
		}
	}
	return stream.State{}, fmt.Errorf("settle stream %s: %w", prefix, protocol.ErrConflict)
}

// take carries steps out, in order, under the stream's mutex.
func (c *Coordinator) take(ctx context.Context, s *stream.State, at port.Version, steps []stream.Step) error {
	if c.ports.Mutex != nil {
		unlock, err := c.ports.Mutex.LockStream(ctx, s.Prefix)
		if err != nil {
			return fmt.Errorf("lock stream %s: %w", s.Prefix, err)
		}
		defer unlock()
	}
	var done []stream.Command
	for _, step := range steps {
		cmd, err := c.step(ctx, s, at, step)
		if err != nil {
			return err
		}
		if cmd != nil {
			done = append(done, cmd)
		}
	}
	for _, cmd := range done {
		if _, err := c.changeStream(ctx, s.Prefix, cmd); err != nil {
			return err
		}
	}
	return nil
}

// step carries one step out and returns the command that notes it, if any.
func (c *Coordinator) step(ctx context.Context, s *stream.State, at port.Version, step stream.Step) (stream.Command, error) {
	switch step := step.(type) {
	case stream.ProvisionStep:
		if c.ports.Streams == nil {
			return step.Done, nil
		}
		err := c.ports.Streams.Provision(ctx, port.Provision{
			Prefix: s.Prefix, First: step.First, End: step.End, Groups: step.Groups, Start: step.Start,
		})
		return step.Done, err
	case stream.CreateGroupStep:
		return step.Done, c.createAggregate(ctx, s, step.Name)
	case stream.DeleteGroupStep:
		return c.deleteAggregate(ctx, s.Prefix, step)
	case stream.DeleteStreamStep:
		if step.DeleteData && c.ports.Streams != nil {
			if err := c.ports.Streams.Remove(ctx, s.Prefix, 0, step.End); err != nil {
				return nil, err
			}
		}
		return nil, c.dropStream(ctx, s.Prefix, at)
	}
	return nil, fmt.Errorf("stream %s: unknown step %T", s.Prefix, step)
}

func (c *Coordinator) createAggregate(ctx context.Context, s *stream.State, name string) error {
	key := port.GroupKey{Stream: s.Prefix, Group: name}
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	rec, err := c.ports.Store.LoadGroup(ctx, key, port.Version{})
	if err != nil {
		return c.storeError(ctx, "load group "+key.String(), err)
	}
	if rec.Version.Revision != 0 {
		return nil
	}
	now := c.input().Now
	state := group.New(s.Prefix, name, s.ShardCount, s.Version, c.cfg.Timings, now)
	nonce := c.ports.IDs.NewID()
	state.Saving(group.Save{Revision: 1, Nonce: nonce}, rec.Version.Instance)
	body, err := group.Encode(&state)
	if err != nil {
		return err
	}
	_, err = c.ports.Store.SaveGroup(ctx, key, port.GroupSave{
		Expected: rec.Version, Nonce: nonce, Body: body,
		SchemaVersion: group.SchemaVersion, UpdatedAt: now.Format(time.RFC3339Nano),
	})
	if err == nil || errors.Is(err, port.ErrConflict) {
		// A conflict means that another coordinator has just created it.
		return nil
	}
	return c.storeError(ctx, "create group "+key.String(), err)
}

// deleteAggregate removes the state of a group, unless it has live members and
// the deletion is not forced.
func (c *Coordinator) deleteAggregate(ctx context.Context, prefix string, step stream.DeleteGroupStep) (stream.Command, error) {
	key := port.GroupKey{Stream: prefix, Group: step.Name}
	for range maxStreamAttempts {
		gone, refused, err := c.tryDelete(ctx, key, step.Force)
		switch {
		case err != nil:
			return nil, err
		case refused:
			return step.Refused, nil
		case gone:
			if step.DeleteData && c.ports.Streams != nil {
				if err := c.ports.Streams.RemoveGroup(ctx, prefix, step.Name, 0, step.End); err != nil {
					return nil, err
				}
			}
			return step.Done, nil
		}
	}
	return nil, fmt.Errorf("delete group %s: %w", key, protocol.ErrConflict)
}

func (c *Coordinator) tryDelete(ctx context.Context, key port.GroupKey, force bool) (gone, refused bool, err error) {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	rec, err := c.ports.Store.LoadGroup(ctx, key, port.Version{})
	if err != nil {
		return false, false, c.storeError(ctx, "load group "+key.String(), err)
	}
	if rec.Version.Revision == 0 {
		return true, false, nil
	}
	// A record that cannot be read has no members that could be asked for.
	if s, err := group.Decode(rec.Body); err == nil && s.HasActive() && !force {
		return false, true, nil
	}
	err = c.ports.Store.DeleteGroup(ctx, key, rec.Version)
	switch {
	case err == nil:
		return true, false, nil
	case errors.Is(err, port.ErrConflict):
		return false, false, nil
	}
	return false, false, c.storeError(ctx, "delete group "+key.String(), err)
}

func (c *Coordinator) dropStream(ctx context.Context, prefix string, at port.Version) error {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	err := c.ports.Store.DeleteStream(ctx, prefix, at)
	if err == nil || errors.Is(err, port.ErrConflict) {
		c.mu.Lock()
		delete(c.shards, prefix)
		delete(c.lanes, prefix)
		c.mu.Unlock()
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
	if g, _ := s.Group(key.Group); g.Phase == stream.GroupLive {
		rec, err := c.ports.Store.LoadGroup(ctx, key, port.Version{})
		if err != nil {
			return c.storeError(ctx, "load group "+key.String(), err)
		}
		if rec.Version.Revision == 0 {
			return protocol.ErrCorrupt.With("the record of group %s is missing although the stream lists it: restore it from a backup, or delete the group and create it again", key)
		}
		return nil
	}
	_, err = c.settle(ctx, key.Stream)
	return err
}

// scanStreams takes the open steps of all streams: what a coordinator that was
// killed has left behind.
func (c *Coordinator) scanStreams(ctx context.Context) {
	call, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	prefixes, err := c.ports.Store.ListStreams(call)
	if err != nil {
		c.storeTrouble(ctx, "list streams", err)
		return
	}
	if err := c.importStreams(ctx, prefixes); err != nil {
		return
	}
	for _, prefix := range prefixes {
		c.scanStream(ctx, prefix)
	}
}

func (c *Coordinator) scanStream(ctx context.Context, prefix string) {
	s, _, err := c.loadStream(ctx, prefix)
	if err == nil && len(s.Next()) == 0 {
		return
	}
	if err == nil {
		ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
		defer done()
		_, err = c.settle(ctx, prefix)
	}
	if err != nil && ctx.Err() == nil {
		c.cfg.Logger.Warn("stream is not settled", "stream", prefix, "err", err)
	}
}
