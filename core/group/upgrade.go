package group

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// recordV1 is the aggregate of the existing implementation, schema version 1, as
// far as it is needed here.
type recordV1 struct {
	StreamPrefix    string                     `json:"streamPrefix"`
	ConsumerGroup   string                     `json:"consumerGroup"`
	GroupEpoch      protocol.Epoch             `json:"groupEpoch"`
	AssignmentEpoch protocol.Epoch             `json:"assignmentEpoch"`
	MetadataVersion int64                      `json:"metadataVersion"`
	ShardCount      int                        `json:"shardCount"`
	Members         map[string]memberV1        `json:"members"`
	Target          map[string]protocol.Shards `json:"targetAssignments"`
	CreatedAt       time.Time                  `json:"createdAt"`
	UpdatedAt       time.Time                  `json:"updatedAt"`
}

type memberV1 struct {
	MemberName         string          `json:"memberName"`
	State              string          `json:"state"`
	MemberEpoch        protocol.Epoch  `json:"memberEpoch"`
	CurrentAssignment  protocol.Shards `json:"currentAssignment"`
	GrantedAssignment  protocol.Shards `json:"grantedAssignment"`
	Revoking           protocol.Shards `json:"revoking"`
	LastHeartbeatAt    time.Time       `json:"lastHeartbeatAt"`
	RebalanceTimeoutMs int64           `json:"rebalanceTimeoutMs"`
}

// upgraded reads an aggregate of schema version 1, with the timings that its
// implementation has by default. The same bytes give the same state, so it does
// not matter how often it is read before it is saved.
func upgraded(body []byte) (State, error) {
	s, err := upgradeV1(body, protocol.DefaultTimings())
	if err != nil {
		return State{}, err
	}
	next, _, _, err := Apply(s, Input{Now: s.UpdatedAt, ID: "upgrade"}, Correct{Reason: "the record was written by an earlier implementation"})
	if err != nil {
		return State{}, protocol.ErrCorrupt.With("the record of schema version 1 of group %s/%s is refused (%v): restore it from a backup, or delete the group and create it again",
			s.Stream, s.Group, err)
	}
	return next, nil
}

// upgradeV1 reads an aggregate of schema version 1. What a member owned, was
// granted or was revoking becomes its grant: it may be reading all of that. That
// implementation can hold one shard for two members; then, and since nothing is
// known of shards that no record names, the group begins with a correction:
// nothing is granted until every member has said what it reads and a lease time
// has passed. timings are the group's from now on.
// Errors: protocol.ErrCorrupt.
func upgradeV1(body []byte, timings protocol.Timings) (State, error) {
	var v recordV1
	if err := json.Unmarshal(body, &v); err != nil {
		return State{}, protocol.ErrCorrupt.With("the record of schema version 1 cannot be read (%v): restore it from a backup, or delete the group and create it again", err)
	}
	if v.StreamPrefix == "" || v.ConsumerGroup == "" || v.ShardCount < 0 || v.ShardCount > protocol.MaxShards || len(v.Members) > protocol.MaxMembers {
		return State{}, protocol.ErrCorrupt.With("the record of schema version 1 of group %s/%s has %d shards and %d members, which cannot be: restore it from a backup, or delete the group and create it again",
			v.StreamPrefix, v.ConsumerGroup, v.ShardCount, len(v.Members))
	}
	s := New(v.StreamPrefix, v.ConsumerGroup, v.ShardCount, 0, timings, v.CreatedAt.UTC())
	s.UpdatedAt = v.UpdatedAt.UTC()
	s.Counter = max(s.Counter, v.GroupEpoch, v.AssignmentEpoch, protocol.Epoch(v.MetadataVersion))
	s.MetadataVersion = max(s.MetadataVersion, v.MetadataVersion)
	ids := make([]string, 0, len(v.Members))
	for id, m := range v.Members {
		ids = append(ids, id)
		s.Counter = max(s.Counter, m.MemberEpoch)
	}
	slices.SortFunc(ids, strings.Compare)
	for _, id := range ids {
		s.takeOverV1(id, v.Members[id])
	}
	return s, nil
}

// takeOverV1 makes a member of schema version 1 a life, if it may still be
// reading anything or be alive.
func (s *State) takeOverV1(id string, m memberV1) {
	l := Life{Member: id, Name: m.MemberName, Incarnation: "legacy-v1", Legacy: true, JoinedAt: m.LastHeartbeatAt.UTC()}
	switch m.State {
	case "ACTIVE", "STARTING":
		l.State = Active
	case "LEAVING":
		l.State = Leaving
	default:
		return
	}
	l.JoinEpoch = max(1, m.MemberEpoch)
	l.Epoch, l.Acked = l.JoinEpoch, l.JoinEpoch
	life := int32(len(s.Lives))
	for _, shard := range slices.Concat(m.CurrentAssignment, m.GrantedAssignment, m.Revoking) {
		if int(shard) < 0 || int(shard) >= s.ShardCount || s.Ledger.Holder[shard] != None {
			continue
		}
		s.Ledger.Holder[shard], s.Ledger.Grant[shard] = life, l.JoinEpoch
		if l.State == Leaving {
			s.Ledger.Revoke[shard] = l.Epoch
		}
	}
	s.Lives = append(s.Lives, l)
}
