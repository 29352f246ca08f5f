package engine

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// report writes the report of a request and reads it back.
func report(t *testing.T, q *protocol.Heartbeat, shards int, earlier map[protocol.ShardIndex]protocol.ShardProgress) MemberReport {
	t.Helper()
	body, err := encodeReport(q, shards, earlier)
	if err != nil {
		t.Fatal(err)
	}
	r, err := DecodeReport(body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRowsOfProgressMayComeInTurns(t *testing.T) {
	earlier := map[protocol.ShardIndex]protocol.ShardProgress{}
	row := func(s protocol.ShardIndex, pending int64) protocol.ShardProgress {
		return protocol.ShardProgress{Shard: s, StreamKey: fmt.Sprint("orders:", s), PendingCount: pending}
	}
	q := &protocol.Heartbeat{OwnedShards: protocol.Shards{0, 1, 2}, Capacity: protocol.Capacity{MaxConcurrency: 4, AvailableConcurrency: 1}}
	q.ShardProgress = []protocol.ShardProgress{row(0, 1), row(1, 1)}
	report(t, q, 4, earlier)
	q.ShardProgress = []protocol.ShardProgress{row(2, 2), row(1, 2)}
	got := map[protocol.ShardIndex]int64{}
	for _, p := range report(t, q, 4, earlier).Progress {
		got[p.Shard] = p.PendingCount
	}
	if fmt.Sprint(got) != "map[0:1 1:2 2:2]" {
		t.Errorf("the rows are %v", got)
	}
}

// A member that has held every shard once must not be remembered with a row for
// each of them.
func TestRowsOfShardsThatAreGoneAreForgotten(t *testing.T) {
	const shards = 1000
	earlier := map[protocol.ShardIndex]protocol.ShardProgress{}
	for s := range protocol.ShardIndex(shards) {
		q := &protocol.Heartbeat{
			OwnedShards:    protocol.Shards{s},
			RevokingShards: []protocol.RevokingShard{{Shard: s - 1, State: protocol.RevokeDraining, InFlight: 1}},
			ShardProgress:  []protocol.ShardProgress{{Shard: s}, {Shard: s - 1}},
		}
		if r := report(t, q, shards, earlier); len(r.Progress) > 2 {
			t.Fatalf("%d rows for one shard that is owned and one that drains", len(r.Progress))
		}
	}
	if len(earlier) > 2 {
		t.Errorf("%d rows are remembered for a member with one shard", len(earlier))
	}
}

func TestRowsThatCannotBeAreLeftOut(t *testing.T) {
	q := &protocol.Heartbeat{
		OwnedShards: protocol.Shards{0, 1, 2, 4, -1, math.MaxInt32},
		RevokingShards: []protocol.RevokingShard{
			{Shard: 3, State: protocol.RevokeDraining, InFlight: 1, AckedAt: "2026-01-02T03:04:05Z"},
			{Shard: 3, State: protocol.RevokeRevoked, AckedAt: strings.Repeat("9", 5000)},
			{Shard: math.MinInt64, State: protocol.RevokeRevoked},
		},
		ShardProgress: []protocol.ShardProgress{
			{Shard: 0, PendingCount: 1}, {Shard: 0, PendingCount: 2}, {Shard: -1}, {Shard: 4}, {Shard: math.MaxInt32},
			{Shard: 1, LastAckedID: strings.Repeat("9", 5000)}, {Shard: 3},
		},
	}
	r := report(t, q, 4, map[protocol.ShardIndex]protocol.ShardProgress{})
	if len(r.Progress) != 2 || r.Progress[0].PendingCount != 1 || r.Progress[1].Shard != 3 {
		t.Errorf("the rows are %+v, want the first of shard 0 and that of shard 3", r.Progress)
	}
	if fmt.Sprint(r.Owned) != "[0 1 2]" || len(r.Revoking) != 1 || r.Revoking[0].InFlight != 1 {
		t.Errorf("owned %v, revoking %v", r.Owned, r.Revoking)
	}
	if _, err := DecodeReport([]byte("{")); err == nil {
		t.Error("half a report was read")
	}
}
