package group

import (
	"slices"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Adopt takes over what the stream's record says of the shards: what was added is
// given out, what is read no more is taken back. A record that is not newer than the
// one that the group follows changes nothing.
type Adopt struct {
	ShardCount int
	// ReadCount is how many are read, 0 for ShardCount; but for those that are Closed.
	ReadCount int
	Closed    spans.Set
	// StreamVersion is that of the record; 0 for a stream that has none yet, and then
	// the group only grows.
	StreamVersion int64
}

func (Adopt) isCommand() {}

// ShardsAdopted: the group follows another record of its stream.
type ShardsAdopted struct {
	ShardCount, ReadCount int
	StreamVersion         int64
}

func (ShardsAdopted) isEvent() {}

func (c *change) adopt(cmd Adopt) {
	read := max(cmd.ReadCount, cmd.ShardCount)
	first := cmd.StreamVersion == 0
	switch {
	case cmd.ShardCount < 0 || read > protocol.MaxShards:
		return
	case first && cmd.ShardCount <= c.s.ShardCount:
		return
	case !first && cmd.StreamVersion <= c.s.StreamVersion && c.on(rules.LayoutsDoNotGoBack):
		return
	}
	c.s.StreamVersion = max(c.s.StreamVersion, cmd.StreamVersion)
	c.changed = true
	if cmd.ShardCount == c.s.ShardCount && read == c.s.ReadCount && slices.Equal(cmd.Closed, c.s.Closed) {
		return
	}
	c.s.ShardCount, c.s.ReadCount, c.s.Closed = cmd.ShardCount, read, cmd.Closed
	c.emit(ShardsAdopted{cmd.ShardCount, read, c.s.StreamVersion})
	if more := read - len(c.s.Target); more > 0 {
		l := c.ledger()
		l.Holder = append(l.Holder, slices.Repeat([]int32{None}, more)...)
		l.Grant = append(l.Grant, make([]protocol.Epoch, more)...)
		l.Revoke = append(l.Revoke, make([]protocol.Epoch, more)...)
		c.s.Target = append(c.s.Target, slices.Repeat([]int32{None}, more)...)
	}
	c.membership = true
}

// Reader tells whether a shard is read, or may still be: until the group has adopted that
// it is closed, and its holder has let go. member is the holder of a closed one.
func (s *State) Reader(shard int) (member string, read bool) {
	if !s.closed(shard) {
		return "", true
	}
	if shard < len(s.Ledger.Holder) {
		if h := s.Ledger.Holder[shard]; h != None {
			return s.Lives[h].Member, true
		}
	}
	return "", false
}

// cut drops the rows of shards that are read no more, once nobody may be reading them.
func (c *change) cut() {
	if !c.changed {
		return
	}
	rows := len(c.s.Target)
	for rows > c.s.ReadCount && (c.s.Ledger.Holder[rows-1] == None || !c.on(rules.RemovedIsHeld)) {
		rows--
	}
	if rows == len(c.s.Target) {
		return
	}
	l := c.ledger()
	l.Holder, l.Grant, l.Revoke = l.Holder[:rows:rows], l.Grant[:rows:rows], l.Revoke[:rows:rows]
	c.s.Target = c.s.Target[:rows:rows]
}
