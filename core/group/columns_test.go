package group

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// recordOf is the record that a state is written as.
func recordOf(t *testing.T, s *State) record {
	t.Helper()
	r := record{
		head: head{
			SchemaVersion, s.Stream, s.Group, s.CreatedAt, s.UpdatedAt, s.Counter, s.GroupEpoch, s.AssignmentEpoch,
			s.MetadataVersion, s.ShardCount, s.StreamVersion,
			timings{s.Timings.HeartbeatInterval.Milliseconds(), s.Timings.Lease.Milliseconds(), s.Timings.RebalanceTimeout.Milliseconds()},
		},
		Lives: []life{}, Ended: []tombstone{}, tail: s.tail(),
		Ledger: columns{Base: lowest(s) - 1, Holder: s.Ledger.Holder, Grant: column[protocol.Epoch]{}, Revoke: [][2]int64{}},
		Target: s.Target,
	}
	for _, l := range s.Lives {
		r.Lives = append(r.Lives, life{l.Member, l.Name, l.Incarnation, l.Legacy, lifeStates[l.State], l.JoinEpoch, l.Acked, l.Epoch, l.InSync, l.Doubtful, l.Draining, l.JoinedAt.UTC()})
	}
	for _, x := range s.Ended {
		r.Ended = append(r.Ended, tombstone{x.Member, x.Incarnation, x.Reason, x.At.UTC()})
	}
	for shard, g := range s.Ledger.Grant {
		if g != 0 {
			g -= r.Ledger.Base
		}
		r.Ledger.Grant = append(r.Ledger.Grant, g)
		if e := s.Ledger.Revoke[shard]; e != 0 {
			r.Ledger.Revoke = append(r.Ledger.Revoke, [2]int64{int64(shard), int64(e - r.Ledger.Base)})
		}
	}
	return r
}

func TestEncodeIsWhatTheLibraryMakes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	full := lively(t)
	empty := New("a", "b", 0, 1, protocol.DefaultTimings(), at)
	odd := State{
		Stream: `or"ders`, Group: "<b>", CreatedAt: at, UpdatedAt: at, Counter: 1 << 50, ShardCount: 3, Promised: time.Second, TimingsEpoch: 7, Instance: "x",
		Lives: []Life{
			{Member: "é", Incarnation: `"ledger":{\\`, JoinedAt: at.In(time.FixedZone("", 3600)), Legacy: true},
			{Member: "m<&>\u2028\n", Name: "n", Incarnation: "i", State: Over, JoinEpoch: -1, Acked: 1, Epoch: math.MaxInt64, InSync: true, Doubtful: true, Draining: true},
			{},
		},
		Ledger: Ledger{Holder: []int32{None, 0, math.MaxInt32}, Grant: []protocol.Epoch{0, 1 << 49, math.MaxInt64}, Revoke: []protocol.Epoch{5, 0, 1 << 51}},
		Target: []int32{0, None, math.MinInt32},
		Ended:  []Tombstone{{"m", "i", EndLeft, at}, {"\x7f", "\xff", EndExpired, at.Add(time.Nanosecond)}},
		Ring:   []Save{{1, "n"}}, Correction: &Correction{Jump: 3, Reason: "r", OpenedAt: at},
	}
	for name, s := range map[string]*State{"full": &full, "empty": &empty, "odd": &odd} {
		got, err := Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(recordOf(t, s))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestEncodeRefusesAYearThatNobodyCanRead(t *testing.T) {
	for _, year := range []int{-1, 10_000} {
		s := State{Lives: []Life{{JoinedAt: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}}}
		if _, err := Encode(&s); err == nil {
			t.Errorf("the year %d is written", year)
		}
	}
}

func TestColumnsAreRead(t *testing.T) {
	for text, want := range map[string]column[int32]{
		"[]": {}, "null": nil, "[ 1 , -2,\n3 ]": {1, -2, 3}, "[2147483647,-2147483648,0]": {math.MaxInt32, math.MinInt32, 0},
	} {
		got := column[int32]{7}
		if err := json.Unmarshal([]byte(text), &got); err != nil || !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s is read as %v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"7", `"1"`, "{}", "true", "[[1]]", "[1,[2]]", "[null]", "[1.5]", "[1e3]", `["1"]`, "[{}]", "[true]", "[2147483648]", "[-2147483649]", "[99999999999999999999]",
	} {
		var got column[int32]
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is read as %v", text, got)
		}
	}
	var wide column[protocol.Epoch]
	if err := json.Unmarshal([]byte("[9223372036854775807]"), &wide); err != nil || wide[0] != math.MaxInt64 {
		t.Errorf("read as %v, %v", wide, err)
	}
}
