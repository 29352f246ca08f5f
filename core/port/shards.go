package port

import "context"

// Shards lets removed shards go, once nobody misses anything. It works on the Redis
// that holds the streams.
type Shards interface {
	// LookAt tells what shards hold, in the order of indexes, each at one moment.
	// Errors: what Redis says, when one of them could not be looked at.
	LookAt(ctx context.Context, prefix string, indexes []int) ([]Shard, error)
	// Retire removes shards, each in one atomic step with the look whether it is what
	// was proven; it returns what became of them, in their order. It can be repeated.
	// Errors: what Redis says; some may be gone then.
	Retire(ctx context.Context, r Retirement) ([]RetireOutcome, error)
	// Find returns those of the shards first ≤ i < end whose keys hold a stream,
	// ascending.
	Find(ctx context.Context, prefix string, first, end int) ([]int, error)
}

// Shard is what a shard holds, at one moment.
type Shard struct {
	Index int
	// Exists is false where there is no such key, or one that holds something else than
	// a stream; nothing else is set then.
	Exists bool
	// LastID is the last id that was generated in it, the field last-generated-id of
	// XINFO STREAM.
	LastID string
	// Records is the number of its entries.
	Records int64
	// Cursors are all consumer groups on it, by name.
	Cursors []Cursor
}

// Cursor is how far a consumer group has come in a shard.
type Cursor struct {
	Group string
	// Pending counts the entries that were handed out and not acknowledged, OldestID is
	// the first of them, empty for none.
	Pending  int64
	OldestID string
	// NextID is the first entry behind the last one that was handed out, empty for
	// none. It is looked for in the stream.
	NextID string
	// Unread counts the entries from NextID on: at least so many, 0 only with an empty
	// NextID.
	Unread int64
	// Lag is what Redis says of it, Unknown where it says nothing.
	Lag int64
}

// Retirement asks for the removal of shards.
type Retirement struct {
	Prefix string
	Shards []RetireShard
	// Groups are consumer groups that a shard with entries is busy without.
	Groups []string
	// Ignored are consumer groups that nobody has to wait for.
	Ignored []string
}

// RetireShard is one of them.
type RetireShard struct {
	Index int
	// LastID is the last id that was generated in it when it was looked at, empty when
	// it did not exist. A stream with another one is kept.
	LastID string
	// Force removes it with whatever it holds, if LastID is right.
	Force bool
}

// RetireOutcome is what became of a shard.
type RetireOutcome uint8

// The outcomes.
const (
	// ShardGone: it is gone, or was not there.
	ShardGone RetireOutcome = iota
	// ShardKept: it is not what was proven: another stream, or written to since.
	ShardKept
	// ShardBusy: a consumer group has something left to do in it, or it holds entries
	// and no group.
	ShardBusy
)
