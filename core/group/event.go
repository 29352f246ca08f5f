package group

import "github.com/redis-stream-coordinator/rsc/core/protocol"

// Event is something that happened. Events are the single source of metrics,
// logs and audit; they are published only after the state that they belong to
// was saved.
type Event interface{ isEvent() }

// MemberJoined: an incarnation joined. Replaced says that it took the name over
// from a process that may still run.
type MemberJoined struct {
	Member, Incarnation string
	Epoch               protocol.Epoch
	Replaced            bool
}

// MemberLeaving: an incarnation said goodbye and lets its shards go.
type MemberLeaving struct{ Member, Incarnation string }

// MemberEnded: an incarnation is over. Detail says why it was fenced.
type MemberEnded struct {
	Member, Incarnation string
	Reason              EndReason
	Detail              string
}

// ShardGranted: the member may read the shard; Epoch is its fencing token.
type ShardGranted struct {
	Shard  protocol.ShardIndex
	Member string
	Epoch  protocol.Epoch
}

// ShardRevoked: the member was asked to let the shard go.
type ShardRevoked struct {
	Shard  protocol.ShardIndex
	Member string
	Epoch  protocol.Epoch
}

// ReleaseCause says why a shard is free.
type ReleaseCause string

// The causes.
const (
	ByReport   ReleaseCause = "reported revoked"
	ByOmission ReleaseCause = "left out"
	ByLeave    ReleaseCause = "left"
	ByLease    ReleaseCause = "lease ran out"
	ByRestart  ReleaseCause = "stopped by its successor"
	ByTimeout  ReleaseCause = "rebalance timeout"
)

// ShardReleased: nobody may read the shard any more.
type ShardReleased struct {
	Shard  protocol.ShardIndex
	Member string
	Cause  ReleaseCause
}

// TargetChanged: a new target was computed. Moves counts the shards that were
// taken from live members.
type TargetChanged struct {
	GroupEpoch protocol.Epoch
	Members    int
	Moves      int
}

// RowsIgnored: a report named shards that it cannot speak of.
type RowsIgnored struct {
	Member string
	Rows   int
}

// StampsLost: the store had no proof of life of so many lives, and their leases count
// anew. No command makes it; a coordinator that looks does.
type StampsLost struct {
	Lives int
}

func (MemberJoined) isEvent()  {}
func (MemberLeaving) isEvent() {}
func (MemberEnded) isEvent()   {}
func (ShardGranted) isEvent()  {}
func (ShardRevoked) isEvent()  {}
func (ShardReleased) isEvent() {}
func (TargetChanged) isEvent() {}
func (RowsIgnored) isEvent()   {}
func (StampsLost) isEvent()    {}
