package porttest

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// testRenew: an old look fits no more, and nothing else has changed.
func testRenew(t *testing.T, r Redis) {
	r.prepare(t, 2, 3, "g", "h")
	key := shard("porttest", 0)
	r.done(t, key, "g")
	r.do(t, "XREADGROUP", "GROUP", "h", "reader", "COUNT", 1, "STREAMS", key, ">")
	before := []port.Shard{r.look(t, 0), r.look(t, 1)}
	r.provision(t, port.Provision{Prefix: "porttest", End: 4, Groups: []string{"g", "h", "new"}, Renew: true, Start: protocol.StartEarliest})
	for i := range 4 {
		r.wantGroups(t, shard("porttest", i), "g", "h", "new")
	}
	after := r.look(t, 0)
	if after.LastID == before[0].LastID {
		t.Errorf("the last id is still %s", after.LastID)
	}
	want := before[0]
	want.LastID, want.Cursors = after.LastID, []port.Cursor{
		{Group: "g"},
		{Group: "h", Pending: 1, OldestID: "1-1", NextID: "2-1", Unread: 2},
		{Group: "new", NextID: "1-1", Unread: 3},
	}
	wantShard(t, after, want)
	for _, sh := range before {
		r.retireAs(t, port.RetireShard{Index: sh.Index, LastID: sh.LastID, Force: true}, port.ShardKept)
	}
	// Everybody goes on at once.
	for i := range 4 {
		key := shard("porttest", i)
		if id := r.do(t, "XADD", key, "NOMKSTREAM", "*", "k", "v"); id == nil {
			t.Errorf("%s: XADD NOMKSTREAM finds no stream", key)
		}
		pending := map[string]int64{"g": 1, "h": 1, "new": 1}
		if i == 0 {
			pending = map[string]int64{"g": 1, "h": 4, "new": 4}
		}
		for group, want := range pending {
			if n := r.read(t, key, group); n != want {
				t.Errorf("%s: group %s has %d entries pending, want %d", key, group, n, want)
			}
		}
	}
}

// testRenewIDs: the next id, whatever the last one was.
func testRenewIDs(t *testing.T, r Redis) {
	const most = "18446744073709551615"
	for i, ids := range [][2]string{
		{"5-1", "5-2"}, {"0-9", "0-10"}, {"7-1099", "7-1100"}, {"7-999", "7-1000"}, {"1764453600000-0", "1764453600000-1"},
		{"9007199254740993-9007199254740993", "9007199254740993-9007199254740994"},
		{"7-" + most, "8-0"}, {"99-" + most, "100-0"}, {most + "-8", most + "-9"},
	} {
		r.do(t, "XADD", shard("porttest", i), ids[0], "k", "v")
		p := port.Provision{Prefix: "porttest", First: i, End: i + 1, Groups: []string{"g"}, Renew: true, Start: protocol.StartEarliest}
		r.provision(t, p)
		if sh := r.look(t, i); sh.LastID != ids[1] || sh.Records != 1 || sh.Cursors[0].NextID != ids[0] {
			t.Errorf("after %s: %+v, want %s", ids[0], sh, ids[1])
		}
		if id := r.do(t, "XADD", shard("porttest", i), "*", "k", "v"); id == nil {
			t.Errorf("after %s nothing can be added", ids[1])
		}
	}
	// This one takes no more records.
	r.do(t, "XADD", shard("porttest", 9), most+"-"+most, "k", "v")
	err := r.Streams.Provision(t.Context(), port.Provision{Prefix: "porttest", First: 9, End: 10, Renew: true, Start: protocol.StartEarliest})
	if !errors.Is(err, protocol.ErrProvisioning) || !strings.Contains(err.Error(), shard("porttest", 9)) {
		t.Errorf("a stream at its end: %v, want ErrProvisioning that names it", err)
	}
	r.do(t, "XGROUP", "CREATE", shard("porttest", 9), "end", "$")
	r.retire(t, r.look(t, 9), port.ShardGone)
}

// testRenewTwice: it can be repeated, and each time is another.
func testRenewTwice(t *testing.T, r Redis) {
	seen := map[string]bool{}
	for _, groups := range [][]string{nil, {"g"}, nil, {"g", "h"}} {
		r.provision(t, port.Provision{Prefix: "porttest", End: 1, Groups: groups, Renew: true, Start: protocol.StartLatest})
		seen[r.look(t, 0).LastID] = true
	}
	if len(seen) != 4 || seen["0-0"] {
		t.Errorf("last ids %v, want 4 of them, none 0-0", seen)
	}
	r.wantGroups(t, shard("porttest", 0), "g", "h")
	r.do(t, "XADD", shard("porttest", 0), "*", "k", "v")
	r.provision(t, port.Provision{Prefix: "porttest", End: 1, Groups: []string{"late"}, Renew: true, Start: protocol.StartLatest})
	if n := r.read(t, shard("porttest", 0), "late"); n != 0 {
		t.Errorf("a group that starts at the end was given %d records", n)
	}
	if n := r.read(t, shard("porttest", 0), "g"); n != 1 {
		t.Errorf("a group from before was given %d records, want 1", n)
	}
}

func testRenewForeignKeys(t *testing.T, r Redis) {
	r.do(t, "SET", shard("porttest", 1), "mine")
	r.do(t, "XADD", shard("porttest", 2), "5-1", "k", "v")
	err := r.Streams.Provision(t.Context(), port.Provision{Prefix: "porttest", End: 3, Groups: []string{"g"}, Renew: true, Start: protocol.StartEarliest})
	if !errors.Is(err, protocol.ErrStreamExists) || !strings.Contains(err.Error(), shard("porttest", 1)) {
		t.Errorf("got %v, want ErrStreamExists that names the key", err)
	}
	r.wantType(t, shard("porttest", 0), "none")
	wantShard(t, r.look(t, 2), port.Shard{Index: 2, Exists: true, LastID: "5-1", Records: 1})
}
