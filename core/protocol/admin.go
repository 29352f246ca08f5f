package protocol

import (
	"strings"
	"time"
)

// GroupStart says where a new consumer group begins to read a stream.
type GroupStart string

// The starting points.
const (
	// StartEarliest begins at the oldest record that the stream still has.
	StartEarliest GroupStart = "earliest"
	// StartLatest begins after the newest record at the group's creation.
	StartLatest GroupStart = "latest"
)

// CreateStream is the body of POST /streams/{prefix}.
type CreateStream struct {
	// InitialShardCount is the number of shards; nil means the configured default.
	InitialShardCount *int `json:"initialShardCount"`
	// AutoCreateGroups lets a member's join create its group; nil means true.
	AutoCreateGroups *bool `json:"autoCreateGroups,omitempty"`
	// GroupStart is where new groups begin; empty means StartEarliest.
	GroupStart GroupStart `json:"groupStart,omitempty"`
	// RequestedBy and Reason are kept in the audit.
	RequestedBy string `json:"requestedBy"`
	Reason      string `json:"reason,omitempty"`
}

// Validate checks the body; maxShards is the configured limit.
func (r *CreateStream) Validate(maxShards int) error {
	var bad complaints
	checkCount(&bad, "initialShardCount", r.InitialShardCount, maxShards)
	checkRequester(&bad, r.RequestedBy, r.Reason)
	switch r.GroupStart {
	case "", StartEarliest, StartLatest:
	default:
		bad.addf("groupStart", "is %.40q, must be earliest or latest", string(r.GroupStart))
	}
	return bad.err()
}

// CreateGroup is the body of POST /streams/{prefix}/groups/{group}.
type CreateGroup struct {
	// InitialShardCount creates the stream too when there is none; with an
	// existing stream it must equal its shard count. nil means the stream's
	// count, or the configured default.
	InitialShardCount *int   `json:"initialShardCount"`
	RequestedBy       string `json:"requestedBy"`
	Reason            string `json:"reason,omitempty"`
}

// Validate checks the body; maxShards is the configured limit.
func (r *CreateGroup) Validate(maxShards int) error {
	var bad complaints
	checkCount(&bad, "initialShardCount", r.InitialShardCount, maxShards)
	checkRequester(&bad, r.RequestedBy, r.Reason)
	return bad.err()
}

// Delete is the body of the DELETE calls.
type Delete struct {
	RequestedBy string `json:"requestedBy"`
	Reason      string `json:"reason"`
	// Force deletes a group that has live members; they are told so.
	Force bool `json:"force,omitempty"`
	// DeleteData, for a stream, removes the shards' keys with all records.
	DeleteData bool `json:"deleteData,omitempty"`
}

// Validate checks the body.
func (r *Delete) Validate() error {
	var bad complaints
	checkRequester(&bad, r.RequestedBy, r.Reason)
	if strings.TrimSpace(r.Reason) == "" {
		bad.addf("reason", "must not be blank")
	}
	return bad.err()
}

func checkCount(bad *complaints, field string, n *int, limit int) {
	if n != nil && (*n < 1 || *n > limit) {
		bad.addf(field, "is %d, must be between 1 and %d", *n, limit)
	}
}

func checkRequester(bad *complaints, requestedBy, reason string) {
	checkName(bad, "requestedBy", requestedBy)
	if len(reason) > MaxReasonBytes {
		bad.addf("reason", "is %d bytes long, at most %d are allowed", len(reason), MaxReasonBytes)
	}
}

// StreamCreated answers the creation of a stream.
type StreamCreated struct {
	StreamPrefix    string `json:"streamPrefix"`
	ShardCount      int    `json:"shardCount"`
	MetadataVersion int64  `json:"metadataVersion"`
}

// Stream describes a stream.
type Stream struct {
	StreamPrefix     string     `json:"streamPrefix"`
	ShardCount       int        `json:"shardCount"`
	MetadataVersion  int64      `json:"metadataVersion"`
	AutoCreateGroups bool       `json:"autoCreateGroups"`
	GroupStart       GroupStart `json:"groupStart"`
	Groups           []string   `json:"groups"`
	// Provisioned is false while streams or consumer groups are still to be
	// created in Redis.
	Provisioned bool `json:"provisioned"`
	// ActiveMigration is null while the shard count does not change.
	ActiveMigration *Migration `json:"activeMigration"`
	CreatedAt       time.Time  `json:"createdAt"`
	UpdatedAt       time.Time  `json:"updatedAt"`
}

// StreamList answers GET /streams.
type StreamList struct {
	Streams []Stream `json:"streams"`
}

// GroupState sums a group up.
type GroupState string

// The states of a group.
const (
	// GroupEmpty: no live member.
	GroupEmpty GroupState = "EMPTY"
	// GroupReconciling: ownership still differs from the target.
	GroupReconciling GroupState = "RECONCILING"
	// GroupStable: every shard is with its target and every member knows.
	GroupStable GroupState = "STABLE"
)

// Group describes a group.
type Group struct {
	StreamPrefix    string     `json:"streamPrefix"`
	ConsumerGroup   string     `json:"consumerGroup"`
	State           GroupState `json:"state"`
	GroupEpoch      Epoch      `json:"groupEpoch"`
	AssignmentEpoch Epoch      `json:"assignmentEpoch"`
	MetadataVersion int64      `json:"metadataVersion"`
	ShardCount      int        `json:"shardCount"`
	// ActiveMigration is null while the shard count does not change.
	ActiveMigration *Migration `json:"activeMigration"`
	// TargetAssignmentSummary counts the shards that each live member should hold.
	TargetAssignmentSummary map[string]int `json:"targetAssignmentSummary"`
	// CurrentAssignmentSummary counts the shards that each member holds.
	CurrentAssignmentSummary map[string]int `json:"currentAssignmentSummary"`
}

// GroupList answers GET /monitoring/groups.
type GroupList struct {
	Groups []Group `json:"groups"`
}

// Routing tells a producer how to route, GET …/producer-routing.
type Routing struct {
	StreamPrefix  string `json:"streamPrefix"`
	ConsumerGroup string `json:"consumerGroup"`
	// MetadataVersion is the stream's version; it changes with the shard count.
	MetadataVersion  int64        `json:"metadataVersion"`
	ShardCount       int          `json:"shardCount"`
	StreamKeyPattern string       `json:"streamKeyPattern"`
	Shards           []RouteShard `json:"shards"`
	// RoutingLeaseMs is how long this snapshot may be used.
	RoutingLeaseMs int64 `json:"routingLeaseMs"`
}

// RouteShard is where one shard lives.
type RouteShard struct {
	ShardIndex ShardIndex `json:"shardIndex"`
	StreamKey  string     `json:"streamKey"`
	RedisSlot  int        `json:"redisSlot"`
}

// MemberState is a member's place in its life.
type MemberState string

// The states of a member.
const (
	// MemberActive: joined, gets shards.
	MemberActive MemberState = "ACTIVE"
	// MemberLeaving: lets its shards go, gets none.
	MemberLeaving MemberState = "LEAVING"
	// MemberExpired: its lease ran out.
	MemberExpired MemberState = "EXPIRED"
	// MemberFenced: ended by the coordinator, or replaced by a newer process.
	MemberFenced MemberState = "FENCED"
)

// Member describes a member of a group.
type Member struct {
	MemberID              string          `json:"memberId"`
	MemberName            string          `json:"memberName"`
	State                 MemberState     `json:"state"`
	Incarnation           string          `json:"incarnation"`
	MemberEpoch           Epoch           `json:"memberEpoch"`
	AckedEpoch            Epoch           `json:"ackedEpoch"`
	MetadataVersion       int64           `json:"metadataVersion"`
	RuntimeMaxConcurrency int             `json:"runtimeMaxConcurrency"`
	ActiveConsumerWorkers int             `json:"activeConsumerWorkers"`
	CurrentAssignment     Shards          `json:"currentAssignment"`
	GrantedAssignment     Shards          `json:"grantedAssignment"`
	Revoking              Shards          `json:"revoking"`
	LastHeartbeatAt       *time.Time      `json:"lastHeartbeatAt"`
	MemberLeaseExpiresAt  *time.Time      `json:"memberLeaseExpiresAt"`
	RebalanceTimeoutMs    int64           `json:"rebalanceTimeoutMs"`
	RebalanceDeadlineAt   *time.Time      `json:"rebalanceDeadlineAt"`
	ShardProgress         []ShardProgress `json:"shardProgress"`
}

// MemberList answers GET …/members.
type MemberList struct {
	Members []Member `json:"members"`
}

// Assignments answers GET …/assignments: who should hold what, who says it
// holds what, and what is being let go.
type Assignments struct {
	TargetAssignment    map[string]Shards `json:"targetAssignment"`
	CurrentAssignments  map[string]Shards `json:"currentAssignments"`
	RevokeProgress      map[string]Shards `json:"revokeProgress"`
	InvariantViolations []string          `json:"invariantViolations"`
}

// HealthStatus is UP, DEGRADED or DOWN.
type HealthStatus string

// The health of a coordinator.
const (
	HealthUp       HealthStatus = "UP"
	HealthDegraded HealthStatus = "DEGRADED"
	HealthDown     HealthStatus = "DOWN"
)

// Health answers GET /monitoring/health.
type Health struct {
	Status        HealthStatus `json:"status"`
	CoordinatorID string       `json:"coordinatorId"`
	// Store is UP or DOWN: the metadata store.
	Store string `json:"store"`
	// Redis is UP, DOWN or NOT_CONFIGURED: the Redis that holds the streams.
	Redis string `json:"redis"`
	// Loop is UP while the event loop ticks, else DOWN.
	Loop string `json:"loop"`
	// Reason names what is down, empty when all is well.
	Reason string `json:"reason,omitempty"`
}

// ErrorBody is the body of every refusal.
type ErrorBody struct {
	// Status is the HTTP status as a name, such as CONFLICT.
	Status    string `json:"status"`
	ErrorCode string `json:"errorCode"`
	Message   string `json:"message"`
}
