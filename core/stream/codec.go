package stream

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// SchemaVersion is that of the encoded record.
const SchemaVersion = 2

type record struct {
	SchemaVersion    int                 `json:"schemaVersion"`
	StreamPrefix     string              `json:"streamPrefix"`
	MetadataVersion  int64               `json:"metadataVersion"`
	ShardCount       int                 `json:"shardCount"`
	ReadCount        int                 `json:"readShardCount,omitempty"`
	Retired          spans.Set           `json:"retiredShards,omitempty"`
	Switched         int64               `json:"switchedInVersion,omitempty"`
	Proofs           []proof             `json:"provenShards,omitempty"`
	GivenUp          spans.Set           `json:"givenUpShards,omitempty"`
	Ignored          []string            `json:"ignoredGroups,omitempty"`
	Migrations       []migration         `json:"migrations,omitempty"`
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
	Final      bool       `json:"final,omitempty"`
	DeleteData bool       `json:"deleteData,omitempty"`
	Again      bool       `json:"again,omitempty"`
	Adopted    int64      `json:"adoptedVersion,omitempty"`
	CreatedAt  time.Time  `json:"createdAt"`
}

type proof struct {
	Shard  int    `json:"shard"`
	LastID string `json:"lastId"`
}

type migration struct {
	ID          string                  `json:"id"`
	From        int                     `json:"from"`
	To          int                     `json:"to"`
	State       protocol.MigrationState `json:"state"`
	RequestedBy string                  `json:"requestedBy,omitempty"`
	Reason      string                  `json:"reason,omitempty"`
	CreatedAt   time.Time               `json:"createdAt"`
	UpdatedAt   time.Time               `json:"updatedAt"`
}

type removal struct {
	DeleteData bool `json:"deleteData"`
}

// Encode writes the record as it is stored.
func Encode(s *State) ([]byte, error) {
	r := record{
		SchemaVersion: SchemaVersion, StreamPrefix: s.Prefix, MetadataVersion: s.Version,
		ShardCount: s.ShardCount, ReadCount: s.ReadCount, Retired: s.Retired, Switched: s.Switched,
		GivenUp: s.GivenUp, Ignored: s.Ignored, HighestCount: s.HighestCount, Provisioned: s.Provisioned,
		AutoCreateGroups: s.AutoCreateGroups, GroupStart: s.GroupStart, RoutingLeaseMs: s.RoutingLease.Milliseconds(),
		Groups: make([]group, len(s.Groups)), Deleted: append([]string{}, s.Deleted...), Held: s.Held,
		CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
	for i, g := range s.Groups {
		r.Groups[i] = group{g.Name, g.Phase, g.Force, g.Final, g.DeleteData, g.Again, g.Adopted, g.CreatedAt.UTC()}
	}
	for _, p := range s.Proofs {
		r.Proofs = append(r.Proofs, proof(p))
	}
	for _, m := range s.Migrations {
		m.CreatedAt, m.UpdatedAt = m.CreatedAt.UTC(), m.UpdatedAt.UTC()
		r.Migrations = append(r.Migrations, migration(m))
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
		ReadCount: r.ReadCount, Retired: r.Retired, Switched: r.Switched, GivenUp: r.GivenUp, Ignored: r.Ignored,
		Provisioned: r.Provisioned, AutoCreateGroups: r.AutoCreateGroups, GroupStart: r.GroupStart,
		RoutingLease: milliseconds(r.RoutingLeaseMs),
		Deleted:      r.Deleted, Held: r.Held, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	for _, g := range r.Groups {
		s.Groups = append(s.Groups, Group(g))
	}
	for _, p := range r.Proofs {
		s.Proofs = append(s.Proofs, Proof(p))
	}
	for _, m := range r.Migrations {
		s.Migrations = append(s.Migrations, Migration(m))
	}
	if r.Removal != nil {
		s.Removal = &Removal{r.Removal.DeleteData}
	}
	if s.ReadCount == 0 && s.Switched == 0 {
		// It was written before the count could be changed.
		s.ReadCount, s.Switched = s.ShardCount, s.Version
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
