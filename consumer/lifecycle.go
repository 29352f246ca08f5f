package consumer

import "context"

// Shard is a shard that this member may read.
type Shard struct {
	// Stream is the stream's prefix, Index the number of the shard, Key the
	// Redis key of its stream.
	Stream string
	Index  int
	Key    string
	// Token is the fencing token: it rises with each new owner of the shard.
	Token int64
}

// Lifecycle is told which shards may be read. For one shard its methods are
// called one after the other; for different shards at the same time. After
// Assigned comes exactly one of Revoked and Lost.
type Lifecycle interface {
	// Assigned says that the shard may be read from now on. It should start the
	// reading and return. ctx ends when all work on the shard must end; its
	// cause tells why. The lease is kept as long as ctx has not ended, but a
	// read must not block beyond its end: see Consumer.LeaseLeft.
	Assigned(ctx context.Context, s Shard)
	// Revoked asks to let the shard go: stop reading at once, finish what is in
	// hand, acknowledge, and return. Only then the shard is given to another
	// member. ctx ends at the deadline, or when the shard is lost meanwhile.
	Revoked(ctx context.Context, s Shard)
	// Lost says that the shard is not ours any more; the context given to
	// Assigned has ended with cause. Drop everything, acknowledge nothing, and
	// return when no work is under way.
	Lost(s Shard, cause error)
}
