package protocol

// Status is the coordinator's verdict on a heartbeat.
type Status string

// The statuses. Only OK, SYNC_METADATA and REVOKE_PENDING renew a member's
// lease.
const (
	// StatusOK: the assignment in the answer is to be applied.
	StatusOK Status = "OK"
	// StatusRetry: nothing changed; send the same again later. Reason says why.
	StatusRetry Status = "RETRY"
	// StatusSyncMetadata: the member knows another metadata version.
	StatusSyncMetadata Status = "SYNC_METADATA"
	// StatusRevokePending: keep what is assigned, wait for the rest.
	StatusRevokePending Status = "REVOKE_PENDING"
	// StatusUnknownMember: no such member or group; join from scratch.
	StatusUnknownMember Status = "UNKNOWN_MEMBER_ID"
	// StatusFencedEpoch: the incarnation is over; stop reading, join as a new one.
	StatusFencedEpoch Status = "FENCED_MEMBER_EPOCH"
	// StatusUnsupportedProtocol: protocolVersion is not spoken here.
	StatusUnsupportedProtocol Status = "UNSUPPORTED_PROTOCOL"
	// StatusInvalidRequest: the request contradicts itself or the state.
	StatusInvalidRequest Status = "INVALID_REQUEST"
)

// RenewsLease reports whether an answer with this status renews the lease of
// the member that sent the request.
func (s Status) RenewsLease() bool {
	return s == StatusOK || s == StatusSyncMetadata || s == StatusRevokePending
}

// RevokeState is how far a member has come with letting a shard go.
type RevokeState string

// The states of a revoke.
const (
	// RevokeRevoking: the member has heard of it and still reads.
	RevokeRevoking RevokeState = "REVOKING"
	// RevokeDraining: reading has stopped, work is in flight.
	RevokeDraining RevokeState = "DRAINING"
	// RevokeRevoked: nothing is read or in flight any more.
	RevokeRevoked RevokeState = "REVOKED"
)

// Heartbeat is the request that a member sends every heartbeat interval, and
// at once when it has something to say.
type Heartbeat struct {
	// ProtocolVersion must be Version.
	ProtocolVersion int `json:"protocolVersion"`
	// RequestID is echoed as responseTo; fresh for every request.
	RequestID string `json:"requestId"`
	// MemberID names the member; it equals the path segment of the URL.
	MemberID string `json:"memberId"`
	// MemberName is for people; empty leaves the known name unchanged.
	MemberName string `json:"memberName,omitempty"`
	// Incarnation is the random id of this life of the member; empty from
	// clients that do not know the field.
	Incarnation string `json:"incarnation,omitempty"`
	// StoppedIncarnation, with EpochJoin, is the earlier life of the same
	// process: it reads nothing any more, so what it held is free.
	StoppedIncarnation string `json:"stoppedIncarnation,omitempty"`
	// MemberEpoch is EpochJoin, EpochLeave, or the epoch of the last answer.
	MemberEpoch Epoch `json:"memberEpoch"`
	// MetadataVersion is that of the last answer, 0 at first.
	MetadataVersion int64 `json:"metadataVersion"`
	// Capacity says how much the member can do at once; for display.
	Capacity Capacity `json:"runtimeConsumerCapacity"`
	// MaxWaitMs asks the coordinator to hold the answer until something changes
	// for this member, at most so many milliseconds (capped, see MaxWait); 0
	// asks for an answer at once.
	MaxWaitMs int64 `json:"maxWaitMs,omitempty"`
	// OwnedShards are the shards that the member reads.
	OwnedShards Shards `json:"ownedShards"`
	// RevokingShards are those it lets go of, or has let go of since its last
	// acknowledged request.
	RevokingShards []RevokingShard `json:"revokingShards"`
	// ShardProgress is for display; rows may be sent in turns.
	ShardProgress []ShardProgress `json:"shardProgress"`
}

// Capacity is how many handlers a member runs at most and how many are idle.
type Capacity struct {
	MaxConcurrency       int `json:"runtimeMaxConcurrency"`
	AvailableConcurrency int `json:"availableConcurrency"`
}

// RevokingShard reports a shard that the member lets go of.
type RevokingShard struct {
	Shard ShardIndex
	State RevokeState
	// InFlight counts the records still being handled. A shard is free when
	// State is RevokeRevoked and InFlight is 0.
	InFlight int
	// AckedAt is the ISO-8601 time of the last acknowledgement, empty if none.
	AckedAt string
}

// Terminal reports whether the member has let go of the shard for good.
func (r RevokingShard) Terminal() bool { return r.State == RevokeRevoked && r.InFlight == 0 }

// ShardProgress reports how far the member has read a shard.
type ShardProgress struct {
	Shard           ShardIndex
	StreamKey       string
	LastDeliveredID string
	LastAckedID     string
	PendingCount    int64
	// UpdatedAt is an ISO-8601 time, empty if nothing was delivered yet.
	UpdatedAt string
	// Missing is true when the shard's stream key does not exist.
	Missing bool
}

// HeartbeatResponse answers a heartbeat. Every field is always present.
type HeartbeatResponse struct {
	// ResponseTo echoes the request's id.
	ResponseTo string `json:"responseTo"`
	Status     Status `json:"status"`
	MemberID   string `json:"memberId"`
	// MemberEpoch is the epoch to send next; an echo where nothing changed.
	MemberEpoch         Epoch `json:"memberEpoch"`
	HeartbeatIntervalMs int64 `json:"heartbeatIntervalMs"`
	RebalanceTimeoutMs  int64 `json:"rebalanceTimeoutMs"`
	// MemberLeaseTTLMs is the lease time; the member takes its own margin off.
	MemberLeaseTTLMs int64      `json:"memberLeaseTtlMs"`
	GroupEpoch       Epoch      `json:"groupEpoch"`
	AssignmentEpoch  Epoch      `json:"assignmentEpoch"`
	MetadataVersion  int64      `json:"metadataVersion"`
	Assignment       Assignment `json:"assignment"`
	// Reason says, with a refusal or RETRY, what to do or what is waited for.
	Reason string `json:"reason,omitempty"`
}

// Assignment is what a member may read now, and what it will get.
type Assignment struct {
	AssignedShards  []AssignedShard `json:"assignedShards"`
	PendingShards   Shards          `json:"pendingShards"`
	MetadataVersion int64           `json:"metadataVersion"`
	// Error is always "NONE"; kept for the documented shape.
	Error string `json:"error"`
}

// AssignedShard is a shard that the member may read.
type AssignedShard struct {
	Shard ShardIndex `json:"shardIndex"`
	// Epoch is the shard's fencing token: it rises with each new holder.
	Epoch Epoch `json:"epoch"`
}

// NewHeartbeatResponse returns an answer to q that says nothing but status:
// the epoch echoed, no shards, the timings t.
func NewHeartbeatResponse(q *Heartbeat, status Status, reason string, t Timings) HeartbeatResponse {
	return HeartbeatResponse{
		ResponseTo:          q.RequestID,
		Status:              status,
		MemberID:            q.MemberID,
		MemberEpoch:         q.MemberEpoch,
		HeartbeatIntervalMs: t.HeartbeatInterval.Milliseconds(),
		RebalanceTimeoutMs:  t.RebalanceTimeout.Milliseconds(),
		MemberLeaseTTLMs:    t.Lease.Milliseconds(),
		Assignment:          Assignment{AssignedShards: []AssignedShard{}, PendingShards: Shards{}, Error: "NONE"},
		Reason:              reason,
	}
}

// Validate reports a request that no coordinator can take, all complaints in
// one error that names the fields. The protocol version is not judged here: a
// wrong one has a status of its own.
func (q *Heartbeat) Validate() error {
	var bad complaints
	if q.ProtocolVersion < 1 {
		bad.addf("protocolVersion", "is %d, must be at least 1", q.ProtocolVersion)
	}
	checkName(&bad, "requestId", q.RequestID)
	checkName(&bad, "memberId", q.MemberID)
	if q.MemberName != "" {
		checkName(&bad, "memberName", q.MemberName)
	}
	if q.Incarnation != "" {
		checkName(&bad, "incarnation", q.Incarnation)
	}
	if q.StoppedIncarnation != "" {
		checkName(&bad, "stoppedIncarnation", q.StoppedIncarnation)
		if q.StoppedIncarnation == q.Incarnation {
			bad.addf("stoppedIncarnation", "must differ from incarnation")
		}
		if q.Incarnation == "" {
			bad.addf("stoppedIncarnation", "needs incarnation")
		}
	}
	if q.Capacity.MaxConcurrency < 1 {
		bad.addf("runtimeConsumerCapacity.runtimeMaxConcurrency", "is %d, must be at least 1", q.Capacity.MaxConcurrency)
	}
	if q.Capacity.AvailableConcurrency < 0 {
		bad.addf("runtimeConsumerCapacity.availableConcurrency", "is %d, must be at least 0", q.Capacity.AvailableConcurrency)
	}
	if q.MaxWaitMs < 0 {
		bad.addf("maxWaitMs", "is %d, must be at least 0", q.MaxWaitMs)
	}
	limit := func(field string, n int) {
		if n > MaxShards {
			bad.addf(field, "has %d entries, at most %d are allowed", n, MaxShards)
		}
	}
	limit("ownedShards", len(q.OwnedShards))
	limit("revokingShards", len(q.RevokingShards))
	limit("shardProgress", len(q.ShardProgress))
	for i := range q.RevokingShards {
		r := &q.RevokingShards[i]
		switch r.State {
		case RevokeRevoking, RevokeDraining, RevokeRevoked:
		default:
			bad.addf("revokingShards.state", "is %.40q, must be REVOKING, DRAINING or REVOKED", string(r.State))
			return bad.err()
		}
		if r.InFlight < 0 {
			bad.addf("revokingShards.inFlight", "is %d, must be at least 0", r.InFlight)
			return bad.err()
		}
	}
	return bad.err()
}
