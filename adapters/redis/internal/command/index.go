package command

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// pipelineSize bounds the commands that are sent before their replies are read.
const pipelineSize = 500

// Index adds a member to an index set.
func (c *Client) Index(ctx context.Context, set, member string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failed(ctx, c.rdb.SAdd(ctx, set, member).Err())
}

// Unindex removes from an index set the name of a key that was deleted. Between
// the two, somebody may have created it again: then it is put back.
func (c *Client) Unindex(ctx context.Context, set, key string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.rdb.SRem(ctx, set, key).Err(); err != nil {
		return failed(ctx, err)
	}
	n, err := c.rdb.Exists(ctx, key).Result()
	if err != nil || n == 0 {
		return failed(ctx, err)
	}
	return c.Index(ctx, set, key)
}

// Indexed returns the members of an index set, in no order.
func (c *Client) Indexed(ctx context.Context, set string) ([]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	members, err := c.rdb.SMembers(ctx, set).Result()
	return members, failed(ctx, err)
}

// Presence tells of a key whether it exists, and whether it is a hash with a
// field nonce.
type Presence struct {
	Exists, HasNonce bool
}

// Presences looks at many keys, each by itself.
func (c *Client) Presences(ctx context.Context, keys []string) ([]Presence, error) {
	found := make([]Presence, len(keys))
	exists := make([]*redis.IntCmd, len(keys))
	nonces := make([]*redis.BoolCmd, len(keys))
	err := c.pipelined(ctx, len(keys), pipelineSize/2, func(p redis.Pipeliner, i int) {
		exists[i] = p.Exists(ctx, keys[i])
		nonces[i] = p.HExists(ctx, keys[i], "nonce")
	})
	if err != nil {
		return nil, err
	}
	for i := range keys {
		n, err := exists[i].Result()
		if err != nil {
			return nil, failed(ctx, err)
		}
		has, err := nonces[i].Result()
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, failed(ctx, err)
		}
		found[i] = Presence{Exists: n == 1, HasNonce: has}
	}
	return found, nil
}

// pipelined lets add put the commands of 0 ≤ i < n into pipelines, chunk at a
// time. The error is that of a pipeline that was not answered; the answers are
// in the commands.
func (c *Client) pipelined(ctx context.Context, n, chunk int, add func(p redis.Pipeliner, i int)) error {
	for from := 0; from < n; from += chunk {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p := c.rdb.Pipeline()
		for i := from; i < min(from+chunk, n); i++ {
			add(p, i)
		}
		if _, err := p.Exec(ctx); err != nil && !answered(err) && !errors.Is(err, redis.Nil) {
			return failed(ctx, err)
		}
	}
	return nil
}

// ReadHash returns all fields of a hash, none where there is no such key.
func (c *Client) ReadHash(ctx context.Context, key string) (map[string]string, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	fields, err := c.rdb.HGetAll(ctx, key).Result()
	return fields, failed(ctx, err)
}

// CreateHash writes a hash where there is no such key, and reports whether it
// did.
func (c *Client) CreateHash(ctx context.Context, key string, fields map[string]string) (created bool, err error) {
	args := make([]any, 0, 2*len(fields))
	for field, value := range fields {
		args = append(args, field, value)
	}
	reply, err := c.run(ctx, hashCreate, []string{key}, args...)
	return reply == int64(1), err
}
