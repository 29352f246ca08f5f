package stream

import (
	"encoding/json"
	"fmt"
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
	Held             []string            `json:"heldGroups,omitempty"`
	Removal          *removal            `json:"removal,omitempty"`
	CreatedAt        time.Time           `json:"createdAt"`
	UpdatedAt        time.Time           `json:"updatedAt"`
}

type group struct {
	Name       string     `json:"name"`
	Phase      GroupPhase `json:"phase"`
	Force      bool       `json:"force,omitempty"`
	DeleteData bool       `json:"deleteData,omitempty"`
	Again      bool       `json:"again,omitempty"`
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
		Groups: make([]group, len(s.Groups)), Deleted: append([]string{}, s.Deleted...), Held: s.Held,
		CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
	for i, g := range s.Groups {
		r.Groups[i] = group{g.Name, g.Phase, g.Force, g.DeleteData, g.Again, g.CreatedAt.UTC()}
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
	if r.SchemaVersion != SchemaVersion {
		return State{}, protocol.ErrCorrupt.With("the record of stream %q has schema version %d, this coordinator reads %d: use the release that wrote it",
			r.StreamPrefix, r.SchemaVersion, SchemaVersion)
	}
	s := State{
		Prefix: r.StreamPrefix, Version: r.MetadataVersion, ShardCount: r.ShardCount, HighestCount: r.HighestCount,
		Provisioned: r.Provisioned, AutoCreateGroups: r.AutoCreateGroups, GroupStart: r.GroupStart,
		RoutingLease: milliseconds(r.RoutingLeaseMs),
		Deleted:      r.Deleted, Held: r.Held, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	for _, g := range r.Groups {
		s.Groups = append(s.Groups, Group(g))
	}
	if r.Removal != nil {
		s.Removal = &Removal{r.Removal.DeleteData}
	}
	if err := s.check(); err != nil {
		return State{}, protocol.ErrCorrupt.With("the record of stream %q %v: restore it from a backup, or delete the stream and create it again",
			r.StreamPrefix, err)
	}
	return s, nil
}

// milliseconds reads a time; one that does not fit is negative, and refused.
func milliseconds(ms int64) time.Duration {
	if ms < 0 || ms > maxRoutingLease.Milliseconds() {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}
