package service

import (
	"context"
	"errors"
	"slices"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// ScaleStream begins to change the shard count of a stream. It answers when the new
// count is in force, or what keeps that from happening: the rest goes on by itself. The
// same request again resumes one that could not be prepared.
// Errors: protocol.ErrInvalidRequest, ErrStreamNotFound, ErrMigrationActive,
// ErrProvisioning (the change stays prepared, and is tried again), ErrStoreUnavailable,
// ErrConflict.
func (c *Coordinator) ScaleStream(ctx context.Context, prefix string, r protocol.Scale) (protocol.StreamScaled, error) {
	if err := c.open(r.Validate(c.maxShards())); err != nil {
		return protocol.StreamScaled{}, err
	}
	s, m, err := c.scale(ctx, prefix, r)
	if err != nil {
		return protocol.StreamScaled{}, err
	}
	out := protocol.StreamScaled{
		StreamPrefix: prefix, TargetShardCount: *r.TargetShardCount, AffectedConsumerGroups: s.Describe().Groups,
		Migrations: []protocol.Migration{},
	}
	for range max(1, len(out.AffectedConsumerGroups)) {
		// One for each group, as older clients expect; of a stream without groups, one.
		out.Migrations = append(out.Migrations, m)
	}
	return out, nil
}

// ScaleGroup is ScaleStream, asked for through a group.
// Errors: those of ScaleStream, protocol.ErrGroupNotFound.
func (c *Coordinator) ScaleGroup(ctx context.Context, prefix, name string, r protocol.Scale) (protocol.Migration, error) {
	if err := c.open(r.Validate(c.maxShards())); err != nil {
		return protocol.Migration{}, err
	}
	if err := c.hasGroup(ctx, prefix, name); err != nil {
		return protocol.Migration{}, err
	}
	_, m, err := c.scale(ctx, prefix, r)
	return m, err
}

func (c *Coordinator) hasGroup(ctx context.Context, prefix, name string) error {
	s, err := c.existing(ctx, prefix)
	if err == nil && !wants(&s, name) {
		err = protocol.ErrGroupNotFound.With("stream %q has no group %q", prefix, name)
	}
	return err
}

func (c *Coordinator) scale(ctx context.Context, prefix string, r protocol.Scale) (stream.State, protocol.Migration, error) {
	to := *r.TargetShardCount
	id := "reshard-" + c.ports.IDs.NewID()
	s, err := c.changeStream(ctx, prefix, stream.Scale{ID: id, To: to, RequestedBy: r.RequestedBy, Reason: r.Reason})
	if err != nil {
		return s, protocol.Migration{}, err
	}
	m, open := s.Migrating()
	if !open {
		now := c.input().Now
		return s, protocol.Migration{
			ReshardingID: protocol.NoMigration, FromShardCount: to, ToShardCount: to, State: protocol.MigrationDeprecated,
			CreatedAt: now, UpdatedAt: now, RequestedBy: r.RequestedBy, Reason: r.Reason, BlockedBy: []protocol.Blocker{},
		}, nil
	}
	id = m.ID
	after, err := c.settle(ctx, prefix)
	switch {
	case err == nil:
		s = after
	case errors.Is(err, protocol.ErrProvisioning) || errors.Is(err, protocol.ErrStreamExists):
		return s, protocol.Migration{}, err
	default:
		// The change was written down: any coordinator goes on with it.
		c.logTrouble(ctx, prefix, err)
	}
	m, found := s.Migration(id)
	if !found {
		return s, protocol.Migration{}, protocol.ErrMigrationNotFound
	}
	return s, *m.Describe(), nil
}

// Migration describes a change of the shard count, with what it waits for.
// Errors: protocol.ErrStreamNotFound, ErrMigrationNotFound, ErrStoreUnavailable.
func (c *Coordinator) Migration(ctx context.Context, prefix, id string) (protocol.Migration, error) {
	s, err := c.existing(ctx, prefix)
	if err != nil {
		return protocol.Migration{}, err
	}
	return c.migration(ctx, &s, id)
}

// GroupMigration is Migration, asked for through a group.
// Errors: those of Migration, protocol.ErrGroupNotFound.
func (c *Coordinator) GroupMigration(ctx context.Context, prefix, name, id string) (protocol.Migration, error) {
	if err := c.hasGroup(ctx, prefix, name); err != nil {
		return protocol.Migration{}, err
	}
	return c.Migration(ctx, prefix, id)
}

func (c *Coordinator) migration(ctx context.Context, s *stream.State, id string) (protocol.Migration, error) {
	m, found := s.Migration(id)
	if !found {
		return protocol.Migration{}, protocol.ErrMigrationNotFound.With("stream %q has no migration %q, or it is too long ago", s.Prefix, id)
	}
	d := *m.Describe()
	if id != s.Migrations[len(s.Migrations)-1].ID {
		return d, nil
	}
	removed := slices.Collect(s.Removed().All())
	d.Draining = len(removed)
	in := c.streamInput(s, false)
	shards, err := c.shards(ctx, s, removed)
	c.nameReaders(ctx, s, shards)
	d.BlockedBy = s.Blocked(in, shards, c.troubleOf(s.Prefix))
	switch {
	case err != nil:
		d.BlockedBy = append(d.BlockedBy, protocol.Blocker{Kind: protocol.BlockedByRedis, Reason: err.Error()})
	case c.ports.Shards == nil && len(removed) > len(shards):
		d.BlockedBy = append(d.BlockedBy, protocol.Blocker{Kind: protocol.BlockedByRedis,
			Reason: "the coordinator does not look after the shards in Redis (none is configured, or coordinator.streams.provisioning-enabled is off): read the removed ones to their ends, then give them up"})
	}
	for i := range shards {
		d.RecordsLeft += shards[i].Left()
	}
	return d, nil
}

// Migrations describes the last changes of the shard count of a stream, the newest
// first. Errors: those of Migration.
func (c *Coordinator) Migrations(ctx context.Context, prefix string) (protocol.MigrationList, error) {
	list := protocol.MigrationList{Migrations: []protocol.Migration{}}
	s, err := c.existing(ctx, prefix)
	if err != nil {
		return list, err
	}
	for i := range slices.Backward(s.Migrations) {
		m, err := c.migration(ctx, &s, s.Migrations[i].ID)
		if err != nil {
			return list, err
		}
		list.Migrations = append(list.Migrations, m)
	}
	return list, nil
}

// Rollback takes a change of the shard count back: producers write as before, and what
// was written to shards that were added is read to its end. It can be repeated.
// Errors: protocol.ErrStreamNotFound, ErrMigrationNotFound, ErrRollbackNotAllowed,
// ErrProvisioning (it is tried again), ErrStoreUnavailable.
func (c *Coordinator) Rollback(ctx context.Context, prefix, id string, r protocol.Order) (protocol.Migration, error) {
	if err := c.open(r.Validate()); err != nil {
		return protocol.Migration{}, err
	}
	if _, err := c.changeStream(ctx, prefix, stream.Rollback{ID: id}); err != nil {
		return protocol.Migration{}, err
	}
	switch _, err := c.settle(ctx, prefix); {
	case errors.Is(err, protocol.ErrProvisioning) || errors.Is(err, protocol.ErrStreamExists):
		return protocol.Migration{}, err
	case err != nil:
		c.logTrouble(ctx, prefix, err)
	}
	return c.Migration(ctx, prefix, id)
}

// GroupRollback is Rollback, asked for through a group.
// Errors: those of Rollback, protocol.ErrGroupNotFound.
func (c *Coordinator) GroupRollback(ctx context.Context, prefix, name, id string, r protocol.Order) (protocol.Migration, error) {
	if err := c.open(r.Validate()); err != nil {
		return protocol.Migration{}, err
	}
	if err := c.hasGroup(ctx, prefix, name); err != nil {
		return protocol.Migration{}, err
	}
	return c.Rollback(ctx, prefix, id, r)
}

// IgnoreGroup has removed shards not wait for a consumer group that is not one of the
// coordinator's, until they are all gone.
// Errors: protocol.ErrInvalidRequest for a group of the stream, ErrStreamNotFound,
// ErrMigrationNotFound when nothing is removed, ErrLimit.
func (c *Coordinator) IgnoreGroup(ctx context.Context, prefix string, r protocol.IgnoreGroup) (protocol.Stream, error) {
	return c.overrule(ctx, prefix, r.Validate(), stream.IgnoreGroup{Name: r.ConsumerGroup})
}

// GiveUp has removed shards go with the records that they still hold.
// Errors: protocol.ErrInvalidRequest for a shard that is not removed, ErrStreamNotFound.
func (c *Coordinator) GiveUp(ctx context.Context, prefix string, r protocol.GiveUp) (protocol.Stream, error) {
	cmd := stream.GiveUp{Shards: make([]int, len(r.Shards))}
	for i, shard := range r.Shards {
		cmd.Shards[i] = int(shard)
	}
	return c.overrule(ctx, prefix, r.Validate(), cmd)
}

// overrule carries out an operator's word about what removed shards wait for.
func (c *Coordinator) overrule(ctx context.Context, prefix string, invalid error, cmd stream.Command) (protocol.Stream, error) {
	if err := c.open(invalid); err != nil {
		return protocol.Stream{}, err
	}
	s, err := c.changeStream(ctx, prefix, cmd)
	if err != nil {
		return protocol.Stream{}, err
	}
	if after, err := c.settle(ctx, prefix); err == nil {
		s = after
	} else {
		c.logTrouble(ctx, prefix, err)
	}
	return s.Describe(), nil
}
