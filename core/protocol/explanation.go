package protocol

import "time"

// Cause names why a shard is as it is.
type Cause string

// The causes.
const (
	// CauseNone: the member that should hold the shard holds it and says so.
	CauseNone Cause = "NONE"
	// CauseNoMember: the group has no live member.
	CauseNoMember Cause = "NO_MEMBER"
	// CauseAllDraining: every live member is drained by an operator.
	CauseAllDraining Cause = "ALL_DRAINING"
	// CauseCorrection: the store went backwards; nothing is granted until it is sure
	// who reads what.
	CauseCorrection Cause = "CORRECTION"
	// CauseNotReported: the shard was granted, and the member has not said yet that it
	// reads it.
	CauseNotReported Cause = "NOT_REPORTED"
	// CauseSilent: the holder has missed heartbeats.
	CauseSilent Cause = "MEMBER_SILENT"
	// CauseRevoking: the holder was asked to let go and has not yet.
	CauseRevoking Cause = "REVOKING"
	// CauseLeaving: the holder leaves and still works on it.
	CauseLeaving Cause = "MEMBER_LEAVING"
	// CauseOldIncarnation: the holder is over, and may read until its lease ends.
	CauseOldIncarnation Cause = "OLD_INCARNATION"
	// CauseRemoved: the shard is not part of the stream any more.
	CauseRemoved Cause = "REMOVED"
	// CauseToBeGranted: the shard is free and is granted with the next change.
	CauseToBeGranted Cause = "TO_BE_GRANTED"
)

// Explanation answers GET …/shards/{shardIndex}/explain: who reads a shard, who
// should, what is waited for, since when, and what ends it.
type Explanation struct {
	StreamPrefix  string     `json:"streamPrefix"`
	ConsumerGroup string     `json:"consumerGroup"`
	ShardIndex    ShardIndex `json:"shardIndex"`
	StreamKey     string     `json:"streamKey"`
	// Settled is true with CauseNone alone.
	Settled bool  `json:"settled"`
	Cause   Cause `json:"cause"`
	// Summary says it all in a sentence or two.
	Summary string `json:"summary"`
	// Since is when it began, SinceExact false where it may have been earlier; null
	// where it is not remembered.
	Since      *time.Time `json:"since"`
	SinceExact bool       `json:"sinceExact"`
	// EndsWhen says what ends it, EndsBy when that will have happened at the latest;
	// null where nothing but somebody's action ends it.
	EndsWhen string     `json:"endsWhen"`
	EndsBy   *time.Time `json:"endsBy"`
	// Holder may be reading the shard now, null for nobody; Target should read it.
	Holder *ShardHolder `json:"holder"`
	Target *ShardTarget `json:"target"`
	// Records are what Redis holds of it, null where no Redis is configured.
	Records *ShardRecords `json:"records"`
}

// MaxExplanations bounds the shards of an ExplanationList.
const MaxExplanations = 1000

// ExplanationList answers GET …/explain: the shards that are not read as they should
// be, by index, at most MaxExplanations.
type ExplanationList struct {
	StreamPrefix  string `json:"streamPrefix"`
	ConsumerGroup string `json:"consumerGroup"`
	ShardCount    int    `json:"shardCount"`
	// SettledShards are read as they should be.
	SettledShards int `json:"settledShards"`
	// Shards say nothing of Redis: ask for one of them alone for that.
	Shards []Explanation `json:"shards"`
}

// ShardHolder is who may be reading a shard.
type ShardHolder struct {
	MemberID    string      `json:"memberId"`
	MemberName  string      `json:"memberName"`
	Incarnation string      `json:"incarnation"`
	State       MemberState `json:"state"`
	// GrantEpoch is the fencing token, RevokeEpoch that in which the shard was taken
	// away again, 0 if it was not.
	GrantEpoch  Epoch `json:"grantEpoch"`
	RevokeEpoch Epoch `json:"revokeEpoch"`
	// SaysItReads is what its last report says of the shard.
	SaysItReads bool `json:"saysItReads"`
	// InFlight counts the records that it still works on after a revoke, as reported.
	InFlight             int        `json:"inFlight"`
	LastHeartbeatAt      *time.Time `json:"lastHeartbeatAt"`
	MemberLeaseExpiresAt *time.Time `json:"memberLeaseExpiresAt"`
}

// ShardTarget is who should read a shard.
type ShardTarget struct {
	MemberID   string      `json:"memberId"`
	MemberName string      `json:"memberName"`
	State      MemberState `json:"state"`
}

// ShardRecords is what Redis holds of a shard.
type ShardRecords struct {
	// Error says why nothing is known, null when it is.
	Error *string `json:"error"`
	// Exists is false when the key is missing, GroupExists when the consumer group is.
	Exists                 bool   `json:"exists"`
	GroupExists            bool   `json:"groupExists"`
	Length                 int64  `json:"length"`
	Pending                int64  `json:"pending"`
	Lag                    *int64 `json:"lag"`
	LagAtLeast             int64  `json:"lagAtLeast"`
	OldestUndeliveredAgeMs *int64 `json:"oldestUndeliveredAgeMs"`
}
