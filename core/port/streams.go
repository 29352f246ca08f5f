package port

import (
	"context"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Provision asks for streams and consumer groups: every shard First ≤ i < End
// of Prefix is to exist, without any group too, with every group of Groups on it.
type Provision struct {
	Prefix string
	First  int
	End    int
	Groups []string
	// Start is where a consumer group begins that has to be created.
	Start protocol.GroupStart
	// Renew gives shards that exist another last generated id, a little higher, so that
	// whoever means to remove what he saw before (see Shards.Retire) finds another.
	Renew bool
}

// Streams is the Redis that holds the shards.
type Streams interface {
	// Provision creates what is missing and leaves what exists as it is; it can
	// be repeated. Errors: protocol.ErrStreamExists when a key holds something
	// that is not a stream, naming it, and then nothing was created;
	// protocol.ErrProvisioning otherwise, when some of it may have been.
	Provision(ctx context.Context, p Provision) error
	// Remove deletes the shards First ≤ i < End with all their records.
	// Keys that hold something else than a stream are left alone.
	Remove(ctx context.Context, prefix string, first, end int) error
	// RemoveGroup deletes the consumer group on the shards First ≤ i < End, with
	// its pending entries. Shards and groups that do not exist are no error.
	RemoveGroup(ctx context.Context, prefix, group string, first, end int) error
	// Ping reaches the Redis.
	Ping(ctx context.Context) error
}
