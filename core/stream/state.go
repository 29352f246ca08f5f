package stream

import (
	"slices"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// State is the record of one stream. It is a value: Apply copies what it
// changes. The zero State stands for a stream that does not exist.
type State struct {
	Prefix string
	// Version changes with the shard count, in the same write. It starts at the
	// creation time in milliseconds, so that a stream that was lost and created
	// again does not go back.
	Version    int64
	ShardCount int
	// HighestCount is the highest shard count that was ever used.
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
	// DeleteData, while deleting: remove the consumer groups in Redis as well.
	DeleteData bool
	// Again, while creating: members of a deleted group of this name may still
	// read.
	Again     bool
	CreatedAt time.Time
}

// Removal says how a stream is being deleted.
type Removal struct {
	// DeleteData removes the shards with all records.
	DeleteData bool
}

// maxDeleted bounds the names of deleted groups that are remembered.
const maxDeleted = 256

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
	for _, g := range s.Groups {
		if g.Phase != GroupDeleting {
			d.Groups = append(d.Groups, g.Name)
		}
	}
	return d
}
