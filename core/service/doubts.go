package service

import (
	"context"
	"errors"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// doubt notes groups that may have lost their last writes, and with them what they had
// adopted of their stream, whose record may lie elsewhere and have lost nothing. The
// beginning and the end of a correction say so, in case that the coordinator which began
// it is gone.
func (c *Coordinator) doubt(key port.GroupKey, events []group.Event) {
	for _, e := range events {
		switch e.(type) {
		case group.CorrectionOpened, group.CorrectionEnded:
			c.mu.Lock()
			c.doubts[key] = struct{}{}
			c.mu.Unlock()
		}
	}
}

// tellDoubts has the groups of a stream that are doubted adopt its shards anew.
func (c *Coordinator) tellDoubts(ctx context.Context, prefix string) error {
	var cmds []stream.Command
	c.mu.Lock()
	for key := range c.doubts {
		if key.Stream == prefix {
			cmds = append(cmds, stream.GroupWentBack{Name: key.Group})
			delete(c.doubts, key)
		}
	}
	c.mu.Unlock()
	if len(cmds) == 0 {
		return nil
	}
	_, err := c.changeStream(ctx, prefix, cmds...)
	if err == nil || errors.Is(err, protocol.ErrStreamNotFound) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		if back, ok := cmd.(stream.GroupWentBack); ok {
			c.doubts[port.GroupKey{Stream: prefix, Group: back.Name}] = struct{}{}
		}
	}
	return err
}

// overtaken has all groups of a stream told of its shards again where a later version of
// its record was seen here, or is followed by a group, than there is: the record has lost
// its last writes, and that of the group, which may lie elsewhere, has not.
func (c *Coordinator) overtaken(ctx context.Context, s stream.State) (stream.State, error) {
	var seen stream.WentBack
	c.mu.Lock()
	if k, there := c.known[s.Prefix]; there {
		seen = stream.WentBack{Version: k.latest, HighestCount: k.highest}
	}
	for i := range s.Groups {
		r, running := c.groups[port.GroupKey{Stream: s.Prefix, Group: s.Groups[i].Name}]
		if !running {
			continue
		}
		if v := r.view.Load(); v != nil && v.State.StreamVersion > s.Version {
			seen.Version, seen.HighestCount = max(seen.Version, v.State.StreamVersion), max(seen.HighestCount, v.State.ReadCount)
		}
	}
	c.mu.Unlock()
	if seen.Version <= s.Version {
		return s, nil
	}
	return c.changeStream(ctx, s.Prefix, seen)
}
