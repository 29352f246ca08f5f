package protocol

import (
	"strings"
	"time"
)

// Scale is the body of POST …/scale.
type Scale struct {
	// TargetShardCount is the number of shards to come; 0 stops all writing.
	TargetShardCount *int   `json:"targetShardCount"`
	RequestedBy      string `json:"requestedBy"`
	Reason           string `json:"reason"`
	// DeprecatedAfter is taken and has no effect: when a shard is empty decides.
	DeprecatedAfter string `json:"deprecatedAfter,omitempty"`
}

// Validate checks the body; maxShards is the configured limit.
func (r *Scale) Validate(maxShards int) error {
	var bad complaints
	switch {
	case r.TargetShardCount == nil:
		bad.addf("targetShardCount", "is missing")
	case *r.TargetShardCount < 0 || *r.TargetShardCount > maxShards:
		bad.addf("targetShardCount", "is %d, must be between 0 and %d", *r.TargetShardCount, maxShards)
	}
	checkRequester(&bad, r.RequestedBy, r.Reason)
	if strings.TrimSpace(r.Reason) == "" {
		bad.addf("reason", "must not be blank")
	}
	return bad.err()
}

// IgnoreGroup is the body of POST …/ignore-group: a drain does not wait for a consumer
// group that is not one of the coordinator's.
type IgnoreGroup struct {
	ConsumerGroup string `json:"consumerGroup"`
	Order
}

// Validate checks the body.
func (r *IgnoreGroup) Validate() error {
	if err := r.Order.Validate(); err != nil {
		return err
	}
	return ValidateName("consumerGroup", r.ConsumerGroup)
}

// GiveUp is the body of POST …/give-up: shards are removed with what is left in them.
type GiveUp struct {
	Shards Shards `json:"shards"`
	Order
}

// Validate checks the body.
func (r *GiveUp) Validate() error {
	if err := r.Order.Validate(); err != nil {
		return err
	}
	var bad complaints
	if len(r.Shards) == 0 {
		bad.addf("shards", "must name at least one shard")
	}
	return bad.err()
}

// MigrationState says how far a change of the shard count has come.
type MigrationState string

// The states of a change of the shard count.
const (
	// MigrationPreparing: the shards to come are being created.
	MigrationPreparing MigrationState = "PREPARING"
	// MigrationActive: producers are told of the new count; not all may know it yet.
	MigrationActive MigrationState = "ACTIVE"
	// MigrationDraining: nobody writes to the removed shards any more; they are read
	// until they are empty, and removed.
	MigrationDraining MigrationState = "DRAINING"
	// MigrationDeprecated: it is done.
	MigrationDeprecated MigrationState = "DEPRECATED"
	// MigrationRollingBack: the shards to go back to are being created again.
	MigrationRollingBack MigrationState = "ROLLING_BACK"
	// MigrationRolledBack: producers write as they did before it.
	MigrationRolledBack MigrationState = "ROLLED_BACK"
)

// NoMigration is the id of the answer to a scale to the count that there is.
const NoMigration = "noop"

// Migration describes a change of the shard count.
type Migration struct {
	ReshardingID   string         `json:"reshardingId"`
	FromShardCount int            `json:"fromShardCount"`
	ToShardCount   int            `json:"toShardCount"`
	State          MigrationState `json:"state"`
	CreatedAt      time.Time      `json:"createdAt"`
	UpdatedAt      time.Time      `json:"updatedAt"`
	RequestedBy    string         `json:"requestedBy,omitempty"`
	Reason         string         `json:"reason,omitempty"`
	// BlockedBy is what it waits for; empty where that was not looked for, and when
	// nothing is left to be done.
	BlockedBy []Blocker `json:"blockedBy"`
	// RecordsLeft counts the records that groups have not acknowledged in them, at least.
	RecordsLeft int64 `json:"recordsLeft"`
	// Draining counts the removed shards that are still there.
	Draining int `json:"drainingShards"`
}

// BlockerKind says what a change of the shard count waits for.
type BlockerKind string

// The kinds.
const (
	// BlockedByProvisioning: shards could not all be created yet.
	BlockedByProvisioning BlockerKind = "PROVISIONING"
	// BlockedByGroup: a group does not follow the new shards yet, or its record cannot be
	// read, and its members may be reading an empty shard.
	BlockedByGroup BlockerKind = "GROUP_NOT_ADOPTED"
	// BlockedByRoutes: producers may still use what they were told before.
	BlockedByRoutes BlockerKind = "ROUTING_LEASE"
	// BlockedByBacklog: a consumer group has not read, or not acknowledged, all of a
	// shard.
	BlockedByBacklog BlockerKind = "BACKLOG"
	// BlockedByNobody: a shard holds records and has no consumer group.
	BlockedByNobody BlockerKind = "NO_CONSUMER_GROUP"
	// BlockedByReader: a member has not let go of a shard that is empty.
	BlockedByReader BlockerKind = "STILL_READ"
	// BlockedByRedis: the shards could not be looked at.
	BlockedByRedis BlockerKind = "REDIS"
)

// MaxBlockers bounds the blockers that are named.
const MaxBlockers = 100

// Blocker is one thing that a change of the shard count waits for.
type Blocker struct {
	Kind BlockerKind `json:"kind"`
	// Shard is the shard that it is about, absent where it is about none.
	Shard *ShardIndex `json:"shardIndex,omitempty"`
	// ConsumerGroup is the group that is waited for.
	ConsumerGroup string `json:"consumerGroup,omitempty"`
	// Pending counts the records that were handed out and not acknowledged, Unread
	// those that were not handed out, at least.
	Pending int64 `json:"pending,omitempty"`
	Unread  int64 `json:"unread,omitempty"`
	// NextID is the first record that is waited for.
	NextID string `json:"nextId,omitempty"`
	// Reason says it in a sentence, with what can be done.
	Reason string `json:"reason"`
}

// StreamScaled answers the scaling of a stream: one migration for each group, all with
// the same id.
type StreamScaled struct {
	StreamPrefix           string      `json:"streamPrefix"`
	TargetShardCount       int         `json:"targetShardCount"`
	AffectedConsumerGroups []string    `json:"affectedConsumerGroups"`
	Migrations             []Migration `json:"migrations"`
}

// MigrationList answers GET /streams/{prefix}/migrations, the newest first.
type MigrationList struct {
	Migrations []Migration `json:"migrations"`
}
