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

func TestEncodeIsWhatTheLibraryMakes(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for name, r := range map[string]record{
		"empty": {},
		"no shards": {
			head: head{StreamPrefix: "a"}, Lives: []life{}, Ended: []tombstone{},
			Ledger: columns{Holder: column[int32]{}, Grant: column[protocol.Epoch]{}, Revoke: [][2]int64{}}, Target: column[int32]{},
		},
		"all of it": {
			head: head{
				SchemaVersion: SchemaVersion, StreamPrefix: `or"ders`, ConsumerGroup: "<b>", CreatedAt: at, UpdatedAt: at, Counter: 9, ShardCount: 3,
			},
			Lives: []life{
				{Member: "é", Incarnation: `"ledger":{\\`, State: "active", JoinedAt: at, Legacy: true},
				{Member: "m<&>\u2028\n", Name: "n", Incarnation: "i", State: "over", JoinEpoch: -1, Acked: 1, Epoch: math.MaxInt64, InSync: true, Doubtful: true},
				{},
			},
			Ledger: columns{Base: 1 << 50, Holder: column[int32]{-1, 0, math.MaxInt32}, Grant: column[protocol.Epoch]{0, 1, math.MaxInt64}, Revoke: [][2]int64{{0, 5}, {2, -7}}},
			Target: column[int32]{0, -1, math.MinInt32},
			Ended:  []tombstone{{"m", "i", EndLeft, at}, {"\x7f", "\xff", EndExpired, at.Add(time.Nanosecond)}},
			tail: tail{
				PromisedMs: 5, TimingsEpoch: 7, Instance: "x",
				Ring: []saved{{1, "n"}}, Correction: &correction{Jump: 3, Reason: "r", OpenedAt: at},
			},
		},
	} {
		got, err := r.encode()
		if err != nil {
			t.Fatal(err)
		}
		// The library has null where nothing was made; Encode always makes it.
		for _, c := range []*column[int32]{&r.Ledger.Holder, &r.Target} {
			if *c == nil {
				*c = column[int32]{}
			}
		}
		if r.Lives == nil {
			r.Lives, r.Ended = []life{}, []tombstone{}
		}
		if r.Ledger.Grant == nil {
			r.Ledger.Grant, r.Ledger.Revoke = column[protocol.Epoch]{}, [][2]int64{}
		}
		want, err := json.Marshal(r)
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
		r := record{Lives: []life{{JoinedAt: time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)}}}
		if _, err := r.encode(); err == nil {
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
