package redis

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

var _ port.Shards = (*Streams)(nil)

const (
	// shardsAtOnce bounds the shards that scripts are sent for before their answers are
	// read: the server carries them out in a few milliseconds, and others get their turn.
	shardsAtOnce = 100
	// callsAtOnce bounds the plain commands that are prepared before the next ones are,
	// and with them the memory that this takes.
	callsAtOnce = 5000
)

// LookAt implements port.Shards. It sends a script for each shard, which counts at most
// 100 unread entries, where their number does not show from the ends of the stream.
func (s *Streams) LookAt(ctx context.Context, prefix string, indexes []int) ([]port.Shard, error) {
	shards := make([]port.Shard, 0, len(indexes))
	for part := range slices.Chunk(indexes, shardsAtOnce) {
		seen, err := s.cmd.LookAtShards(ctx, keysOf(prefix, part))
		if err != nil {
			return nil, fmt.Errorf("look at the shards of stream %s: %w", prefix, err)
		}
		for i := range seen {
			seen[i].Index = part[i]
		}
		shards = append(shards, seen...)
	}
	return shards, nil
}

// Retire implements port.Shards. A key that holds something else than a stream is no
// shard: it counts as gone, and stays.
func (s *Streams) Retire(ctx context.Context, r port.Retirement) ([]port.RetireOutcome, error) {
	outcomes := make([]port.RetireOutcome, 0, len(r.Shards))
	for part := range slices.Chunk(r.Shards, shardsAtOnce) {
		keys := make([]string, len(part))
		for i := range part {
			keys[i] = routing.StreamKey(r.Prefix, part[i].Index)
		}
		became, err := s.cmd.RetireShards(ctx, keys, r, part)
		if err != nil {
			return nil, fmt.Errorf("remove shards of stream %s: %w", r.Prefix, err)
		}
		outcomes = append(outcomes, became...)
	}
	return outcomes, nil
}

// Find implements port.Shards.
func (s *Streams) Find(ctx context.Context, prefix string, first, end int) ([]int, error) {
	var found []int
	for ; first < end; first += callsAtOnce {
		types, err := s.cmd.KeyTypes(ctx, shardKeys(prefix, first, min(end, first+callsAtOnce)))
		if err != nil {
			return nil, fmt.Errorf("look for shards of stream %s: %w", prefix, err)
		}
		for i, kind := range types {
			if kind == "stream" {
				found = append(found, first+i)
			}
		}
	}
	return found, nil
}

// renew provisions with new last generated ids, each shard in one step.
func (s *Streams) renew(ctx context.Context, p port.Provision, keys []string) error {
	for part := range slices.Chunk(keys, shardsAtOnce) {
		errs, err := s.cmd.RenewShards(ctx, part, p.Groups, startOf(p))
		err = provisioned(p.Prefix, errs, err, func(i int) command.StreamGroup { return command.StreamGroup{Stream: part[i]} })
		if err != nil {
			return err
		}
	}
	return nil
}

// keysOf are the keys of shards.
func keysOf(prefix string, indexes []int) []string {
	keys := make([]string, len(indexes))
	for i, index := range indexes {
		keys[i] = routing.StreamKey(prefix, index)
	}
	return keys
}
