package command

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// What the scripts on shards carry out inside, as rules of an ACL.
const (
	lookRules   = "+type +xinfo|stream +xinfo|groups +xrange +xpending"
	retireRules = "+type +xinfo|stream +xinfo|groups +xrange +unlink"
	renewRules  = "+type +xinfo|stream +xgroup|create +xgroup|destroy +xsetid +time"
)

// eval carries a script out on each key, by its digest. The results are those of each.
func (s *Streams) eval(ctx context.Context, text *script, needs string, keys []string, args func(i int) []any) ([]*call, []error, error) {
	return s.each(ctx, len(keys), func(i int) call {
		c := text.call(keys[i:i+1], args(i))
		c.needs = needs
		return *c
	})
}

func noArgs(int) []any { return nil }

// LookAtShards tells what the streams under keys hold, each at one moment; their indexes
// are left to the caller.
// Errors: the first, with its key.
func (s *Streams) LookAtShards(ctx context.Context, keys []string) ([]port.Shard, error) {
	calls, errs, err := s.eval(ctx, shardLook, lookRules, keys, noArgs)
	if err != nil {
		return nil, err
	}
	shards := make([]port.Shard, len(keys))
	for i, c := range calls {
		err := errs[i]
		if err == nil && c.reply != nil {
			shards[i], err = parseShard(c.reply)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keys[i], err)
		}
	}
	return shards, nil
}

// parseShard reads the reply of the script: last id, entries, and a list for each
// consumer group.
func parseShard(reply any) (port.Shard, error) {
	parts, _ := reply.([]any)
	if len(parts) < 2 {
		return port.Shard{}, errReply(reply)
	}
	sh := port.Shard{Exists: true, Cursors: make([]port.Cursor, len(parts)-2)}
	var ok, known bool
	sh.LastID, ok = parts[0].(string)
	sh.Records, known = parts[1].(int64)
	if !ok || !known {
		return port.Shard{}, errReply(reply)
	}
	for i, part := range parts[2:] {
		if sh.Cursors[i], ok = parseCursor(part); !ok {
			return port.Shard{}, errReply(part)
		}
	}
	slices.SortFunc(sh.Cursors, func(a, b port.Cursor) int { return strings.Compare(a.Group, b.Group) })
	return sh, nil
}

func parseCursor(reply any) (c port.Cursor, ok bool) {
	parts, _ := reply.([]any)
	if len(parts) != 6 {
		return c, false
	}
	var named, pending, unread bool
	c.Group, named = parts[0].(string)
	c.Pending, pending = parts[1].(int64)
	c.OldestID, _ = parts[2].(string) // nil for none
	c.NextID, _ = parts[3].(string)
	c.Unread, unread = parts[4].(int64)
	if c.Lag, ok = parts[5].(int64); !ok {
		c.Lag = port.Unknown
	}
	return c, named && pending && unread
}

// RetireShards removes the streams under keys where what they hold says that nobody
// misses anything, each in one step; shards, a part of r's, go with keys. It may be sent again
// after a lost answer: it removes nothing but what was proven.
// Errors: the first, with its key.
func (s *Streams) RetireShards(ctx context.Context, keys []string, r port.Retirement, shards []port.RetireShard) ([]port.RetireOutcome, error) {
	calls, errs, err := s.eval(ctx, shardRetire, retireRules, keys, func(i int) []any {
		args := append(make([]any, 0, 3+len(r.Groups)+len(r.Ignored)), shards[i].LastID, 0, len(r.Groups))
		if shards[i].Force {
			args[1] = 1
		}
		for _, group := range slices.Concat(r.Groups, r.Ignored) {
			args = append(args, group)
		}
		return args
	})
	if err != nil {
		return nil, err
	}
	outcomes := make([]port.RetireOutcome, len(keys))
	for i, c := range calls {
		if errs[i] != nil {
			return nil, fmt.Errorf("%s: %w", keys[i], errs[i])
		}
		switch c.reply {
		case "gone":
			outcomes[i] = port.ShardGone
		case "kept":
			outcomes[i] = port.ShardKept
		case "busy":
			outcomes[i] = port.ShardBusy
		default:
			return nil, fmt.Errorf("%s: %w", keys[i], errReply(c.reply))
		}
	}
	return outcomes, nil
}

// RenewShards creates the streams under keys, and consumer groups on each that begin at
// start, where they are missing, and gives each stream a last generated id that it never
// had. The results are those of CreateGroups.
func (s *Streams) RenewShards(ctx context.Context, keys, groups []string, start string) (errs []error, err error) {
	args := append(make([]any, 0, 1+len(groups)), start)
	for _, group := range groups {
		args = append(args, group)
	}
	calls, errs, err := s.eval(ctx, shardRenew, renewRules, keys, func(int) []any { return args })
	for i, c := range calls {
		if errs[i] == nil && c.reply != "stream" {
			errs[i] = ErrNotStream
		}
	}
	return errs, err
}
