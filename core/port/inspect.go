package port

import (
	"context"
	"time"
)

// Unknown stands for a number that Redis does not tell, or not to us.
const Unknown int64 = -1

// Inspector looks into the streams for people, dashboards and scalers. It changes
// nothing, and every call reads a bounded amount.
type Inspector interface {
	// InspectShards describes the streams under keys, in their order. A key whose server
	// cannot be reached has its error in ShardState.Err, and the others their answers.
	// Errors: what kept the whole call from being made.
	InspectShards(ctx context.Context, q ShardQuery) ([]ShardState, error)
	// ReadEntries reads a page of each range, in their order; a stream that does not
	// exist has none. Errors: the first of all.
	ReadEntries(ctx context.Context, ranges []EntryRange) ([]EntryPage, error)
}

// ShardQuery says what to look at.
type ShardQuery struct {
	Keys []string
	// Group is the consumer group whose position is asked for.
	Group string
	// CountUpTo bounds the entries that are read of each stream, from either end, to
	// count what the group was not given where its position does not tell.
	CountUpTo int
	// Memory asks for the memory that each stream takes, Place for the servers.
	Memory, Place bool
}

// ShardState is what the stream under one key holds, at about one moment.
type ShardState struct {
	// Err says why nothing is known; all else is zero then.
	Err error
	// Exists is false where there is no such key; only Place is set then.
	Exists bool
	// Length counts the entries, Added those that ever were, Unknown from old servers.
	Length, Added int64
	// FirstID and LastID are those of entries that are there, empty without any;
	// LastGeneratedID is the highest that ever was.
	FirstID, LastID, LastGeneratedID string
	// MemoryBytes is Unknown where it was not asked for, or not told.
	MemoryBytes int64
	Place       ShardPlace
	// Group is nil where the stream has no such consumer group.
	Group *GroupPosition
}

// ShardPlace is the server of a Redis Cluster that holds a key; the zero value where
// there is no Cluster, or its layout is not told.
type ShardPlace struct {
	// Endpoint is host and port, NodeID the Cluster's name of the server.
	Endpoint, NodeID string
	// FirstSlot to LastSlot are neighbouring slots of the same server, the key's
	// among them.
	FirstSlot, LastSlot int
}

// GroupPosition is how far a consumer group has come in one stream.
type GroupPosition struct {
	// Consumers counts its consumers, Pending the entries that were handed to them and
	// not acknowledged.
	Consumers, Pending int64
	LastDeliveredID    string
	// Undelivered counts the entries that were not handed out. Unless Exact is set there
	// are at least so many; then Estimate is what the server believes, which may be
	// wrong after trims and deletions, and never below Undelivered.
	Undelivered int64
	Exact       bool
	Estimate    int64
	// OldestID is the first of them, empty without any, and OldestAge the time since
	// its id was made, by the server's clock.
	OldestID  string
	OldestAge time.Duration
}

// EntryRange asks for entries of one stream.
type EntryRange struct {
	Key string
	// Backward reads from the newest to the oldest.
	Backward bool
	// After is the id behind which the page begins, in the direction of reading; empty
	// for the first page. Only asks for the entry with this id and no other.
	After, Only string
	// Count bounds the entries, Bytes their size, of which one may be larger. Bytes 0
	// means 1 MiB.
	Count, Bytes int
}

// EntryPage is a part of a stream.
type EntryPage struct {
	Entries []Entry
	// More is true when the stream goes on behind the page.
	More bool
}

// Entry is one entry of a stream.
type Entry struct {
	ID string
	// Fields are names and values by turns, in the order in which they were written.
	// They may hold any bytes, and a name may occur more than once.
	Fields []string
}

// Size returns the bytes of all names and values.
func (e Entry) Size() int {
	n := 0
	for _, f := range e.Fields {
		n += len(f)
	}
	return n
}
