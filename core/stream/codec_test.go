package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// lively is a record with everything in it.
func lively() State {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	return State{
		Prefix: "orders", Version: 1767323045006, ShardCount: 4, HighestCount: 8, Provisioned: true,
		ReadCount: 8, Retired: spans.Of(5), Switched: 1767323045003, Proofs: []Proof{{6, "9-1"}, {7, ""}}, GivenUp: spans.Of(6), Ignored: []string{"x", "y"},
		Migrations: []Migration{
			{ID: "m1", From: 4, To: 8, State: protocol.MigrationDeprecated, RequestedBy: "ops", Reason: "load", CreatedAt: at, UpdatedAt: at},
			{ID: "m2", From: 8, To: 4, State: protocol.MigrationDraining, CreatedAt: at, UpdatedAt: at},
		},
		AutoCreateGroups: true, GroupStart: protocol.StartLatest, RoutingLease: 45 * time.Second,
		Groups: []Group{
			{Name: "audit", Phase: GroupCreating, CreatedAt: at},
			{Name: "billing", Phase: GroupLive, Adopted: 1767323045004, CreatedAt: at},
			{Name: "search", Phase: GroupDeleting, Force: true, DeleteData: true, CreatedAt: at},
		},
		Deleted: []string{"old"}, CreatedAt: at, UpdatedAt: at.Add(time.Hour),
	}
}

func TestARecordSurvivesTheStore(t *testing.T) {
	for name, s := range map[string]State{
		"lively": lively(),
		"fresh":  {Prefix: "orders", Version: 1, Switched: 1, GroupStart: protocol.StartEarliest},
		"going":  {Prefix: "orders", Version: 1, Switched: 1, GroupStart: protocol.StartEarliest, Removal: &Removal{DeleteData: true}},
	} {
		body, err := Encode(&s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(body)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again, err := Encode(&got)
		if err != nil || !bytes.Equal(again, body) {
			t.Errorf("%s changes in the store (%v):\n%s\n%s", name, err, body, again)
		}
		if got.RoutingLease != s.RoutingLease || len(got.Groups) != len(s.Groups) || (got.Removal == nil) != (s.Removal == nil) || !got.UpdatedAt.Equal(s.UpdatedAt) {
			t.Errorf("%s changes in the store:\n%+v\n%+v", name, s, got)
		}
	}
}

// A record from before the count could be changed has nothing that is removed.
func TestARecordFromBefore(t *testing.T) {
	s, err := Decode([]byte(`{"schemaVersion":2,"streamPrefix":"orders","metadataVersion":7,"shardCount":4,"highestShardCount":4,"groupStart":"earliest"}`))
	if err != nil || s.ReadCount != 4 || s.Switched != 7 {
		t.Errorf("it is read as %+v, %v", s, err)
	}
}

func TestDescribe(t *testing.T) {
	s := lively()
	d := s.Describe()
	if d.ActiveMigration == nil || d.ActiveMigration.ReshardingID != "m2" || d.ActiveMigration.ToShardCount != 4 {
		t.Errorf("the change under way is %+v", d.ActiveMigration)
	}
	if d.StreamPrefix != "orders" || d.ShardCount != 4 || d.MetadataVersion != s.Version || !d.AutoCreateGroups ||
		d.GroupStart != protocol.StartLatest || !d.Provisioned || !d.CreatedAt.Equal(s.CreatedAt) || !d.UpdatedAt.Equal(s.UpdatedAt) {
		t.Errorf("the stream is %+v", d)
	}
	// One that is being deleted is listed no more.
	if len(d.Groups) != 2 || d.Groups[0] != "audit" || d.Groups[1] != "billing" {
		t.Errorf("its groups are %v", d.Groups)
	}
	if g, found := s.Group("search"); !found || g.Phase != GroupDeleting {
		t.Errorf("Group(search) = %+v, %v", g, found)
	}
	if g, found := s.Group("nobody"); found {
		t.Errorf("Group(nobody) = %+v", g)
	}
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	s := lively()
	body, err := Encode(&s)
	if err != nil {
		t.Fatal(err)
	}
	many := func(n int) (groups []group) {
		for i := range n {
			groups = append(groups, group{Name: strings.Repeat("g", i+1), Phase: GroupLive})
		}
		return groups
	}
	for name, damage := range map[string]func(*record){
		"fewer read than written":     func(r *record) { r.ReadCount = 3 },
		"more read than ever":         func(r *record) { r.ReadCount = 9 },
		"gone, but written to":        func(r *record) { r.Retired = spans.Of(3) },
		"gone, but never there":       func(r *record) { r.Retired = spans.Of(8) },
		"gone in no order":            func(r *record) { r.Retired = spans.Set{{First: 6, End: 7}, {First: 4, End: 5}} },
		"given up, but written to":    func(r *record) { r.GivenUp = spans.Of(0) },
		"a proof of what is gone":     func(r *record) { r.Proofs[0].Shard = 5 },
		"proofs out of order":         func(r *record) { r.Proofs[0].Shard = 7 },
		"switched in the future":      func(r *record) { r.Switched = r.MetadataVersion + 1 },
		"ignored out of order":        func(r *record) { r.Ignored = []string{"y", "x"} },
		"too many ignored":            func(r *record) { r.Ignored = make([]string, MaxIgnored+1) },
		"too many changes":            func(r *record) { r.Migrations = make([]migration, maxMigrations+1) },
		"two changes under way":       func(r *record) { r.Migrations[0].State = protocol.MigrationActive },
		"a change in no state":        func(r *record) { r.Migrations[1].State = "sleeping" },
		"a change of an absurd count": func(r *record) { r.Migrations[1].To = 9 },
		"a change at no time": func(r *record) {
			r.Migrations[1].UpdatedAt = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600))
		},
		"an older schema":              func(r *record) { r.SchemaVersion = 1 },
		"a newer schema":               func(r *record) { r.SchemaVersion = 3 },
		"no name":                      func(r *record) { r.StreamPrefix = "" },
		"fewer shards than none":       func(r *record) { r.ShardCount, r.ReadCount, r.Migrations = -1, -1, nil },
		"more shards than allowed":     func(r *record) { r.ShardCount, r.HighestCount = protocol.MaxShards+1, protocol.MaxShards+1 },
		"more shards than ever":        func(r *record) { r.HighestCount = 3 },
		"an absurd past":               func(r *record) { r.HighestCount = protocol.MaxShards + 1 },
		"too many groups":              func(r *record) { r.Groups = many(protocol.MaxGroups + 1) },
		"a group without a name":       func(r *record) { r.Groups[0].Name = "" },
		"a group twice":                func(r *record) { r.Groups[1].Name = "audit" },
		"groups out of order":          func(r *record) { r.Groups[0].Name = "zebra" },
		"an unknown phase":             func(r *record) { r.Groups[0].Phase = "sleeping" },
		"an unknown start":             func(r *record) { r.GroupStart = "yesterday" },
		"no start":                     func(r *record) { r.GroupStart = "" },
		"a lease of less than nothing": func(r *record) { r.RoutingLeaseMs = -1 },
		"a lease beyond all time":      func(r *record) { r.RoutingLeaseMs = 1 << 62 },
		"too many deleted groups":      func(r *record) { r.Deleted = make([]string, maxDeleted+1) },
		"a removal with groups":        func(r *record) { r.Removal = &removal{} },
		"a time after the last year":   func(r *record) { r.CreatedAt = time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -3600)) },
		"a group of before all years":  func(r *record) { r.Groups[1].CreatedAt = time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)) },
	} {
		t.Run(name, func(t *testing.T) {
			var r record
			if err := json.Unmarshal(body, &r); err != nil {
				t.Fatal(err)
			}
			damage(&r)
			damaged, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(damaged); !errors.Is(err, protocol.ErrCorrupt) {
				t.Errorf("Decode: %v, want %v", err, protocol.ErrCorrupt)
			}
		})
	}
	for n := range body {
		if _, err := Decode(body[:n]); !errors.Is(err, protocol.ErrCorrupt) {
			t.Fatalf("the first %d of %d bytes: %v, want %v", n, len(body), err, protocol.ErrCorrupt)
		}
	}
	if _, err := Decode(bytes.Replace(body, []byte("{"), []byte(`{"later":[1],`), 1)); err != nil {
		t.Errorf("an unknown field: %v", err)
	}
}

func TestATimeThatCannotBeWrittenIsAnError(t *testing.T) {
	s := lively()
	s.UpdatedAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := Encode(&s); err == nil {
		t.Error("Encode wrote a time that Decode cannot read")
	}
}

type strange struct{}

func (strange) isCommand() {}

func TestAnUnknownCommandIsRefused(t *testing.T) {
	s := lively()
	if next, r, _, err := Apply(s, Input{}, strange{}); !errors.Is(err, protocol.ErrInvalidRequest) || r.Changed || next.ShardCount != s.ShardCount {
		t.Errorf("Apply: %v", err)
	}
}

// The names of deleted groups are remembered, up to a number.
func TestDeletedNamesArePruned(t *testing.T) {
	s := State{Prefix: "orders", Version: 1, GroupStart: protocol.StartEarliest}
	name := func(i int) string {
		return strings.Repeat("x", i%7+1) + string(rune('a'+i%26)) + time.Duration(i).String()
	}
	for i := range maxDeleted + 50 {
		for _, cmd := range []Command{EnsureGroup{Name: name(i)}, DeleteGroup{Name: name(i)}, DeleteFinally{name(i)}, GroupDeleted{Name: name(i)}} {
			next, _, _, err := Apply(s, Input{}, cmd)
			if err != nil {
				t.Fatal(err)
			}
			s = next
		}
	}
	if len(s.Deleted) != maxDeleted || s.Deleted[maxDeleted-1] != name(maxDeleted+49) {
		t.Errorf("%d names are remembered, the last is %s", len(s.Deleted), s.Deleted[len(s.Deleted)-1])
	}
}

func FuzzDecode(f *testing.F) {
	s := lively()
	body, err := Encode(&s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"schemaVersion":2,"streamPrefix":"orders","groupStart":"earliest"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := Decode(body)
		if err != nil {
			if !errors.Is(err, protocol.ErrCorrupt) {
				t.Fatalf("Decode: %v, want %v", err, protocol.ErrCorrupt)
			}
			return
		}
		written, err := Encode(&s)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := Decode(written)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if rewritten, err := Encode(&again); err != nil || !bytes.Equal(written, rewritten) {
			t.Fatalf("the record changes in the store (%v):\n%s\n%s", err, written, rewritten)
		}
		s.Next(Input{Look: true, RoutesOver: s.Switched})
	})
}
