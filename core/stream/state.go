package stream

import (
	"slices"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// State is the record of one stream. It is a value: Apply copies what it
// changes. The zero State stands for a stream that does not exist.
type State struct {
	Prefix string
	// Version changes with what producers and groups are told of the shards, in the
	// same write. It starts at the creation time in milliseconds, so that a stream
	// that was lost and created again does not go back.
	Version int64
	// ShardCount is how many shards producers write to: 0 ≤ i < ShardCount.
	ShardCount int
	// ReadCount is how many shards groups read, never less than ShardCount. What lies
	// between the two was written to before, and is read until it is empty; but for
	// Retired, the shards of it that are gone.
	ReadCount int
	Retired   spans.Set
	// Switched is the version in which producers were last sent elsewhere.
	Switched int64
	// Proofs are shards that were found empty and are to be removed. Groups read them no
	// more.
	Proofs []Proof
	// GivenUp are shards that are to be removed with what they hold, and Ignored
	// consumer groups that nobody has to wait for: both by an operator's word, and only
	// until nothing is left to be removed.
	GivenUp spans.Set
	Ignored []string
	// Migrations are the last changes of the shard count, oldest first. Only the last
	// may be open.
	Migrations []Migration
	// HighestCount is the highest shard count that was ever used, or meant to be: no
	// shard of this stream has a higher number.
	HighestCount int
	// Provisioned is true once every shard's key was seen to exist.
	Provisioned bool
	// AutoCreateGroups lets a member's join create its group.
	AutoCreateGroups bool
	// GroupStart is where a new group begins.
	GroupStart protocol.GroupStart
	// RoutingLease is the longest time for which a producer was ever told that
	// it may use a routing snapshot.
	RoutingLease time.Duration
	// Groups are the groups of the stream, by name.
	Groups []Group
	// Deleted are the names of the last groups that were deleted, oldest first:
	// they do not come back by a join.
	Deleted []string
	// Held are those of them that were deleted while members may have been
	// reading. Created again, they grant nothing for one lease time.
	Held []string
	// Removal is set while the stream is being deleted.
	Removal *Removal
	// CreatedAt and UpdatedAt are for people.
	CreatedAt time.Time
	UpdatedAt time.Time
}

// GroupPhase says how far a group has come.
type GroupPhase string

// The phases of a group.
const (
	// GroupCreating: its consumer groups and its aggregate are to be created.
	GroupCreating GroupPhase = "creating"
	// GroupLive: its aggregate exists; a missing one is a loss.
	GroupLive GroupPhase = "live"
	// GroupDeleting: its aggregate is to be deleted.
	GroupDeleting GroupPhase = "deleting"
)

// Group is one group of a stream.
type Group struct {
	Name  string
	Phase GroupPhase
	// Force, while deleting: even with live members.
	Force bool
	// Final, while deleting: it was found without live members, and nothing takes the
	// deletion back any more; as by force.
	Final bool
	// DeleteData, while deleting: remove the consumer groups in Redis as well.
	DeleteData bool
	// Again, while creating: members of a deleted group of this name may still
	// read.
	Again bool
	// Adopted is the version of the stream's record that the group follows.
	Adopted   int64
	CreatedAt time.Time
}

// Proof says that a shard was found empty, at the last id that was generated in it. It
// holds for this stream only, in this condition.
type Proof struct {
	Shard  int
	LastID string
}

// Migration is a change of the shard count.
type Migration struct {
	ID       string
	From, To int
	State    protocol.MigrationState
	// RequestedBy and Reason are what the operator said.
	RequestedBy, Reason string
	CreatedAt           time.Time
	UpdatedAt           time.Time
}

// Open reports whether the change is still under way.
func (m *Migration) Open() bool {
	return m.State != protocol.MigrationDeprecated && m.State != protocol.MigrationRolledBack
}

// Removal says how a stream is being deleted.
type Removal struct {
	// DeleteData removes the shards with all records.
	DeleteData bool
}

const (
	// maxDeleted bounds the names of deleted groups that are remembered.
	maxDeleted = 256
	// maxMigrations bounds the changes of the shard count that are remembered.
	maxMigrations = 16
	// maxProofs bounds the shards that are removed in one go.
	maxProofs = 1024
	// MaxIgnored bounds the consumer groups that an operator can have ignored.
	MaxIgnored = 64
)

// Exists reports whether the record stands for a stream.
func (s *State) Exists() bool { return s.Prefix != "" }

// Group finds a group by name.
func (s *State) Group(name string) (Group, bool) {
	i, found := s.find(name)
	if !found {
		return Group{}, false
	}
	return s.Groups[i], true
}

func (s *State) find(name string) (int, bool) {
	return slices.BinarySearchFunc(s.Groups, name, func(g Group, name string) int { return strings.Compare(g.Name, name) })
}

// Describe gives the stream in the words of the API.
func (s *State) Describe() protocol.Stream {
	d := protocol.Stream{
		StreamPrefix: s.Prefix, ShardCount: s.ShardCount, MetadataVersion: s.Version,
		AutoCreateGroups: s.AutoCreateGroups, GroupStart: s.GroupStart, Groups: []string{},
		Provisioned: s.Provisioned, CreatedAt: s.CreatedAt, UpdatedAt: s.UpdatedAt,
	}
	if m, open := s.Migrating(); open {
		d.ActiveMigration = m.Describe()
	}
	for _, g := range s.Groups {
		if g.Phase != GroupDeleting {
			d.Groups = append(d.Groups, g.Name)
		}
	}
	return d
}

// Migrating returns the change of the shard count that is under way.
func (s *State) Migrating() (*Migration, bool) {
	if last := len(s.Migrations) - 1; last >= 0 && s.Migrations[last].Open() {
		return &s.Migrations[last], true
	}
	return nil, false
}

// Migration finds a change of the shard count by its id.
func (s *State) Migration(id string) (*Migration, bool) {
	i := slices.IndexFunc(s.Migrations, func(m Migration) bool { return m.ID == id })
	if i < 0 {
		return nil, false
	}
	return &s.Migrations[i], true
}

// Describe gives the change in the words of the API.
func (m *Migration) Describe() *protocol.Migration {
	return &protocol.Migration{
		ReshardingID: m.ID, FromShardCount: m.From, ToShardCount: m.To, State: m.State,
		RequestedBy: m.RequestedBy, Reason: m.Reason, CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt,
		BlockedBy: []protocol.Blocker{},
	}
}
