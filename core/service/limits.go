package service

import "github.com/redis-stream-coordinator/rsc/core/protocol"

// SetMaxShards replaces Config.MaxShards for streams that are created or scaled from now
// on; streams that have more keep them.
// Errors: protocol.ErrInvalidRequest for a number below Config.DefaultShards or above
// protocol.MaxShards.
func (c *Coordinator) SetMaxShards(n int) error {
	if n < c.cfg.DefaultShards || n > protocol.MaxShards {
		return protocol.ErrInvalidRequest.With("the most shards of a stream: is %d, must be between %d, which streams have by default, and %d", n, c.cfg.DefaultShards, protocol.MaxShards)
	}
	c.most.Store(int64(n))
	return nil
}

// maxShards bounds the shard count of a stream.
func (c *Coordinator) maxShards() int {
	if most := c.most.Load(); most > 0 {
		return int(most)
	}
	return c.cfg.MaxShards
}
