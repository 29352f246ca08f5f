package protocol

import (
	"strings"
	"time"
)

// MemberDraining: drained by an operator; hands its shards over, gets none.
const MemberDraining MemberState = "DRAINING"

// Consumption answers GET …/consumption: how far members say they have come.
type Consumption struct {
	Progress []ConsumerProgress `json:"progress"`
}

// ConsumerProgress is what a member last said of one shard.
type ConsumerProgress struct {
	StreamPrefix    string      `json:"streamPrefix"`
	ConsumerGroup   string      `json:"consumerGroup"`
	MemberID        string      `json:"memberId"`
	MemberName      string      `json:"memberName"`
	MemberState     MemberState `json:"memberState"`
	Shard           ShardID     `json:"shard"`
	StreamKey       string      `json:"streamKey"`
	LastDeliveredID *string     `json:"lastDeliveredId"`
	LastAckedID     *string     `json:"lastAckedId"`
	PendingCount    int64       `json:"pendingCount"`
	// UpdatedAt is an ISO-8601 time as the member sent it.
	UpdatedAt *string `json:"updatedAt"`
}

// ShardID names a shard where an object is expected.
type ShardID struct {
	ShardIndex ShardIndex `json:"shardIndex"`
}

// Offsets answers GET …/offsets: how much lies in each shard, and how far the group
// has come.
type Offsets struct {
	StreamPrefix      string        `json:"streamPrefix"`
	ConsumerGroup     string        `json:"consumerGroup"`
	Shards            []ShardOffset `json:"shards"`
	TotalStreamLength int64         `json:"totalStreamLength"`
	TotalPendingCount int64         `json:"totalPendingCount"`
	// TotalLag is null as soon as the lag of one shard is not known.
	TotalLag *int64 `json:"totalLag"`
	// TotalLagAtLeast counts what is known to be undelivered.
	TotalLagAtLeast int64 `json:"totalLagAtLeast"`
	// TotalMemoryUsageBytes is the sum of those that are known.
	TotalMemoryUsageBytes int64 `json:"totalMemoryUsageBytes"`
	MemoryUsageKnown      bool  `json:"memoryUsageKnown"`
	// OldestUndeliveredAgeMs is that of the oldest record that no member was given
	// yet; null without any.
	OldestUndeliveredAgeMs *int64 `json:"oldestUndeliveredAgeMs"`
}

// ShardOffset is one shard in Offsets. What Redis does not tell is null.
type ShardOffset struct {
	StreamPrefix  string  `json:"streamPrefix"`
	ConsumerGroup string  `json:"consumerGroup"`
	Shard         ShardID `json:"shard"`
	StreamKey     string  `json:"streamKey"`
	RedisSlot     int     `json:"redisSlot"`
	// The next four say where a Redis Cluster keeps the shard.
	RedisNodeEndpoint    *string `json:"redisNodeEndpoint"`
	RedisNodeID          *string `json:"redisNodeId"`
	RedisSlotRangeStart  *int    `json:"redisSlotRangeStart"`
	RedisSlotRangeEnd    *int    `json:"redisSlotRangeEnd"`
	StreamLength         int64   `json:"streamLength"`
	FirstRecordID        *string `json:"firstRecordId"`
	LastRecordID         *string `json:"lastRecordId"`
	LastGeneratedID      *string `json:"lastGeneratedId"`
	GroupLastDeliveredID *string `json:"groupLastDeliveredId"`
	// The two consumer ids are from the newest report of a member.
	ConsumerLastDeliveredID *string `json:"consumerLastDeliveredId"`
	ConsumerLastAckedID     *string `json:"consumerLastAckedId"`
	PendingCount            int64   `json:"pendingCount"`
	// Lag counts the records that no member was given yet; null where that is not
	// known, and then at least LagAtLeast and, as Redis believes, LagEstimate.
	Lag         *int64 `json:"lag"`
	LagAtLeast  int64  `json:"lagAtLeast"`
	LagEstimate *int64 `json:"lagEstimate"`
	// OldestUndeliveredID is the first of them, null without any.
	OldestUndeliveredID    *string  `json:"oldestUndeliveredId"`
	OldestUndeliveredAgeMs *int64   `json:"oldestUndeliveredAgeMs"`
	MemoryUsageBytes       *int64   `json:"memoryUsageBytes"`
	OwnerMemberIDs         []string `json:"ownerMemberIds"`
	// Exists is false when the stream's key is not in Redis.
	Exists bool `json:"exists"`
	// Error says why nothing of the shard is known, null when it is.
	Error *string `json:"error"`
}

// Backlog answers GET …/backlog: one number to scale consumers by.
type Backlog struct {
	StreamPrefix  string `json:"streamPrefix"`
	ConsumerGroup string `json:"consumerGroup"`
	// Backlog is Undelivered and Pending together.
	Backlog int64 `json:"backlog"`
	// Undelivered counts the records that no member was given yet; where it is not
	// exact, as well as is known.
	Undelivered int64 `json:"undelivered"`
	// Pending counts those that were given and not acknowledged.
	Pending int64 `json:"pending"`
	Exact   bool  `json:"exact"`
	// OldestUndeliveredAgeMs is 0 without any undelivered record.
	OldestUndeliveredAgeMs int64 `json:"oldestUndeliveredAgeMs"`
	// ShardCount is the number of members that can work at once.
	ShardCount        int `json:"shardCount"`
	ShardsWithBacklog int `json:"shardsWithBacklog"`
	LiveMembers       int `json:"liveMembers"`
	// ObservedAt is when Redis was asked.
	ObservedAt time.Time `json:"observedAt"`
}

// Direction is the order in which records are read.
type Direction string

// The directions.
const (
	// Forward begins with the oldest record.
	Forward Direction = "FORWARD"
	// Backward begins with the newest.
	Backward Direction = "BACKWARD"
)

// MessagesPage answers GET …/shards/{shardIndex}/messages.
type MessagesPage struct {
	StreamPrefix  string          `json:"streamPrefix"`
	ConsumerGroup string          `json:"consumerGroup"`
	Shard         ShardID         `json:"shard"`
	StreamKey     string          `json:"streamKey"`
	Direction     Direction       `json:"direction"`
	Limit         int             `json:"limit"`
	Records       []MessageRecord `json:"records"`
	// NextCursor asks for the next page; null on the last one.
	NextCursor *string `json:"nextCursor"`
}

// MessageRecord is one record of a stream.
type MessageRecord struct {
	StreamPrefix  string  `json:"streamPrefix"`
	ConsumerGroup string  `json:"consumerGroup"`
	Shard         ShardID `json:"shard"`
	StreamKey     string  `json:"streamKey"`
	RecordID      string  `json:"recordId"`
	// Fields has the last value where a name occurs more than once; bytes that are
	// not UTF-8 are replaced.
	Fields map[string]string `json:"fields"`
	// Payload is the field of that name, null without one.
	Payload *string `json:"payload"`
	// RecordTimestampMs and RecordTime are those of the id, null where it was not made
	// from a time.
	RecordTimestampMs *int64     `json:"recordTimestampMs"`
	RecordTime        *time.Time `json:"recordTime"`
}

// checkOrder demands a requester and a reason.
func checkOrder(bad *complaints, requestedBy, reason string) {
	checkRequester(bad, requestedBy, reason)
	if strings.TrimSpace(reason) == "" {
		bad.addf("reason", "must not be blank")
	}
}

// SetTimings is the body of PATCH …/timings. A field that is left out keeps its value.
type SetTimings struct {
	HeartbeatIntervalMs *int64 `json:"heartbeatIntervalMs,omitempty"`
	MemberLeaseTTLMs    *int64 `json:"memberLeaseTtlMs,omitempty"`
	RebalanceTimeoutMs  *int64 `json:"rebalanceTimeoutMs,omitempty"`
	RequestedBy         string `json:"requestedBy"`
	Reason              string `json:"reason"`
}

// maxTimingMs is above everything that Timings.Validate allows, and far from where
// milliseconds no longer fit a duration.
const maxTimingMs = int64(7 * 24 * time.Hour / time.Millisecond)

// Validate checks the body; whether the timings fit each other shows when they are
// known together.
func (r *SetTimings) Validate() error {
	var bad complaints
	check := func(field string, ms *int64) {
		if ms != nil && (*ms < 1 || *ms > maxTimingMs) {
			bad.addf(field, "is %d, must be between 1 and %d", *ms, maxTimingMs)
		}
	}
	check("heartbeatIntervalMs", r.HeartbeatIntervalMs)
	check("memberLeaseTtlMs", r.MemberLeaseTTLMs)
	check("rebalanceTimeoutMs", r.RebalanceTimeoutMs)
	if r.HeartbeatIntervalMs == nil && r.MemberLeaseTTLMs == nil && r.RebalanceTimeoutMs == nil {
		bad.addf("heartbeatIntervalMs", "one of heartbeatIntervalMs, memberLeaseTtlMs and rebalanceTimeoutMs is needed")
	}
	checkOrder(&bad, r.RequestedBy, r.Reason)
	return bad.err()
}

// Apply returns t with what the body changes.
func (r *SetTimings) Apply(t Timings) Timings {
	set := func(d *time.Duration, ms *int64) {
		if ms != nil {
			*d = time.Duration(*ms) * time.Millisecond
		}
	}
	set(&t.HeartbeatInterval, r.HeartbeatIntervalMs)
	set(&t.Lease, r.MemberLeaseTTLMs)
	set(&t.RebalanceTimeout, r.RebalanceTimeoutMs)
	return t
}

// GroupTimings answers GET and PATCH …/timings.
type GroupTimings struct {
	StreamPrefix        string `json:"streamPrefix"`
	ConsumerGroup       string `json:"consumerGroup"`
	HeartbeatIntervalMs int64  `json:"heartbeatIntervalMs"`
	MemberLeaseTTLMs    int64  `json:"memberLeaseTtlMs"`
	RebalanceTimeoutMs  int64  `json:"rebalanceTimeoutMs"`
	// LongestLeaseMs is what counts for members that were promised a longer lease
	// before; equal to MemberLeaseTTLMs otherwise.
	LongestLeaseMs int64 `json:"longestLeaseMs"`
}

// Order is the body of calls that need a requester and a reason and nothing else.
type Order struct {
	RequestedBy string `json:"requestedBy"`
	Reason      string `json:"reason"`
}

// Validate checks the body.
func (r *Order) Validate() error {
	var bad complaints
	checkOrder(&bad, r.RequestedBy, r.Reason)
	return bad.err()
}

// IndexRepair answers POST /repair: how many names the index of the metadata store
// lacked, and how many in it stood for nothing.
type IndexRepair struct {
	Added   int `json:"added"`
	Removed int `json:"removed"`
}

// MessageQuery asks for records of one shard or of several.
type MessageQuery struct {
	// Shards are those to read; All means every shard of the group.
	Shards []ShardIndex
	All    bool
	// RecordID asks for the records with this id alone.
	RecordID  string
	Direction Direction
	// Cursor is that of the page before, empty for the first; see Messages.NextCursor.
	Cursor string
	// Limit bounds the records of a page: 1 to MaxMessages, 0 means 25.
	Limit int
	// Count asks for Messages.Total.
	Count bool
}

// Messages is a page of records.
type Messages struct {
	Records []MessageRecord
	// NextCursor asks for the next page, empty on the last one.
	NextCursor string
	// Total counts the records of the shards that were asked for.
	Total int64
	// Limit is the one that counted.
	Limit int
}

// MaxMessages bounds the records of one page.
const MaxMessages = 1000

// Overview is a group with all that dashboards show of it, at about one moment.
type Overview struct {
	Group       Group
	Members     []Member
	Assignments Assignments
	// Shards are those that the group reads.
	Shards []ShardIndex
	// Offsets is nil where Redis is not configured or did not answer.
	Offsets *Offsets
	// Rates are those of Shards, in their order, as are the shards of Offsets.
	Rates []ShardRates
}

// ShardRates are records a second, nil while they are not known.
type ShardRates struct {
	Produced, Consumed *float64
}

// Add counts one shard into the backlog.
func (b *Backlog) Add(undelivered, pending, oldestAgeMs int64) {
	b.Undelivered += undelivered
	b.Pending += pending
	b.Backlog = b.Undelivered + b.Pending
	if undelivered+pending > 0 {
		b.ShardsWithBacklog++
	}
	b.OldestUndeliveredAgeMs = max(b.OldestUndeliveredAgeMs, oldestAgeMs)
}
