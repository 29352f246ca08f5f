package stream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// SchemaVersion is that of the encoded record.
const SchemaVersion = 2

type record struct {
	SchemaVersion    int                 `json:"schemaVersion"`
	StreamPrefix     string              `json:"streamPrefix"`
	MetadataVersion  int64               `json:"metadataVersion"`
	ShardCount       int                 `json:"shardCount"`
	HighestCount     int                 `json:"highestShardCount"`
	Provisioned      bool                `json:"provisioned"`
	AutoCreateGroups bool                `json:"autoCreateGroups"`
	GroupStart       protocol.GroupStart `json:"groupStart"`
	RoutingLeaseMs   int64               `json:"routingLeaseMs"`
	Groups           []group             `json:"groups"`
	Deleted          []string            `json:"deletedGroups"`
	Removal          *removal            `json:"removal,omitempty"`
	CreatedAt        time.Time           `json:"createdAt"`
	UpdatedAt        time.Time           `json:"updatedAt"`
}

type group struct {
	Name       string     `json:"name"`
	Phase      GroupPhase `json:"phase"`
	Force      bool       `json:"force,omitempty"`
	DeleteData bool       `json:"deleteData,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
}

type removal struct {
	DeleteData bool `json:"deleteData"`
}

// Encode writes the record as it is stored.
func Encode(s *State) ([]byte, error) {
	r := record{
		SchemaVersion: SchemaVersion, StreamPrefix: s.Prefix, MetadataVersion: s.Version,
		ShardCount: s.ShardCount, HighestCount: s.HighestCount, Provisioned: s.Provisioned,
		AutoCreateGroups: s.AutoCreateGroups, GroupStart: s.GroupStart, RoutingLeaseMs: s.RoutingLease.Milliseconds(),
		Groups: make([]group, len(s.Groups)), Deleted: append([]string{}, s.Deleted...),
		CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
	for i, g := range s.Groups {
		r.Groups[i] = group{g.Name, g.Phase, g.Force, g.DeleteData, g.CreatedAt.UTC()}
	}
	if s.Removal != nil {
		r.Removal = &removal{s.Removal.DeleteData}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode stream %s: %w", s.Prefix, err)
	}
	return body, nil
}

// Decode reads what Encode wrote, and checks it.
// Errors: protocol.ErrCorrupt, also for a schema newer than SchemaVersion.
func Decode(body []byte) (State, error) {
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return State{}, protocol.ErrCorrupt.With("the stream's record cannot be read: %v", err)
	}
	corrupt := func(format string, args ...any) (State, error) {
		return State{}, protocol.ErrCorrupt.With("the record of stream %q: %s", r.StreamPrefix, fmt.Sprintf(format, args...))
	}
	switch {
	case r.SchemaVersion != SchemaVersion:
		return corrupt("has schema version %d, this coordinator reads %d: use the release that wrote it", r.SchemaVersion, SchemaVersion)
	case r.StreamPrefix == "":
		return corrupt("has no name")
	case r.ShardCount < 0 || r.ShardCount > protocol.MaxShards || r.HighestCount < r.ShardCount || r.HighestCount > protocol.MaxShards:
		return corrupt("has %d shards and had up to %d", r.ShardCount, r.HighestCount)
	case len(r.Groups) > protocol.MaxGroups:
		return corrupt("has %d groups", len(r.Groups))
	}
	s := State{
		Prefix: r.StreamPrefix, Version: r.MetadataVersion, ShardCount: r.ShardCount, HighestCount: r.HighestCount,
		Provisioned: r.Provisioned, AutoCreateGroups: r.AutoCreateGroups, GroupStart: r.GroupStart,
		RoutingLease: time.Duration(r.RoutingLeaseMs) * time.Millisecond,
		Deleted:      r.Deleted, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	for _, g := range r.Groups {
		switch g.Phase {
		case GroupCreating, GroupLive, GroupDeleting:
		default:
			return corrupt("group %q is in the unknown phase %q", g.Name, g.Phase)
		}
		s.Groups = append(s.Groups, Group(g))
	}
	if !slices.IsSortedFunc(s.Groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) }) {
		return corrupt("its groups are not in order")
	}
	if r.Removal != nil {
		s.Removal = &Removal{r.Removal.DeleteData}
	}
	return s, nil
}
