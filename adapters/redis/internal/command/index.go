package command

import (
	"context"

	"github.com/redis/go-redis/v9"
)

const (
	// pipelineSize bounds the commands that are sent before their replies are read.
	pipelineSize = 500
	// scanCount is how many keys a server looks at for one answer to SCAN.
	scanCount = 1000
)

// Index adds a member to an index set.
func (c *Client) Index(ctx context.Context, set, member string) error {
	_, err := c.command(ctx, set, "sadd", set, member)
	return err
}

// Unindex removes from an index set the name of a key that does not exist.
// Between the two, somebody may have created it: then it is put back. (Whoever
// creates a key adds its name before and after.)
func (c *Client) Unindex(ctx context.Context, set, key string) error {
	if _, err := c.command(ctx, set, "srem", set, key); err != nil {
		return err
	}
	n, err := c.command(ctx, key, "exists", key)
	if err != nil || n == int64(0) {
		return err
	}
	return c.Index(ctx, set, key)
}

// Indexed returns the members of an index set, in no order.
func (c *Client) Indexed(ctx context.Context, set string) ([]string, error) {
	reply, err := c.command(ctx, set, "smembers", set)
	if err != nil {
		return nil, err
	}
	return texts(reply)
}

// Presence tells of a key whether it exists, and whether it is a hash with a
// field nonce.
type Presence struct {
	Exists, HasNonce bool
}

// Presences looks at many keys, each by itself.
func (c *Client) Presences(ctx context.Context, keys []string) ([]Presence, error) {
	calls := make([]*call, 2*len(keys))
	for i, key := range keys {
		calls[2*i] = &call{key: key, args: []any{"exists", key}}
		calls[2*i+1] = &call{key: key, args: []any{"hexists", key, "nonce"}}
	}
	if err := c.nodes.runFor(ctx, storePatience, calls); err != nil {
		return nil, err
	}
	found := make([]Presence, len(keys))
	for i := range keys {
		exists, has := calls[2*i], calls[2*i+1]
		if err := c.nodes.outcome(ctx, exists); err != nil {
			return nil, err
		}
		if err := c.nodes.outcome(ctx, has); err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE") {
			return nil, err
		}
		found[i] = Presence{Exists: exists.reply == int64(1), HasNonce: has.reply == int64(1)}
	}
	return found, nil
}

// Scan returns the keys that begin and end like this, of all servers. A key that
// moves from one server to another meanwhile may be missing.
func (c *Client) Scan(ctx context.Context, begin, end string) ([]string, error) {
	pattern := globs.Replace(begin) + "*" + globs.Replace(end)
	servers, err := c.nodes.masters(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]struct{}{} // SCAN may name a key twice
	for _, server := range servers {
		for cursor := uint64(0); ; {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			var keys []string
			if keys, cursor, err = server.Scan(ctx, cursor, pattern, scanCount).Result(); err != nil {
				return nil, failed(ctx, err)
			}
			for _, key := range keys {
				found[key] = struct{}{}
			}
			if cursor == 0 {
				break
			}
		}
	}
	list := make([]string, 0, len(found))
	for key := range found {
		list = append(list, key)
	}
	return list, nil
}

// ReadHash returns all fields of a hash, none where there is no such key.
func (c *Client) ReadHash(ctx context.Context, key string) (map[string]string, error) {
	reply, err := c.command(ctx, key, "hgetall", key)
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	switch all := reply.(type) {
	case map[any]any: // RESP 3
		for field, value := range all {
			f, ok1 := field.(string)
			v, ok2 := value.(string)
			if !ok1 || !ok2 {
				return nil, errReply(value)
			}
			fields[f] = v
		}
		return fields, nil
	default:
		flat, err := texts(reply)
		if err != nil || len(flat)%2 != 0 {
			return nil, errReply(reply)
		}
		for i := 0; i < len(flat); i += 2 {
			fields[flat[i]] = flat[i+1]
		}
		return fields, nil
	}
}

// CreateHash writes a hash where there is no such key, and reports whether it
// did.
func (c *Client) CreateHash(ctx context.Context, key string, fields map[string]string) (created bool, err error) {
	args := make([]any, 0, 2*len(fields))
	for field, value := range fields {
		args = append(args, field, value)
	}
	reply, err := c.keep(ctx, hashCreate, []string{key}, args...)
	return reply == int64(1), err
}

// texts reads a list of texts, in RESP 2 or 3.
func texts(reply any) ([]string, error) {
	if reply == nil {
		return nil, nil
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, errReply(reply)
	}
	out := make([]string, len(list))
	for i, one := range list {
		if out[i], ok = one.(string); !ok {
			return nil, errReply(one)
		}
	}
	return out, nil
}
