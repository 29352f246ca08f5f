package group

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// SchemaVersion is that of the encoded aggregate.
const SchemaVersion = 2

// record is the stored form: the ledger in columns, epochs as differences to a
// base, since ten thousand times thirteen digits would be most of it. What is short
// is apart, at both ends, so that Encode can write the rest itself.
type record struct {
	head
	Lives  []life        `json:"lives"`
	Ledger columns       `json:"ledger"`
	Target column[int32] `json:"target"`
	Ended  []tombstone   `json:"ended"`
	tail
}

type head struct {
	SchemaVersion   int            `json:"schemaVersion"`
	StreamPrefix    string         `json:"streamPrefix"`
	ConsumerGroup   string         `json:"consumerGroup"`
	CreatedAt       time.Time      `json:"createdAt"`
	UpdatedAt       time.Time      `json:"updatedAt"`
	Counter         protocol.Epoch `json:"counter"`
	GroupEpoch      protocol.Epoch `json:"groupEpoch"`
	AssignmentEpoch protocol.Epoch `json:"assignmentEpoch"`
	MetadataVersion int64          `json:"metadataVersion"`
	ShardCount      int            `json:"shardCount"`
	StreamVersion   int64          `json:"streamVersion"`
	Timings         timings        `json:"timings"`
}

type tail struct {
	// ReadCount is left out where it is ShardCount.
	ReadCount    int            `json:"readShardCount,omitempty"`
	Closed       spans.Set      `json:"retiredShards,omitempty"`
	PromisedMs   int64          `json:"promisedLeaseMs,omitempty"`
	TimingsEpoch protocol.Epoch `json:"timingsEpoch,omitempty"`
	Instance     string         `json:"instance,omitempty"`
	Ring         []saved        `json:"ring,omitempty"`
	// Dates are pairs of epoch and milliseconds.
	Dates      [][2]int64  `json:"dates,omitempty"`
	Correction *correction `json:"correction,omitempty"`
}

type saved struct {
	Revision int64  `json:"revision"`
	Nonce    string `json:"nonce"`
}

type correction struct {
	Jump     protocol.Epoch `json:"jump"`
	Reason   string         `json:"reason"`
	OpenedAt time.Time      `json:"openedAt"`
}

type timings struct {
	HeartbeatIntervalMs int64 `json:"heartbeatIntervalMs"`
	MemberLeaseTTLMs    int64 `json:"memberLeaseTtlMs"`
	RebalanceTimeoutMs  int64 `json:"rebalanceTimeoutMs"`
}

type life struct {
	Member      string         `json:"member"`
	Name        string         `json:"name,omitempty"`
	Incarnation string         `json:"incarnation"`
	Legacy      bool           `json:"legacy,omitempty"`
	State       string         `json:"state"`
	JoinEpoch   protocol.Epoch `json:"joinEpoch"`
	Acked       protocol.Epoch `json:"acked"`
	Epoch       protocol.Epoch `json:"epoch"`
	InSync      bool           `json:"inSync,omitempty"`
	Doubtful    bool           `json:"doubtful,omitempty"`
	Draining    bool           `json:"draining,omitempty"`
	JoinedAt    time.Time      `json:"joinedAt"`
}

type columns struct {
	Base   protocol.Epoch `json:"base"`
	Holder column[int32]  `json:"holder"`
	// Grant is the epoch less Base; 0 for a free shard.
	Grant column[protocol.Epoch] `json:"grant"`
	// Revoke lists the few shards that are being revoked: shard, epoch less Base.
	Revoke [][2]int64 `json:"revoke"`
}

type tombstone struct {
	Member      string    `json:"member"`
	Incarnation string    `json:"incarnation"`
	Reason      EndReason `json:"reason"`
	At          time.Time `json:"at"`
}

var lifeStates = [...]string{Active: "active", Leaving: "leaving", Over: "over"}

// lowest is the smallest epoch in the ledger, or the counter.
func lowest(s *State) protocol.Epoch {
	low := s.Counter
	for _, g := range s.Ledger.Grant {
		if g != 0 {
			low = min(low, g)
		}
	}
	return low
}

// corrupt is a refusal to work with a record, and what to do about it.
func corrupt(r *record, format string, args ...any) error {
	return protocol.ErrCorrupt.With("the record of group %s/%s %s: restore it from a backup, or delete the group and create it again",
		r.StreamPrefix, r.ConsumerGroup, fmt.Sprintf(format, args...))
}

// namesOf reads as much of a damaged record as says which one it is.
func namesOf(body []byte) *record {
	var names struct {
		StreamPrefix  string `json:"streamPrefix"`
		ConsumerGroup string `json:"consumerGroup"`
	}
	_ = json.Unmarshal(body, &names) // what is wrong with it is said already
	return &record{head: head{StreamPrefix: names.StreamPrefix, ConsumerGroup: names.ConsumerGroup}}
}

// Decode reads what Encode wrote, and checks it.
// A record of schema version 1 is read as the state that it becomes.
// Errors: protocol.ErrCorrupt, also for a schema newer than SchemaVersion.
func Decode(body []byte) (State, error) {
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return State{}, corrupt(namesOf(body), "cannot be read (%v)", err)
	}
	if r.SchemaVersion == 1 {
		return upgraded(body)
	}
	if r.SchemaVersion != SchemaVersion {
		return State{}, protocol.ErrCorrupt.With("the record of group %s/%s has schema version %d, this coordinator reads %d: use the release that wrote it",
			r.StreamPrefix, r.ConsumerGroup, r.SchemaVersion, SchemaVersion)
	}
	if len(r.Ledger.Grant) > protocol.MaxShards || len(r.Lives) > maxLives || len(r.Ring) > RingSize || len(r.Dates) > maxDates {
		return State{}, corrupt(&r, "has %d shards, %d members and remembers %d saves", len(r.Ledger.Grant), len(r.Lives), len(r.Ring))
	}
	s := State{
		Stream: r.StreamPrefix, Group: r.ConsumerGroup, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
		Counter: r.Counter, GroupEpoch: r.GroupEpoch, AssignmentEpoch: r.AssignmentEpoch,
		MetadataVersion: r.MetadataVersion, ShardCount: r.ShardCount, StreamVersion: r.StreamVersion,
		ReadCount: r.ShardCount, Closed: r.Closed,
		Timings: protocol.Timings{
			HeartbeatInterval: time.Duration(r.Timings.HeartbeatIntervalMs) * time.Millisecond,
			Lease:             time.Duration(r.Timings.MemberLeaseTTLMs) * time.Millisecond,
			RebalanceTimeout:  time.Duration(r.Timings.RebalanceTimeoutMs) * time.Millisecond,
		},
		Lives: make([]Life, len(r.Lives)),
		Ledger: Ledger{
			Holder: r.Ledger.Holder,
			Grant:  make([]protocol.Epoch, len(r.Ledger.Grant)),
			Revoke: make([]protocol.Epoch, len(r.Ledger.Grant)),
		},
		Target: r.Target,
		Ended:  make([]Tombstone, len(r.Ended)),

		Promised: time.Duration(r.PromisedMs) * time.Millisecond, TimingsEpoch: r.TimingsEpoch, Instance: r.Instance,
	}
	if r.ReadCount != 0 {
		s.ReadCount = r.ReadCount
	}
	for _, w := range r.Ring {
		s.Ring = append(s.Ring, Save(w))
	}
	for _, d := range r.Dates {
		s.Dates = append(s.Dates, Date{protocol.Epoch(d[0]), d[1]})
	}
	if k := r.Correction; k != nil {
		s.Correction = &Correction{k.Jump, k.Reason, k.OpenedAt}
	}
	for i, l := range r.Lives {
		state := slices.Index(lifeStates[:], l.State)
		if state < 0 {
			return State{}, corrupt(&r, "has member %q in the unknown state %q", l.Member, l.State)
		}
		s.Lives[i] = Life{l.Member, l.Name, l.Incarnation, l.Legacy, LifeState(state), l.JoinEpoch, l.Acked, l.Epoch, l.InSync, l.Doubtful, l.Draining, l.JoinedAt}
	}
	for i, t := range r.Ended {
		s.Ended[i] = Tombstone(t)
	}
	for shard, g := range r.Ledger.Grant {
		if g != 0 {
			s.Ledger.Grant[shard] = g + r.Ledger.Base
		}
	}
	for _, e := range r.Ledger.Revoke {
		if e[0] < 0 || e[0] >= int64(len(s.Ledger.Revoke)) {
			return State{}, corrupt(&r, "revokes shard %d, which does not exist", e[0])
		}
		s.Ledger.Revoke[e[0]] = protocol.Epoch(e[1]) + r.Ledger.Base
	}
	if err := s.Check(); err != nil {
		return State{}, corrupt(&r, "is refused (%v)", err)
	}
	if !s.writable() {
		return State{}, corrupt(&r, "has a time that no record can hold")
	}
	return s, nil
}

// writable reports whether Encode can write the times of s: read with an offset,
// one may lie in a year that has too many digits in UTC.
func (s *State) writable() bool {
	odd := func(t time.Time) bool { y := t.UTC().Year(); return y < 0 || y > 9999 }
	return !odd(s.CreatedAt) && !odd(s.UpdatedAt) && (s.Correction == nil || !odd(s.Correction.OpenedAt)) &&
		!slices.ContainsFunc(s.Lives, func(l Life) bool { return odd(l.JoinedAt) }) &&
		!slices.ContainsFunc(s.Ended, func(t Tombstone) bool { return odd(t.At) })
}
