package protocol

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// The bodies in testdata are written the way the existing clients write them:
// the JVM client sends every field, null where it has nothing, in the order of
// the alphabet; the Python client has spaces behind colons and commas, knows
// only ownedShards of the lists, and never leaves.
func TestBodiesOfExistingClients(t *testing.T) {
	jvm := Heartbeat{
		ProtocolVersion: 1, MemberID: "10.1.2.3-m0", MemberName: "billing",
		Capacity:    Capacity{MaxConcurrency: 1},
		OwnedShards: Shards{}, RevokingShards: []RevokingShard{}, ShardProgress: []ShardProgress{},
	}
	python := Heartbeat{
		ProtocolVersion: 1, MemberID: "worker-0", MemberName: "worker-0",
		Capacity: Capacity{MaxConcurrency: 1, AvailableConcurrency: 1},
	}
	tests := map[string]struct {
		base Heartbeat
		with func(*Heartbeat)
	}{
		"jvm-join.json": {jvm, func(q *Heartbeat) {
			q.RequestID = "5f0c1f0e-8a4b-4f0e-9a57-0d9e5f0a1b2c"
			q.Capacity.AvailableConcurrency = 1
		}},
		"jvm-steady.json": {jvm, func(q *Heartbeat) {
			q.RequestID = "0a6f3d52-3f6e-4d0c-8a5e-1c2d3e4f5a6b"
			q.MemberEpoch, q.MetadataVersion = 12, 9
			q.OwnedShards = Shards{0, 2}
			q.ShardProgress = []ShardProgress{
				{Shard: 0, StreamKey: "orders:0", LastDeliveredID: "1767225600000-4", LastAckedID: "1767225600000-3", PendingCount: 1, UpdatedAt: "2026-01-01T00:00:00.123456Z"},
				{Shard: 2, StreamKey: "orders:2", LastDeliveredID: "1767225600000-0", PendingCount: 1, UpdatedAt: "2026-01-01T00:00:00Z"},
			}
		}},
		"jvm-revoke.json": {jvm, func(q *Heartbeat) {
			q.RequestID = "b1d2c3e4-f5a6-4b7c-8d9e-0f1a2b3c4d5e"
			q.MemberEpoch, q.MetadataVersion = 13, 10
			q.OwnedShards = Shards{0}
			q.RevokingShards = []RevokingShard{
				{Shard: 2, State: RevokeDraining, InFlight: 1},
				{Shard: 5, State: RevokeRevoked, AckedAt: "2026-01-01T00:00:03.000000001Z"},
			}
			q.ShardProgress = []ShardProgress{{Shard: 0, StreamKey: "orders:0"}}
		}},
		"jvm-leave.json": {jvm, func(q *Heartbeat) {
			q.RequestID = "c0ffee00-1234-4abc-8def-0123456789ab"
			q.MemberEpoch, q.MetadataVersion = EpochLeave, 10
			q.OwnedShards = Shards{0, 2}
			q.RevokingShards = []RevokingShard{
				{Shard: 0, State: RevokeRevoked, AckedAt: "2026-01-01T00:00:06Z"},
				{Shard: 2, State: RevokeDraining, InFlight: 1},
			}
		}},
		"python-join.json": {python, func(q *Heartbeat) {
			q.RequestID = "2b5f7c1e-6d3a-4e8f-9b0a-7c6d5e4f3a2b"
			q.OwnedShards = Shards{}
		}},
		"python-steady.json": {python, func(q *Heartbeat) {
			q.RequestID = "9e8d7c6b-5a4f-4e3d-8c2b-1a0f9e8d7c6b"
			q.MemberEpoch, q.MetadataVersion = 21, 9
			q.OwnedShards = Shards{0, 1}
		}},
		"python-release.json": {python, func(q *Heartbeat) {
			q.RequestID = "7a6b5c4d-3e2f-4a1b-9c8d-7e6f5a4b3c2d"
			q.MemberEpoch, q.MetadataVersion = 22, 10
			q.OwnedShards = Shards{0}
		}},
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(tests) {
		t.Errorf("%d bodies in testdata, %d are known here", len(files), len(tests))
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			got, err := DecodeHeartbeat(body)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.base
			tt.with(&want)
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("decoded\n%+v, want\n%+v", *got, want)
			}
		})
	}
}
