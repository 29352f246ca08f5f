package command

import (
	"context"
	"strings"
)

// StoreID says where the id of a store is, and what becomes of it.
type StoreID struct {
	// Key holds the id.
	Key string
	// Parts are keys that were written before it, so that each of several servers
	// has some; none on one server. Where one is missing, a server has lost what
	// it held, and the store counts as another one.
	Parts []string
	// Drawn is the id to give.
	Drawn string
	// Known is the id that the caller was told before, empty for none. Where the
	// store has another one, it is marked as emptied.
	Known string
}

// emptiedMark stands before the id of a store that was emptied, as somebody has seen
// who knew an earlier id.
const emptiedMark = "emptied:"

// StoreID returns the id of the store, which is id.Drawn if there was none, or a
// part of the store was emptied; and whether it is marked as emptied.
func (c *Client) StoreID(ctx context.Context, id StoreID) (name string, emptied bool, err error) {
	value, err := c.storeID(ctx, id)
	if err != nil {
		return "", false, err
	}
	name, emptied = strings.CutPrefix(value, emptiedMark)
	if emptied || id.Known == "" || id.Known == name {
		return name, emptied, nil
	}
	reply, err := c.write(ctx, valueReplace, []string{id.Key}, value, emptiedMark+name)
	if err != nil {
		return "", false, err
	}
	now, ok := reply.(string)
	if !ok {
		return "", false, errReply(reply)
	}
	name, emptied = strings.CutPrefix(now, emptiedMark)
	return name, emptied, nil
}

// storeID returns the value of the id's key, which it writes first where it has to.
func (c *Client) storeID(ctx context.Context, id StoreID) (string, error) {
	found, err := c.command(ctx, id.Key, "get", id.Key)
	if err != nil {
		return "", err
	}
	at, there := found.(string)
	if there {
		whole, err := c.allThere(ctx, id.Parts)
		if err != nil || whole {
			return at, err
		}
		// First the id: until the parts are there, everybody sees that some are
		// missing, and draws another one at worst.
		reply, err := c.write(ctx, valueReplace, []string{id.Key}, at, id.Drawn)
		if err != nil {
			return "", err
		}
		if at, there = reply.(string); !there {
			return "", errReply(reply)
		}
		return at, c.putMissing(ctx, id.Parts, id.Drawn)
	}
	// First the parts: whoever finds the id finds them.
	if err := c.putMissing(ctx, append(id.Parts[:len(id.Parts):len(id.Parts)], id.Key), id.Drawn); err != nil {
		return "", err
	}
	if found, err = c.command(ctx, id.Key, "get", id.Key); err != nil {
		return "", err
	}
	if at, there = found.(string); !there {
		return "", errReply(found)
	}
	return at, nil
}

// allThere reports whether all of the keys exist.
func (c *Client) allThere(ctx context.Context, keys []string) (bool, error) {
	calls, err := c.each(ctx, len(keys), func(i int) *call {
		return &call{key: keys[i], args: []any{"exists", keys[i]}}
	})
	if err != nil {
		return false, err
	}
	for _, one := range calls {
		if one.reply != int64(1) {
			return false, nil
		}
	}
	return true, nil
}

// putMissing writes keys that do not exist, the last one after all others.
func (c *Client) putMissing(ctx context.Context, keys []string, value string) error {
	put := func(keys []string) error {
		_, err := c.each(ctx, len(keys), func(i int) *call {
			return &call{key: keys[i], args: []any{"set", keys[i], value, "nx"}}
		})
		return err
	}
	if len(keys) == 0 {
		return nil
	}
	last := len(keys) - 1
	if err := put(keys[:last]); err != nil {
		return err
	}
	return put(keys[last:])
}
