package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// CreateStream makes a stream with its shards.
// Errors: protocol.ErrStreamExists, ErrInvalidRequest, ErrProvisioning (the
// stream is there, its shards follow), ErrStoreUnavailable, ErrConflict.
func (c *Coordinator) CreateStream(ctx context.Context, prefix string, r protocol.CreateStream) (protocol.StreamCreated, error) {
	if err := c.open(protocol.ValidatePrefix("streamPrefix", prefix), r.Validate(c.maxShards())); err != nil {
		return protocol.StreamCreated{}, err
	}
	cmd := stream.Create{
		Prefix: prefix, ShardCount: c.cfg.DefaultShards, AutoCreateGroups: true,
		GroupStart: protocol.StartEarliest, RoutingLease: c.cfg.RoutingLease,
	}
	if r.InitialShardCount != nil {
		cmd.ShardCount = *r.InitialShardCount
	}
	if r.AutoCreateGroups != nil {
		cmd.AutoCreateGroups = *r.AutoCreateGroups
	}
	if r.GroupStart != "" {
		cmd.GroupStart = r.GroupStart
	}
	s, err := c.changeStream(ctx, prefix, cmd)
	if err != nil && c.resumable(&s, err, cmd) {
		// A create that got stuck half-way is repeated with the same words.
		err = nil
	}
	if err == nil {
		s, err = c.settle(ctx, prefix)
	}
	if err != nil {
		return protocol.StreamCreated{}, err
	}
	return protocol.StreamCreated{StreamPrefix: prefix, ShardCount: s.ShardCount, MetadataVersion: s.Version}, nil
}

// resumable reports whether a create met a record that an earlier, unfinished
// create of the same stream has left.
func (c *Coordinator) resumable(s *stream.State, err error, cmd stream.Create) bool {
	return errors.Is(err, protocol.ErrStreamExists) && s.Exists() && s.Removal == nil && !s.Provisioned && s.ShardCount == cmd.ShardCount
}

// open refuses bad input, and everything while the coordinator shuts down.
func (c *Coordinator) open(checks ...error) error {
	if c.closed.Load() {
		return protocol.ErrTerminating
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// Stream describes a stream. Errors: protocol.ErrStreamNotFound.
func (c *Coordinator) Stream(ctx context.Context, prefix string) (protocol.Stream, error) {
	s, err := c.existing(ctx, prefix)
	if err != nil {
		return protocol.Stream{}, err
	}
	return s.Describe(), nil
}

func (c *Coordinator) existing(ctx context.Context, prefix string) (stream.State, error) {
	s, _, err := c.loadStream(ctx, prefix)
	if err != nil {
		return stream.State{}, err
	}
	if !s.Exists() || s.Removal != nil {
		return stream.State{}, protocol.ErrStreamNotFound.With("no stream %q: create it first", prefix)
	}
	return s, nil
}

// Streams describes all streams, by prefix. One whose record is damaged is left
// out and logged.
func (c *Coordinator) Streams(ctx context.Context) (protocol.StreamList, error) {
	list := protocol.StreamList{Streams: []protocol.Stream{}}
	prefixes, err := c.ports.Store.ListStreams(ctx)
	if err != nil {
		return list, c.storeError(ctx, "list streams", err)
	}
	for _, prefix := range prefixes {
		s, _, err := c.loadStream(ctx, prefix)
		switch {
		case err != nil && errors.Is(err, protocol.ErrCorrupt):
			c.cfg.Logger.Warn("stream left out of the list", "stream", prefix, "err", err)
		case err != nil:
			return list, err
		case s.Exists() && s.Removal == nil:
			list.Streams = append(list.Streams, s.Describe())
		}
	}
	return list, nil
}

// DeleteStream removes a stream without groups, its records only when asked;
// it returns what it was. Errors: protocol.ErrStreamNotFound, ErrStreamHasGroups.
func (c *Coordinator) DeleteStream(ctx context.Context, prefix string, r protocol.Delete) (protocol.Stream, error) {
	if err := c.open(r.Validate()); err != nil {
		return protocol.Stream{}, err
	}
	s, err := c.changeStream(ctx, prefix, stream.Delete{DeleteData: r.DeleteData})
	if err != nil {
		return protocol.Stream{}, err
	}
	if _, err := c.settle(ctx, prefix); err != nil {
		return protocol.Stream{}, err
	}
	return s.Describe(), nil
}

// CreateGroup makes a group, and its stream as well if there is none.
// Errors: protocol.ErrGroupExists, ErrShardCountMismatch, ErrLimit and those of
// CreateStream.
func (c *Coordinator) CreateGroup(ctx context.Context, prefix, name string, r protocol.CreateGroup) (protocol.Group, error) {
	if err := c.open(protocol.ValidatePrefix("streamPrefix", prefix), protocol.ValidateName("consumerGroup", name), r.Validate(c.maxShards())); err != nil {
		return protocol.Group{}, err
	}
	cmd := stream.EnsureGroup{Name: name, New: true}
	if r.InitialShardCount != nil {
		cmd.ShardCount = *r.InitialShardCount
	}
	_, err := c.changeStream(ctx, prefix, cmd)
	if errors.Is(err, protocol.ErrStreamNotFound) {
		_, err = c.CreateStream(ctx, prefix, protocol.CreateStream{InitialShardCount: r.InitialShardCount, RequestedBy: r.RequestedBy, Reason: r.Reason})
		if err == nil || errors.Is(err, protocol.ErrStreamExists) {
			_, err = c.changeStream(ctx, prefix, cmd)
		}
	}
	if err == nil {
		_, err = c.settle(ctx, prefix)
	}
	if err != nil {
		return protocol.Group{}, err
	}
	return c.Group(ctx, prefix, name)
}

// DeleteGroup removes a group; it returns what it was. Its consumer groups in
// Redis stay, unless their deletion is asked for.
// Errors: protocol.ErrGroupNotFound, ErrGroupHasMembers.
func (c *Coordinator) DeleteGroup(ctx context.Context, prefix, name string, r protocol.Delete) (protocol.Group, error) {
	if err := c.open(r.Validate()); err != nil {
		return protocol.Group{}, err
	}
	was, err := c.Group(ctx, prefix, name)
	switch {
	case errors.Is(err, protocol.ErrCorrupt) || errors.Is(err, protocol.ErrGroupNotFound):
		// There is no record that could be read, or none yet. Whether there is
		// such a group is for the stream's record to say.
		was = protocol.Group{
			StreamPrefix: prefix, ConsumerGroup: name, State: protocol.GroupEmpty,
			TargetAssignmentSummary: map[string]int{}, CurrentAssignmentSummary: map[string]int{},
		}
	case err != nil:
		return protocol.Group{}, err
	case was.State != protocol.GroupEmpty && !r.Force:
		return protocol.Group{}, protocol.ErrGroupHasMembers
	}
	if _, err := c.changeStream(ctx, prefix, stream.DeleteGroup{Name: name, Force: r.Force, DeleteData: r.DeleteData}); err != nil {
		return protocol.Group{}, err
	}
	s, err := c.settle(ctx, prefix)
	if err != nil {
		return protocol.Group{}, err
	}
	if _, there := s.Group(name); there {
		// A member joined at the last moment, and the deletion was taken back.
		return protocol.Group{}, protocol.ErrGroupHasMembers
	}
	return was, nil
}

// Routing tells a producer how to route. It is a pure read of the stream's
// record, so the group need not exist.
// Errors: protocol.ErrStreamNotFound, ErrStoreUnavailable.
func (c *Coordinator) Routing(ctx context.Context, prefix, name string) (protocol.Routing, error) {
	if err := protocol.ValidateName("consumerGroup", name); err != nil {
		return protocol.Routing{}, err
	}
	s, err := c.existing(ctx, prefix)
	if err != nil {
		return protocol.Routing{}, err
	}
	if s.RoutingLease < c.cfg.RoutingLease {
		// Whoever drains a shard must know the longest lease that was announced.
		if s, err = c.changeStream(ctx, prefix, stream.AnnounceLease{Lease: c.cfg.RoutingLease}); err != nil {
			return protocol.Routing{}, err
		}
	}
	r := protocol.Routing{
		StreamPrefix: prefix, ConsumerGroup: name, MetadataVersion: s.Version, ShardCount: s.ShardCount,
		StreamKeyPattern: prefix + ":{shardIndex}", RoutingLeaseMs: c.cfg.RoutingLease.Milliseconds(),
		Shards: make([]protocol.RouteShard, s.ShardCount),
	}
	for i := range r.Shards {
		key := routing.StreamKey(prefix, i)
		r.Shards[i] = protocol.RouteShard{ShardIndex: protocol.ShardIndex(i), StreamKey: key, RedisSlot: routing.Slot(key)}
	}
	return r, nil
}

// Group describes a group.
// Errors: protocol.ErrGroupNotFound, ErrCorrupt, ErrStoreUnavailable.
func (c *Coordinator) Group(ctx context.Context, prefix, name string) (protocol.Group, error) {
	p, err := c.picture(ctx, port.GroupKey{Stream: prefix, Group: name})
	if err != nil {
		return protocol.Group{}, err
	}
	g := p.Describe()
	// What is wrong with the stream's record is told where that is asked for.
	s, _, err := c.loadStream(ctx, prefix)
	if m, open := s.Migrating(); err == nil && open {
		g.ActiveMigration = m.Describe()
	}
	return g, nil
}

// Groups describes all groups. One whose record is damaged is left out and
// logged.
func (c *Coordinator) Groups(ctx context.Context) (protocol.GroupList, error) {
	list := protocol.GroupList{Groups: []protocol.Group{}}
	keys, err := c.ports.Store.ListGroups(ctx)
	if err != nil {
		return list, c.storeError(ctx, "list groups", err)
	}
	for _, key := range keys {
		g, err := c.Group(ctx, key.Stream, key.Group)
		switch {
		case err == nil:
			list.Groups = append(list.Groups, g)
		case errors.Is(err, protocol.ErrCorrupt):
			c.cfg.Logger.Warn("group left out of the list", "stream", key.Stream, "group", key.Group, "err", err)
		case !errors.Is(err, protocol.ErrGroupNotFound):
			return list, err
		}
	}
	return list, nil
}

// Members describes the members of a group, by id.
func (c *Coordinator) Members(ctx context.Context, prefix, name string) (protocol.MemberList, error) {
	p, err := c.picture(ctx, port.GroupKey{Stream: prefix, Group: name})
	if err != nil {
		return protocol.MemberList{}, err
	}
	return protocol.MemberList{Members: p.Members(c.input().Now.Add(-c.cfg.MemberRetention))}, nil
}

// Assignments tells who should hold what and who says that it holds what.
func (c *Coordinator) Assignments(ctx context.Context, prefix, name string) (protocol.Assignments, error) {
	p, err := c.picture(ctx, port.GroupKey{Stream: prefix, Group: name})
	if err != nil {
		return protocol.Assignments{}, err
	}
	return p.Assignments(), nil
}

// picture reads a group for display, past the engine and its cache.
func (c *Coordinator) picture(ctx context.Context, key port.GroupKey) (*engine.Picture, error) {
	rec, err := c.presentGroup(ctx, key)
	if err != nil {
		return nil, err
	}
	state, err := group.Decode(rec.Body)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", key, err)
	}
	call, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	bodies, err := c.ports.Store.Reports(call, key)
	if err != nil {
		return nil, c.storeError(ctx, "read reports of "+key.String(), err)
	}
	p := &engine.Picture{State: state, Stamps: rec.Stamps, Reports: make(map[string]engine.MemberReport, len(bodies))}
	for life, body := range bodies {
		// A report is for display: one that cannot be read is as good as none.
		if r, err := engine.DecodeReport(body); err == nil {
			p.Reports[life] = r
		}
	}
	return p, nil
}
