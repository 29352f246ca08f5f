package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// inspector looks at the streams in Redis, past all that the demo's processes
// tell.
type inspector struct {
	client redis.UniversalClient
	stream string
	group  string
	layout *layout
}

func newInspector(b *backend, stream, group string, l *layout) (*inspector, error) {
	o, err := redisOptions(b.url)
	if err != nil {
		return nil, err
	}
	return &inspector{client: redis.NewUniversalClient(&o), stream: stream, group: group, layout: l}, nil
}

// reachTimeout bounds how long a Redis may take to answer for the first time.
const reachTimeout = 5 * time.Second

// reach makes sure that there is a Redis that answers.
func (i *inspector) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if err := i.client.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis does not answer, check the URL and the server: %w", err)
	}
	return nil
}

func (i *inspector) close() error { return i.client.Close() }

func (i *inspector) key(shard int) string { return routing.StreamKey(i.stream, shard) }

// page is how many records are read at a time.
const page = 1000

// backlog counts the records that the group was given and has not acknowledged,
// and those that it was never given; of these it counts a page in each shard at
// most. Both are 0 when everything is done.
func (i *inspector) backlog(ctx context.Context) (pending, unread int, err error) {
	for shard := range i.layout.shards().read {
		key := i.key(shard)
		p, err := i.client.XPending(ctx, key, i.group).Result()
		if err != nil {
			return 0, 0, fmt.Errorf("look at what is pending in %s: %w", key, err)
		}
		pending += int(p.Count)
		groups, err := i.client.XInfoGroups(ctx, key).Result()
		if err != nil {
			return 0, 0, fmt.Errorf("look at the groups of %s: %w", key, err)
		}
		n, err := i.unread(ctx, key, groups)
		if err != nil {
			return 0, 0, err
		}
		unread += n
	}
	return pending, unread, nil
}

func (i *inspector) unread(ctx context.Context, key string, groups []redis.XInfoGroup) (int, error) {
	for _, g := range groups {
		if g.Name != i.group {
			continue
		}
		after, err := i.client.XRangeN(ctx, key, "("+g.LastDeliveredID, "+", page).Result()
		if err != nil {
			return 0, fmt.Errorf("look for what %s has unread: %w", key, err)
		}
		return len(after), nil
	}
	return 0, fmt.Errorf("%s has no consumer group %s", key, i.group)
}

// existing returns the keys of the shards first to end that are there.
func (i *inspector) existing(ctx context.Context, first, end int) (keys []string, err error) {
	for shard := first; shard < end; shard++ {
		n, err := i.client.Exists(ctx, i.key(shard)).Result()
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", i.key(shard), err)
		}
		if n > 0 {
			keys = append(keys, i.key(shard))
		}
	}
	return keys, nil
}

// records returns all records of all shards. Their number must be what XLEN says.
func (i *inspector) records(ctx context.Context) ([]stored, error) {
	var all []stored
	for shard := range i.layout.shards().read {
		key, before := i.key(shard), len(all)
		for from := "-"; ; {
			list, err := i.client.XRangeN(ctx, key, from, "+", page).Result()
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", key, err)
			}
			for _, m := range list {
				s, err := storedRecord(shard, m)
				if err != nil {
					return nil, fmt.Errorf("read %s: %w", key, err)
				}
				all = append(all, s)
			}
			if len(list) < page {
				break
			}
			from = "(" + list[len(list)-1].ID
		}
		length, err := i.client.XLen(ctx, key).Result()
		if err != nil {
			return nil, fmt.Errorf("read the length of %s: %w", key, err)
		}
		if found := len(all) - before; found != int(length) {
			return nil, fmt.Errorf("%s holds %d records and says that it holds %d", key, found, length)
		}
	}
	return all, nil
}

func storedRecord(shard int, m redis.XMessage) (stored, error) {
	id, err := parseID(m.ID)
	if err != nil {
		return stored{}, err
	}
	key, _ := m.Values[keyField].(string)
	seq, _ := m.Values[seqField].(string)
	c, err := parseContent(key, seq)
	if err != nil {
		return stored{}, fmt.Errorf("record %s: %w", m.ID, err)
	}
	return stored{place{shard, id}, c}, nil
}

// remove deletes what a demo leaves in a Redis that is not its own: the keys of
// the store that belong to no stream or group, all of which begin with names.
// Keys that deleting the stream should have removed are deleted and returned.
func (i *inspector) remove(ctx context.Context, names string) (left []string, err error) {
	tag := names + ":{" + i.stream
	expected := []string{tag + ":" + i.group + "}:metadata", tag + ":" + i.group + "}:live", tag + ":" + i.group + "}:report", tag + "}:stream"}
	for shard := range mostShards {
		expected = append(expected, i.key(shard))
	}
	var bad []error
	for _, key := range expected {
		n, err := i.client.Unlink(ctx, key).Result()
		if n > 0 {
			left = append(left, key)
		}
		bad = append(bad, err)
	}
	for _, key := range []string{names + ":store-id", names + ":groups", names + ":streams", tag + ":" + i.group + "}:mutex", tag + "}:stream-mutex"} {
		bad = append(bad, i.client.Unlink(ctx, key).Err())
	}
	return left, errors.Join(bad...)
}
