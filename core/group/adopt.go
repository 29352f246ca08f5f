package group

import (
	"slices"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Adopt takes over a larger shard count of the stream, at a version of its
// record. A smaller one is not taken over: shards that are read must be drained
// first.
type Adopt struct {
	ShardCount    int
	StreamVersion int64
}

func (Adopt) isCommand() {}

// adopt adds shards that nobody holds yet.
func (c *change) adopt(cmd Adopt) {
	if cmd.StreamVersion > c.s.StreamVersion {
		c.s.StreamVersion = cmd.StreamVersion
		c.changed = true
	}
	more := cmd.ShardCount - c.s.ShardCount
	if more <= 0 || cmd.ShardCount > protocol.MaxShards {
		return
	}
	l := c.ledger()
	l.Holder = append(l.Holder, slices.Repeat([]int32{None}, more)...)
	l.Grant = append(l.Grant, make([]protocol.Epoch, more)...)
	l.Revoke = append(l.Revoke, make([]protocol.Epoch, more)...)
	c.s.Target = append(c.s.Target, slices.Repeat([]int32{None}, more)...)
	c.s.ShardCount = cmd.ShardCount
	c.membership = true
}
