package httpapi

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// grafanaOption is a value that a dashboard offers for a variable.
type grafanaOption struct {
	Text  string `json:"__text"`
	Value string `json:"__value"`
}

// grafanaGroup is a group in a table.
type grafanaGroup struct {
	StreamPrefix       string              `json:"streamPrefix"`
	ConsumerGroup      string              `json:"consumerGroup"`
	State              protocol.GroupState `json:"state"`
	GroupEpoch         protocol.Epoch      `json:"groupEpoch"`
	AssignmentEpoch    protocol.Epoch      `json:"assignmentEpoch"`
	MetadataVersion    int64               `json:"metadataVersion"`
	ShardCount         int                 `json:"shardCount"`
	ActiveMembers      int                 `json:"activeMembers"`
	TotalMembers       int                 `json:"totalMembers"`
	CurrentShards      int                 `json:"currentShards"`
	TargetShards       int                 `json:"targetShards"`
	AssignedShardRatio string              `json:"assignedShardRatio"`
	RevokingShards     int                 `json:"revokingShards"`
	// What follows is null where Redis did not answer.
	TotalStreamLength      *int64   `json:"totalStreamLength"`
	TotalPendingCount      *int64   `json:"totalPendingCount"`
	TotalLag               *int64   `json:"totalLag"`
	ProducedPerSecond      *float64 `json:"producedPerSecond"`
	ConsumedPerSecond      *float64 `json:"consumedPerSecond"`
	TotalMemoryUsageBytes  *int64   `json:"totalMemoryUsageBytes"`
	MemoryUsageKnown       bool     `json:"memoryUsageKnown"`
	OldestUndeliveredAgeMs *int64   `json:"oldestUndeliveredAgeMs"`
}

func groupRow(o *protocol.Overview) grafanaGroup {
	g := &o.Group
	row := grafanaGroup{
		StreamPrefix: g.StreamPrefix, ConsumerGroup: g.ConsumerGroup, State: g.State, GroupEpoch: g.GroupEpoch,
		AssignmentEpoch: g.AssignmentEpoch, MetadataVersion: g.MetadataVersion, ShardCount: g.ShardCount, TotalMembers: len(o.Members),
	}
	for i := range o.Members {
		if s := o.Members[i].State; s == protocol.MemberActive || s == protocol.MemberDraining {
			row.ActiveMembers++
		}
	}
	row.CurrentShards, row.TargetShards, row.RevokingShards = distinct(o.Assignments.CurrentAssignments), distinct(o.Assignments.TargetAssignment), distinct(o.Assignments.RevokeProgress)
	row.AssignedShardRatio = fmt.Sprintf("%d / %d", row.CurrentShards, g.ShardCount)
	if f := o.Offsets; f != nil {
		row.TotalStreamLength, row.TotalPendingCount, row.TotalLag = &f.TotalStreamLength, &f.TotalPendingCount, f.TotalLag
		row.TotalMemoryUsageBytes, row.MemoryUsageKnown, row.OldestUndeliveredAgeMs = &f.TotalMemoryUsageBytes, f.MemoryUsageKnown, f.OldestUndeliveredAgeMs
	}
	for _, r := range o.Rates {
		row.ProducedPerSecond = plus(row.ProducedPerSecond, r.Produced)
		row.ConsumedPerSecond = plus(row.ConsumedPerSecond, r.Consumed)
	}
	return row
}

// distinct counts the shards of all members, each once.
func distinct(byMember map[string]protocol.Shards) int {
	seen := map[protocol.ShardIndex]bool{}
	for _, shards := range byMember {
		for _, s := range shards {
			seen[s] = true
		}
	}
	return len(seen)
}

// plus adds rates; one that is not known adds nothing.
func plus(sum, n *float64) *float64 {
	switch {
	case n == nil:
		return sum
	case sum == nil:
		v := *n
		return &v
	}
	*sum += *n
	return sum
}

// grafanaMember is a member in a table.
type grafanaMember struct {
	StreamPrefix          string               `json:"streamPrefix"`
	ConsumerGroup         string               `json:"consumerGroup"`
	MemberID              string               `json:"memberId"`
	MemberName            string               `json:"memberName"`
	State                 protocol.MemberState `json:"state"`
	MemberEpoch           protocol.Epoch       `json:"memberEpoch"`
	MetadataVersion       int64                `json:"metadataVersion"`
	CurrentShardCount     int                  `json:"currentShardCount"`
	RevokingShardCount    int                  `json:"revokingShardCount"`
	RuntimeMaxConcurrency int                  `json:"runtimeMaxConcurrency"`
	ActiveConsumerWorkers int                  `json:"activeConsumerWorkers"`
	LastHeartbeatAt       *time.Time           `json:"lastHeartbeatAt"`
	MemberLeaseExpiresAt  *time.Time           `json:"memberLeaseExpiresAt"`
}

func memberRow(prefix, group string, m *protocol.Member) grafanaMember {
	return grafanaMember{
		StreamPrefix: prefix, ConsumerGroup: group, MemberID: m.MemberID, MemberName: m.MemberName, State: m.State,
		MemberEpoch: m.MemberEpoch, MetadataVersion: m.MetadataVersion, CurrentShardCount: len(m.CurrentAssignment),
		RevokingShardCount: len(m.Revoking), RuntimeMaxConcurrency: m.RuntimeMaxConcurrency,
		ActiveConsumerWorkers: m.ActiveConsumerWorkers, LastHeartbeatAt: m.LastHeartbeatAt, MemberLeaseExpiresAt: m.MemberLeaseExpiresAt,
	}
}

// grafanaShard is a shard in a table. What Redis did not tell is null.
type grafanaShard struct {
	StreamPrefix            string              `json:"streamPrefix"`
	ConsumerGroup           string              `json:"consumerGroup"`
	ShardCount              int                 `json:"shardCount"`
	ShardIndex              protocol.ShardIndex `json:"shardIndex"`
	ShardLabel              string              `json:"shardLabel"`
	StreamKey               string              `json:"streamKey"`
	RedisSlot               int                 `json:"redisSlot"`
	RedisNodeEndpoint       *string             `json:"redisNodeEndpoint"`
	RedisNodeID             *string             `json:"redisNodeId"`
	RedisSlotRangeStart     *int                `json:"redisSlotRangeStart"`
	RedisSlotRangeEnd       *int                `json:"redisSlotRangeEnd"`
	StreamLength            *int64              `json:"streamLength"`
	FirstRecordID           *string             `json:"firstRecordId"`
	LastRecordID            *string             `json:"lastRecordId"`
	LastGeneratedID         *string             `json:"lastGeneratedId"`
	GroupLastDeliveredID    *string             `json:"groupLastDeliveredId"`
	ConsumerLastDeliveredID *string             `json:"consumerLastDeliveredId"`
	ConsumerLastAckedID     *string             `json:"consumerLastAckedId"`
	PendingCount            *int64              `json:"pendingCount"`
	Lag                     *int64              `json:"lag"`
	LagKnown                bool                `json:"lagKnown"`
	OldestUndeliveredAgeMs  *int64              `json:"oldestUndeliveredAgeMs"`
	ProducedPerSecond       *float64            `json:"producedPerSecond"`
	ConsumedPerSecond       *float64            `json:"consumedPerSecond"`
	MemoryUsageBytes        *int64              `json:"memoryUsageBytes"`
	MemoryUsageKnown        bool                `json:"memoryUsageKnown"`
	TargetOwnerMemberIDs    string              `json:"targetOwnerMemberIds"`
	CurrentOwnerMemberIDs   string              `json:"currentOwnerMemberIds"`
	OwnerState              string              `json:"ownerState"`
	OwnerMemberIDs          string              `json:"ownerMemberIds"`
}

func shardRows(o *protocol.Overview) []grafanaShard {
	g, owned := &o.Group, ownersOf(&o.Assignments)
	rows := make([]grafanaShard, len(o.Shards))
	for i, shard := range o.Shards {
		target, current := owned.target[shard], owned.current[shard]
		key := routing.StreamKey(g.StreamPrefix, int(shard))
		rows[i] = grafanaShard{
			StreamPrefix: g.StreamPrefix, ConsumerGroup: g.ConsumerGroup, ShardCount: g.ShardCount, ShardIndex: shard,
			ShardLabel: shardLabel(int(shard)), StreamKey: key, RedisSlot: routing.Slot(key),
			ProducedPerSecond: o.Rates[i].Produced, ConsumedPerSecond: o.Rates[i].Consumed,
			TargetOwnerMemberIDs: joined(target), CurrentOwnerMemberIDs: joined(current), OwnerMemberIDs: joined(current),
			OwnerState: ownerState(target, current),
		}
		if o.Offsets != nil && o.Offsets.Shards[i].Error == nil {
			rows[i].fill(&o.Offsets.Shards[i])
		}
	}
	return rows
}

// fill adds what Redis tells.
func (row *grafanaShard) fill(s *protocol.ShardOffset) {
	row.RedisNodeEndpoint, row.RedisNodeID = s.RedisNodeEndpoint, s.RedisNodeID
	row.RedisSlotRangeStart, row.RedisSlotRangeEnd = s.RedisSlotRangeStart, s.RedisSlotRangeEnd
	row.StreamLength, row.PendingCount = &s.StreamLength, &s.PendingCount
	row.FirstRecordID, row.LastRecordID, row.LastGeneratedID = s.FirstRecordID, s.LastRecordID, s.LastGeneratedID
	row.GroupLastDeliveredID, row.ConsumerLastDeliveredID, row.ConsumerLastAckedID = s.GroupLastDeliveredID, s.ConsumerLastDeliveredID, s.ConsumerLastAckedID
	row.Lag, row.LagKnown, row.OldestUndeliveredAgeMs = s.Lag, s.Lag != nil, s.OldestUndeliveredAgeMs
	row.MemoryUsageBytes, row.MemoryUsageKnown = s.MemoryUsageBytes, s.MemoryUsageBytes != nil
}

// ownerState compares who should read a shard with who says that it does.
func ownerState(target, current []string) string {
	switch {
	case len(current) == 0 && len(target) == 0:
		return "UNASSIGNED"
	case len(current) == 0:
		return "PENDING_ACK"
	case slices.Equal(target, current):
		return "CURRENT"
	}
	return "TRANSITIONING"
}

// owners are the members of each shard, sorted.
type owners struct {
	target, current, revoking map[protocol.ShardIndex][]string
}

func ownersOf(s *protocol.Assignments) owners {
	return owners{byShard(s.TargetAssignment), byShard(s.CurrentAssignments), byShard(s.RevokeProgress)}
}

func byShard(byMember map[string]protocol.Shards) map[protocol.ShardIndex][]string {
	out := map[protocol.ShardIndex][]string{}
	for member, shards := range byMember {
		for _, s := range shards {
			out[s] = append(out[s], member)
		}
	}
	for s := range out {
		slices.Sort(out[s])
		out[s] = slices.Compact(out[s])
	}
	return out
}

func joined(members []string) string { return strings.Join(members, ",") }
func decimal(n int) string           { return strconv.Itoa(n) }
func shardLabel(shard int) string    { return ":" + decimal(shard) }

// grafanaAssignment is the ownership of a shard in a table.
type grafanaAssignment struct {
	StreamPrefix   string              `json:"streamPrefix"`
	ConsumerGroup  string              `json:"consumerGroup"`
	ShardIndex     protocol.ShardIndex `json:"shardIndex"`
	TargetOwners   string              `json:"targetOwners"`
	CurrentOwners  string              `json:"currentOwners"`
	RevokingOwners string              `json:"revokingOwners"`
}

// grafanaMessage is a record in a table, with the page that it is on.
type grafanaMessage struct {
	StreamPrefix      string              `json:"streamPrefix"`
	ConsumerGroup     string              `json:"consumerGroup"`
	ShardIndex        protocol.ShardIndex `json:"shardIndex"`
	ShardSelector     string              `json:"shardSelector"`
	ShardLabel        string              `json:"shardLabel"`
	StreamKey         string              `json:"streamKey"`
	RecordID          string              `json:"recordId"`
	Payload           *string             `json:"payload"`
	FieldsJSON        string              `json:"fieldsJson"`
	PageDirection     protocol.Direction  `json:"pageDirection"`
	PageLimit         int                 `json:"pageLimit"`
	PageNextCursor    *string             `json:"pageNextCursor"`
	PageTotalMessages int64               `json:"pageTotalMessages"`
	RecordTimestampMs *int64              `json:"recordTimestampMs"`
	RecordTime        *time.Time          `json:"recordTime"`
}

func messageRows(ask *protocol.MessageQuery, selector string, found *protocol.Messages) ([]grafanaMessage, error) {
	rows := make([]grafanaMessage, len(found.Records))
	var next *string
	if found.NextCursor != "" {
		next = &found.NextCursor
	}
	for i := range found.Records {
		r := &found.Records[i]
		var fields bytes.Buffer
		if err := encode(&fields, r.Fields); err != nil {
			return nil, err
		}
		shard := r.Shard.ShardIndex
		rows[i] = grafanaMessage{
			StreamPrefix: r.StreamPrefix, ConsumerGroup: r.ConsumerGroup, ShardIndex: shard, ShardSelector: selector,
			ShardLabel: shardLabel(int(shard)), StreamKey: r.StreamKey, RecordID: r.RecordID, Payload: r.Payload,
			FieldsJSON: fields.String(), PageDirection: ask.Direction, PageLimit: ask.Limit, PageNextCursor: next,
			PageTotalMessages: found.Total, RecordTimestampMs: r.RecordTimestampMs, RecordTime: r.RecordTime,
		}
	}
	return rows, nil
}
