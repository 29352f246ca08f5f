package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// maxNamedKeys bounds the keys that an error names.
const maxNamedKeys = 10

// Streams is a port.Streams; get it from Client.Streams. It works in pipelines,
// on all masters of a Cluster at once, so a thousand shards take a few round
// trips. No command touches two keys.
type Streams struct {
	cmd *command.Streams
}

var _ port.Streams = (*Streams)(nil)

// Provision implements port.Streams.
func (s *Streams) Provision(ctx context.Context, p port.Provision) error {
	keys := shardKeys(p.Prefix, p.First, p.End)
	if err := s.checkForeign(ctx, p.Prefix, keys); err != nil {
		return err
	}
	switch {
	case p.Renew:
		return s.renew(ctx, p, keys)
	case len(p.Groups) == 0:
		return s.createStreams(ctx, p.Prefix, keys)
	}
	return s.createGroups(ctx, p, keys)
}

func (s *Streams) createStreams(ctx context.Context, prefix string, keys []string) error {
	for part := range slices.Chunk(keys, callsAtOnce) {
		errs, err := s.cmd.CreateStreams(ctx, part)
		err = provisioned(prefix, errs, err, func(i int) command.StreamGroup { return command.StreamGroup{Stream: part[i]} })
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Streams) createGroups(ctx context.Context, p port.Provision, keys []string) error {
	groups := make([]command.StreamGroup, 0, min(callsAtOnce, len(keys)*len(p.Groups)))
	for part := range slices.Chunk(keys, max(1, callsAtOnce/len(p.Groups))) {
		groups = groups[:0]
		for _, key := range part {
			for _, group := range p.Groups {
				groups = append(groups, command.StreamGroup{Stream: key, Group: group})
			}
		}
		errs, err := s.cmd.CreateGroups(ctx, groups, startOf(p))
		if err := provisioned(p.Prefix, errs, err, func(i int) command.StreamGroup { return groups[i] }); err != nil {
			return err
		}
	}
	return nil
}

// startOf is the id at which consumer groups are created.
func startOf(p port.Provision) string {
	if p.Start == protocol.StartLatest {
		return command.FromNewest
	}
	return command.FromOldest
}

// Remove implements port.Streams.
func (s *Streams) Remove(ctx context.Context, prefix string, first, end int) error {
	for part := range slices.Chunk(shardKeys(prefix, first, end), callsAtOnce) {
		if err := s.cmd.RemoveStreams(ctx, part); err != nil {
			return fmt.Errorf("remove the shards of stream %s: %w", prefix, err)
		}
	}
	return nil
}

// RemoveGroup implements port.Streams.
func (s *Streams) RemoveGroup(ctx context.Context, prefix, group string, first, end int) error {
	for part := range slices.Chunk(shardKeys(prefix, first, end), callsAtOnce) {
		if err := s.cmd.RemoveGroup(ctx, part, group); err != nil {
			return fmt.Errorf("remove consumer group %s from stream %s: %w", group, prefix, err)
		}
	}
	return nil
}

// Ping implements port.Streams.
func (s *Streams) Ping(ctx context.Context) error {
	if err := s.cmd.Ping(ctx); err != nil {
		return fmt.Errorf("reach redis: %w", err)
	}
	return nil
}

// checkForeign looks at the keys before anything is created, so that a refused
// create leaves nothing behind.
func (s *Streams) checkForeign(ctx context.Context, prefix string, keys []string) error {
	var foreign []string
	for part := range slices.Chunk(keys, callsAtOnce) {
		types, err := s.cmd.KeyTypes(ctx, part)
		if err != nil {
			return protocol.ErrProvisioning.With("look at the keys of stream %s: %v", prefix, err)
		}
		for i, kind := range types {
			if kind != "stream" && kind != "none" {
				foreign = append(foreign, fmt.Sprintf("%s (%s)", part[i], kind))
			}
		}
	}
	return errForeign(prefix, foreign)
}

// errForeign is the error for keys that hold something else, nil for none.
func errForeign(prefix string, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	names := strings.Join(keys[:min(len(keys), maxNamedKeys)], ", ")
	if more := len(keys) - maxNamedKeys; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return protocol.ErrStreamExists.With("stream %s needs keys that hold something else in Redis: %s: remove them, or choose another prefix", prefix, names)
}

// provisioned sums up what became of each stream or group.
func provisioned(prefix string, errs []error, err error, what func(i int) command.StreamGroup) error {
	if err != nil {
		return protocol.ErrProvisioning.With("create stream %s: %v", prefix, err)
	}
	var foreign []string
	failed, first := 0, 0
	for i, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, command.ErrNotStream):
			foreign = append(foreign, what(i).Stream)
		default:
			if failed == 0 {
				first = i
			}
			failed++
		}
	}
	if failed == 0 {
		return errForeign(prefix, foreign)
	}
	named := fmt.Sprintf("key %s", what(first).Stream)
	if group := what(first).Group; group != "" {
		named = fmt.Sprintf("consumer group %s on %s", group, named)
	}
	return protocol.ErrProvisioning.With("create %s: %v (%d of %d failed)", named, errs[first], failed, len(errs))
}

// shardKeys are the keys of the shards first ≤ i < end.
func shardKeys(prefix string, first, end int) []string {
	keys := make([]string, 0, max(0, end-first))
	for i := first; i < end; i++ {
		keys = append(keys, routing.StreamKey(prefix, i))
	}
	return keys
}
