package porttest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Shards runs the suite for adapters that let removed shards go. open returns an
// adapter on a Redis that holds no key that starts with "porttest".
func Shards(t *testing.T, open func(t *testing.T) Redis) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, Redis)
	}{
		{"LookAtNothing", testLookAtNothing},
		{"LookAt", testLookAt},
		{"LookAtBacklog", testLookAtBacklog},
		{"LookAtGaps", testLookAtGaps},
		{"Retire", testRetire},
		{"RetireWithoutRecords", testRetireWithoutRecords},
		{"RetireLag", testRetireLag},
		{"RetireBacklog", testRetireBacklog},
		{"RetireWithoutGroups", testRetireWithoutGroups},
		{"RetireIgnored", testRetireIgnored},
		{"RetireWithoutAGroup", testRetireWithoutAGroup},
		{"RetireForced", testRetireForced},
		{"RetireWrittenTo", testRetireWrittenTo},
		{"RetireCreatedAgain", testRetireCreatedAgain},
		{"RetireForeignKeys", testRetireForeignKeys},
		{"Renew", testRenew},
		{"RenewIDs", testRenewIDs},
		{"RenewTwice", testRenewTwice},
		{"RenewForeignKeys", testRenewForeignKeys},
		{"Find", testFind},
		{"ManyShards", testManyShardsGo},
		{"HostileNames", testShardNames},
		{"EndedContext", testShardsEndedContext},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

// look looks at one shard of porttest.
func (r Redis) look(t *testing.T, index int) port.Shard {
	t.Helper()
	shards, err := r.Shards.LookAt(t.Context(), "porttest", []int{index})
	if err != nil || len(shards) != 1 || shards[0].Index != index {
		t.Fatalf("look at shard %d: %+v, %v", index, shards, err)
	}
	return shards[0]
}

// retire asks for one shard of porttest, as it was when it was looked at.
func (r Redis) retire(t *testing.T, sh port.Shard, want port.RetireOutcome, ignored ...string) {
	t.Helper()
	r.retireAs(t, port.RetireShard{Index: sh.Index, LastID: sh.LastID}, want, ignored...)
}

func (r Redis) retireAs(t *testing.T, sh port.RetireShard, want port.RetireOutcome, ignored ...string) {
	t.Helper()
	got, err := r.Shards.Retire(t.Context(), port.Retirement{Prefix: "porttest", Shards: []port.RetireShard{sh}, Ignored: ignored})
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("retire %+v, ignoring %q: %v, %v; want %v", sh, ignored, got, err, want)
	}
}

// prepare provisions shards from 0 with groups and adds entries 1-1, 2-1, … to shard 0.
func (r Redis) prepare(t *testing.T, shards, entries int, groups ...string) {
	t.Helper()
	r.provision(t, port.Provision{Prefix: "porttest", End: shards, Groups: groups, Start: protocol.StartEarliest})
	for i := range entries {
		r.do(t, "XADD", shard("porttest", 0), streamID(i+1), "k", "v")
	}
}

// done lets the group read all that is new to it, and acknowledge all it has.
func (r Redis) done(t *testing.T, key, group string) {
	t.Helper()
	if r.read(t, key, group) == 0 {
		return
	}
	list, _ := r.do(t, "XPENDING", key, group, "-", "+", 1000).([]any)
	for _, one := range list {
		parts, _ := one.([]any)
		r.do(t, "XACK", key, group, parts[0])
	}
}

func streamID(ms int) string { return strconv.Itoa(ms) + "-1" }

// wantShard compares but for what Redis says of the lag, which is not always right.
func wantShard(t *testing.T, got, want port.Shard) {
	t.Helper()
	for i := range got.Cursors {
		if got.Cursors[i].Lag < port.Unknown {
			t.Errorf("group %q: lag %d", got.Cursors[i].Group, got.Cursors[i].Lag)
		}
	}
	same := slices.EqualFunc(got.Cursors, want.Cursors, func(a, b port.Cursor) bool {
		a.Lag = b.Lag
		return a == b
	})
	if !same || got.Index != want.Index || got.Exists != want.Exists || got.LastID != want.LastID || got.Records != want.Records {
		t.Errorf("shard %+v\nwant  %+v", got, want)
	}
}

func testLookAtNothing(t *testing.T, r Redis) {
	r.do(t, "SET", shard("porttest", 1), "mine")
	r.provision(t, port.Provision{Prefix: "porttest", First: 5, End: 6, Start: protocol.StartEarliest})
	shards, err := r.Shards.LookAt(t.Context(), "porttest", []int{7, 1, 5, 0})
	if err != nil || len(shards) != 4 {
		t.Fatalf("%+v, %v", shards, err)
	}
	for i, index := range []int{7, 1, 5, 0} {
		if want := (port.Shard{Index: index}); index != 5 {
			wantShard(t, shards[i], want)
		}
	}
	wantShard(t, shards[2], port.Shard{Index: 5, Exists: true, LastID: "0-0"})
	if shards, err := r.Shards.LookAt(t.Context(), "porttest", nil); err != nil || len(shards) != 0 {
		t.Errorf("no shards: %+v, %v", shards, err)
	}
	r.wantType(t, shard("porttest", 0), "none")
}

func testLookAt(t *testing.T, r Redis) {
	r.prepare(t, 2, 3, "late", "early", "mid")
	key := shard("porttest", 0)
	for range 2 {
		r.do(t, "XREADGROUP", "GROUP", "mid", "c", "COUNT", 1, "STREAMS", key, ">")
	}
	r.do(t, "XACK", key, "mid", "1-1")
	r.done(t, key, "early")
	wantShard(t, r.look(t, 0), port.Shard{Exists: true, LastID: "3-1", Records: 3, Cursors: []port.Cursor{
		{Group: "early"},
		{Group: "late", NextID: "1-1", Unread: 3},
		{Group: "mid", Pending: 1, OldestID: "2-1", NextID: "3-1", Unread: 1},
	}})
	wantShard(t, r.look(t, 1), port.Shard{Index: 1, Exists: true, LastID: "0-0", Cursors: []port.Cursor{
		{Group: "early"}, {Group: "late"}, {Group: "mid"},
	}})
}

// testLookAtBacklog: what is behind a group is counted, at least.
func testLookAtBacklog(t *testing.T, r Redis) {
	const entries = 300
	r.prepare(t, 1, entries, "g", "h", "i")
	key := shard("porttest", 0)
	r.do(t, "XREADGROUP", "GROUP", "h", "c", "COUNT", 10, "STREAMS", key, ">")
	r.do(t, "XREADGROUP", "GROUP", "i", "c", "COUNT", entries-5, "STREAMS", key, ">")
	cursors := r.look(t, 0).Cursors
	for i, want := range []struct {
		next  string
		left  int64
		exact bool
	}{{"1-1", entries, false}, {"11-1", entries - 10, false}, {"296-1", 5, true}} {
		c := cursors[i]
		if c.NextID != want.next || c.Unread > want.left || c.Unread < 2 || want.exact && c.Unread != want.left {
			t.Errorf("%+v, want next %s and %d unread", c, want.next, want.left)
		}
	}
	// However large they are.
	r.do(t, "XADD", key, "1000-1", "k", strings.Repeat("x", 1<<20))
	r.do(t, "XADD", key, "1001-1", "k", strings.Repeat("x", 1<<20))
	r.done(t, key, "g")
	r.do(t, "XADD", key, "1002-1", "k", strings.Repeat("x", 1<<20))
	r.do(t, "XADD", key, "1003-1", "k", strings.Repeat("x", 1<<20))
	if c := r.look(t, 0).Cursors[0]; c.NextID != "1002-1" || c.Unread < 1 || c.Unread > 2 {
		t.Errorf("%+v, want next 1002-1 and 1 or 2 unread", c)
	}
}

// testLookAtGaps: the next entry is one that is there.
func testLookAtGaps(t *testing.T, r Redis) {
	r.prepare(t, 1, 6, "g")
	key := shard("porttest", 0)
	r.do(t, "XREADGROUP", "GROUP", "g", "c", "COUNT", 2, "STREAMS", key, ">")
	r.do(t, "XACK", key, "g", "1-1", "2-1")
	r.do(t, "XDEL", key, "2-1", "3-1", "5-1")
	wantShard(t, r.look(t, 0), port.Shard{Exists: true, LastID: "6-1", Records: 3, Cursors: []port.Cursor{{Group: "g", NextID: "4-1", Unread: 2}}})
	r.do(t, "XTRIM", key, "MAXLEN", 1)
	wantShard(t, r.look(t, 0), port.Shard{Exists: true, LastID: "6-1", Records: 1, Cursors: []port.Cursor{{Group: "g", NextID: "6-1", Unread: 1}}})
	r.do(t, "XDEL", key, "6-1")
	wantShard(t, r.look(t, 0), port.Shard{Exists: true, LastID: "6-1", Cursors: []port.Cursor{{Group: "g"}}})
}

func testFind(t *testing.T, r Redis) {
	const far = 20_001
	at := []int{0, 3, 4, 999, 5000, far}
	for _, i := range at {
		r.do(t, "XADD", shard("porttest", i), "1-1", "k", "v")
	}
	r.do(t, "SET", shard("porttest", 2), "mine")
	r.do(t, "XADD", "porttest:05", "1-1", "k", "v")
	for _, test := range []struct {
		first, end int
		want       []int
	}{
		{0, far + 1, at}, {0, far, at[:5]}, {1, 5, at[1:3]}, {4, 5, at[2:3]}, {far, far + 10, at[5:]}, {5, 900, nil}, {3, 3, nil}, {4, 3, nil},
	} {
		got, err := r.Shards.Find(t.Context(), "porttest", test.first, test.end)
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("from %d to %d: %v, %v; want %v", test.first, test.end, got, err, test.want)
		}
	}
}

// testManyShardsGo: more shards than fit into one go, in any order, and some that stay.
func testManyShardsGo(t *testing.T, r Redis) {
	const shards = 1201
	r.provision(t, port.Provision{Prefix: "porttest", End: shards, Groups: []string{"g", "h", "i"}, Renew: true, Start: protocol.StartEarliest})
	indexes := make([]int, shards)
	for i := range indexes {
		indexes[i] = (i * 7) % shards
	}
	for i := 0; i < shards; i += 10 {
		r.do(t, "XADD", shard("porttest", i), "*", "k", "v")
	}
	seen, err := r.Shards.LookAt(t.Context(), "porttest", indexes)
	if err != nil || len(seen) != shards {
		t.Fatalf("%d shards, %v", len(seen), err)
	}
	ask := port.Retirement{Prefix: "porttest"}
	for i, sh := range seen {
		if sh.Index != indexes[i] || !sh.Exists || len(sh.Cursors) != 3 || (sh.Records == 1) != (sh.Index%10 == 0) {
			t.Fatalf("shard %d: %+v", indexes[i], sh)
		}
		ask.Shards = append(ask.Shards, port.RetireShard{Index: sh.Index, LastID: sh.LastID})
	}
	for range 2 {
		outcomes, err := r.Shards.Retire(t.Context(), ask)
		if err != nil || len(outcomes) != shards {
			t.Fatalf("%d outcomes, %v", len(outcomes), err)
		}
		for i, got := range outcomes {
			want := port.ShardGone
			if indexes[i]%10 == 0 {
				want = port.ShardBusy
			}
			if got != want {
				t.Errorf("shard %d: %v, want %v", indexes[i], got, want)
			}
		}
	}
	left, err := r.Shards.Find(t.Context(), "porttest", 0, shards)
	if err != nil || len(left) != (shards+9)/10 {
		t.Errorf("%d are left, %v; want %d", len(left), err, (shards+9)/10)
	}
}

func testShardNames(t *testing.T, r Redis) {
	groups := []string{"a:b", "{a}", "%", " ", "日本", "$", "0", "*", "-", "+", "'", "\"", "\\", "ok", "err", "length", "1"}
	for _, prefix := range []string{"porttest:a", "porttest a", "porttest%3A", "porttest日本", "porttest*", "porttest'"} {
		r.provision(t, port.Provision{Prefix: prefix, End: 2, Groups: groups, Renew: true, Start: protocol.StartEarliest})
		r.do(t, "XADD", shard(prefix, 1), "*", "ok", "err", "err", "ok")
		seen, err := r.Shards.LookAt(t.Context(), prefix, []int{0, 1})
		if err != nil || len(seen) != 2 {
			t.Fatalf("%q: %v", prefix, err)
		}
		var names []string
		for _, c := range seen[1].Cursors {
			names = append(names, c.Group)
			if c.Unread != 1 || c.NextID != seen[1].LastID {
				t.Errorf("%q: %+v", prefix, c)
			}
		}
		if want := slices.Sorted(slices.Values(groups)); !slices.Equal(names, want) {
			t.Errorf("%q: groups %q, want %q", prefix, names, want)
		}
		if found, err := r.Shards.Find(t.Context(), prefix, 0, 5); err != nil || !slices.Equal(found, []int{0, 1}) {
			t.Errorf("%q: found %v, %v", prefix, found, err)
		}
		r.done(t, shard(prefix, 1), "*")
		for i, outcomes := range [][]port.RetireOutcome{{port.ShardGone, port.ShardBusy}, {port.ShardGone, port.ShardGone}} {
			ask := port.Retirement{Prefix: prefix, Shards: []port.RetireShard{{LastID: seen[0].LastID}, {Index: 1, LastID: seen[1].LastID}}}
			if i == 1 {
				ask.Ignored = slices.DeleteFunc(slices.Clone(groups), func(g string) bool { return g == "*" })
			}
			if got, err := r.Shards.Retire(t.Context(), ask); err != nil || !slices.Equal(got, outcomes) {
				t.Errorf("%q, ignoring %q: %v, %v; want %v", prefix, ask.Ignored, got, err, outcomes)
			}
		}
	}
}

func testShardsEndedContext(t *testing.T, r Redis) {
	r.prepare(t, 2, 0, "g")
	before := r.look(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"look": func() error { _, err := r.Shards.LookAt(ctx, "porttest", []int{0, 1}); return err },
		"retire": func() error {
			_, err := r.Shards.Retire(ctx, port.Retirement{Prefix: "porttest", Shards: []port.RetireShard{{LastID: before.LastID, Force: true}, {Index: 1, Force: true}}})
			return err
		},
		"find": func() error { _, err := r.Shards.Find(ctx, "porttest", 0, 2); return err },
		"renew": func() error {
			return r.Streams.Provision(ctx, port.Provision{Prefix: "porttest", End: 3, Groups: []string{"h"}, Renew: true})
		},
	} {
		if call() == nil {
			t.Errorf("%s: no error though the context has ended", name)
		}
	}
	wantShard(t, r.look(t, 0), before)
	r.wantGroups(t, shard("porttest", 1), "g")
	r.wantType(t, shard("porttest", 2), "none")
}
