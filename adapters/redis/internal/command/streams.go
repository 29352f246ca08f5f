package command

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// ErrNotStream: the key holds something that is not a stream.
var ErrNotStream = errors.New("the key holds something else than a stream")

// Consumer groups are created at one of these ids.
const (
	FromOldest = "0"
	FromNewest = "$"
)

// KeyTypes returns the types of keys, "none" for one that does not exist.
func (c *Client) KeyTypes(ctx context.Context, keys []string) ([]string, error) {
	cmds := make([]*redis.StatusCmd, len(keys))
	err := c.pipelined(ctx, len(keys), pipelineSize, func(p redis.Pipeliner, i int) {
		cmds[i] = p.Type(ctx, keys[i])
	})
	if err != nil {
		return nil, err
	}
	types := make([]string, len(keys))
	for i, cmd := range cmds {
		if types[i], err = cmd.Result(); err != nil {
			return nil, failed(ctx, err)
		}
	}
	return types, nil
}

// StreamGroup is a consumer group on one stream.
type StreamGroup struct {
	Stream, Group string
}

// CreateGroups creates consumer groups that begin at start, and their streams,
// where they are missing. errs has the answer to each, nil for one that exists
// now, ErrNotStream among them; err is for all, when there was no answer.
func (c *Client) CreateGroups(ctx context.Context, groups []StreamGroup, start string) (errs []error, err error) {
	cmds := make([]*redis.StatusCmd, len(groups))
	err = c.pipelined(ctx, len(groups), pipelineSize, func(p redis.Pipeliner, i int) {
		cmds[i] = p.XGroupCreateMkStream(ctx, groups[i].Stream, groups[i].Group, start)
	})
	if err != nil {
		return nil, err
	}
	errs = make([]error, len(groups))
	for i, cmd := range cmds {
		switch err := cmd.Err(); {
		case redis.HasErrorPrefix(err, "BUSYGROUP"):
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			errs[i] = ErrNotStream
		default:
			errs[i] = failed(ctx, err)
		}
	}
	return errs, nil
}

// CreateStreams creates empty streams without any group where there is no such
// key. The results are those of CreateGroups.
func (c *Client) CreateStreams(ctx context.Context, streams []string) (errs []error, err error) {
	cmds := make([]*redis.Cmd, len(streams))
	err = c.pipelined(ctx, len(streams), pipelineSize, func(p redis.Pipeliner, i int) {
		cmds[i] = p.Eval(ctx, shardCreateText, streams[i:i+1])
	})
	if err != nil {
		return nil, err
	}
	errs = make([]error, len(streams))
	for i, cmd := range cmds {
		switch kind, err := cmd.Result(); {
		case err != nil:
			errs[i] = failed(ctx, err)
		case kind != "stream":
			errs[i] = ErrNotStream
		}
	}
	return errs, nil
}

// RemoveStreams deletes those of the keys that are streams. It returns the
// first error.
func (c *Client) RemoveStreams(ctx context.Context, keys []string) error {
	return c.evalEach(ctx, shardRemoveText, keys)
}

// RemoveGroup deletes the consumer group on those of the keys that are streams.
// It returns the first error.
func (c *Client) RemoveGroup(ctx context.Context, keys []string, group string) error {
	return c.evalEach(ctx, shardRemoveGroupText, keys, group)
}

// evalEach runs a short script on each key by itself. It is sent as text: in a
// pipeline there is no second chance for a server that does not know it.
func (c *Client) evalEach(ctx context.Context, text string, keys []string, args ...any) error {
	cmds := make([]*redis.Cmd, len(keys))
	err := c.pipelined(ctx, len(keys), pipelineSize, func(p redis.Pipeliner, i int) {
		cmds[i] = p.Eval(ctx, text, keys[i:i+1], args...)
	})
	if err != nil {
		return err
	}
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return failed(ctx, err)
		}
	}
	return nil
}
