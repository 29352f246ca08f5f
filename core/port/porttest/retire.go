package porttest

import (
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func testRetire(t *testing.T, r Redis) {
	r.prepare(t, 2, 3, "g", "h")
	key := shard("porttest", 0)
	r.done(t, key, "g")
	r.done(t, key, "h")
	sh := r.look(t, 0)
	for range 3 {
		r.retire(t, sh, port.ShardGone)
		r.wantType(t, key, "none")
	}
	r.wantType(t, shard("porttest", 1), "stream")
	// A late producer creates nothing.
	if id, err := r.Do(t.Context(), "XADD", key, "NOMKSTREAM", "*", "k", "v"); id != nil {
		t.Errorf("XADD NOMKSTREAM: %v, %v", id, err)
	}
	r.wantType(t, key, "none")
	wantShard(t, r.look(t, 0), port.Shard{})
	if got, err := r.Shards.Retire(t.Context(), port.Retirement{Prefix: "porttest"}); err != nil || len(got) != 0 {
		t.Errorf("retire nothing: %v, %v", got, err)
	}
}

func testRetireWithoutRecords(t *testing.T, r Redis) {
	r.prepare(t, 2, 0, "g")
	r.provision(t, port.Provision{Prefix: "porttest", First: 2, End: 3, Start: protocol.StartEarliest})
	for i := range 3 {
		r.retire(t, r.look(t, i), port.ShardGone)
		r.wantType(t, shard("porttest", i), "none")
	}
	// One that did not exist when it was looked at, and does now.
	missing := r.look(t, 3)
	r.retire(t, missing, port.ShardGone)
	r.provision(t, port.Provision{Prefix: "porttest", First: 3, End: 4, Start: protocol.StartEarliest})
	r.retire(t, missing, port.ShardKept)
	r.wantType(t, shard("porttest", 3), "stream")
}

// testRetireLag: what Redis says of the lag decides nothing. It is null or wrong here.
func testRetireLag(t *testing.T, r Redis) {
	r.prepare(t, 2, 6, "g")
	key := shard("porttest", 0)
	r.do(t, "XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", key, ">")
	r.do(t, "XACK", key, "g", "1-1")
	r.do(t, "XDEL", key, "4-1") // null from here on
	r.retire(t, r.look(t, 0), port.ShardBusy)
	r.do(t, "XDEL", key, "2-1", "3-1", "5-1", "6-1")
	r.retire(t, r.look(t, 0), port.ShardGone)

	// A trim that overtakes the group leaves a lag that is too high for ever.
	key = shard("porttest", 1)
	for i := range 6 {
		r.do(t, "XADD", key, streamID(i+1), "k", "v")
	}
	r.do(t, "XREADGROUP", "GROUP", "g", "c", "COUNT", 1, "STREAMS", key, ">")
	r.do(t, "XACK", key, "g", "1-1")
	r.do(t, "XTRIM", key, "MAXLEN", 1)
	r.retire(t, r.look(t, 1), port.ShardBusy)
	r.done(t, key, "g")
	r.retire(t, r.look(t, 1), port.ShardGone)
	r.wantType(t, key, "none")
}

// testRetireBacklog: one group that is not done keeps the shard, whatever the others.
func testRetireBacklog(t *testing.T, r Redis) {
	r.prepare(t, 1, 2, "done", "unread", "pending")
	key := shard("porttest", 0)
	r.done(t, key, "done")
	r.read(t, key, "pending")
	r.retire(t, r.look(t, 0), port.ShardBusy, "pending")
	r.retire(t, r.look(t, 0), port.ShardBusy, "unread")
	r.done(t, key, "unread")
	r.retire(t, r.look(t, 0), port.ShardBusy)
	r.do(t, "XACK", key, "pending", "1-1")
	r.retire(t, r.look(t, 0), port.ShardBusy)
	r.wantGroups(t, key, "done", "unread", "pending")
	r.do(t, "XACK", key, "pending", "2-1")
	r.retire(t, r.look(t, 0), port.ShardGone)
}

func testRetireWithoutGroups(t *testing.T, r Redis) {
	r.prepare(t, 1, 2)
	key := shard("porttest", 0)
	r.retire(t, r.look(t, 0), port.ShardBusy)
	r.wantType(t, key, "stream")
	r.do(t, "XDEL", key, "1-1", "2-1")
	r.retire(t, r.look(t, 0), port.ShardGone)
}

func testRetireIgnored(t *testing.T, r Redis) {
	r.prepare(t, 2, 2, "ours", "idle", "other")
	key := shard("porttest", 0)
	r.done(t, key, "ours")
	r.read(t, key, "other") // and never acknowledges it
	r.retire(t, r.look(t, 0), port.ShardBusy)
	r.retire(t, r.look(t, 0), port.ShardBusy, "idle")
	r.retire(t, r.look(t, 0), port.ShardBusy, "other", "ours", "nobody")
	// With nobody left who is waited for, records are nobody's loss, but nobody read
	// them either.
	r.retire(t, r.look(t, 0), port.ShardBusy, "idle", "other", "ours")
	r.wantGroups(t, key, "ours", "idle", "other")
	r.retire(t, r.look(t, 0), port.ShardGone, "nobody", "idle", "other")
	r.wantType(t, key, "none")
	r.retire(t, r.look(t, 1), port.ShardGone, "idle", "other", "ours")
}

// testRetireWithoutAGroup: somebody deletes a group on a shard, which would have to read
// it again.
func testRetireWithoutAGroup(t *testing.T, r Redis) {
	r.prepare(t, 2, 2, "ours", "theirs", "idle")
	key := shard("porttest", 0)
	for _, name := range []string{"ours", "theirs"} {
		r.done(t, key, name)
	}
	sh := r.look(t, 0)
	ask := port.Retirement{Prefix: "porttest", Shards: []port.RetireShard{{LastID: sh.LastID}}, Groups: []string{"ours", "too"}, Ignored: []string{"idle", "nobody"}}
	retire := func(want port.RetireOutcome) {
		t.Helper()
		got, err := r.Shards.Retire(t.Context(), ask)
		if err != nil || len(got) != 1 || got[0] != want {
			t.Errorf("retire %+v: %v, %v; want %v", ask, got, err, want)
		}
	}
	retire(port.ShardBusy)
	r.do(t, "XGROUP", "CREATE", key, "too", sh.LastID)
	r.do(t, "XGROUP", "DESTROY", key, "ours")
	retire(port.ShardBusy)
	r.do(t, "XGROUP", "CREATE", key, "ours", "0")
	retire(port.ShardBusy)
	r.done(t, key, "ours")
	retire(port.ShardGone)
	r.wantType(t, key, "none")
	// Without entries nobody misses any, and what is given up goes in any case.
	ask.Shards, ask.Groups = []port.RetireShard{{Index: 1, LastID: r.look(t, 1).LastID}}, []string{"nowhere"}
	retire(port.ShardGone)
	r.prepare(t, 1, 2, "ours")
	ask.Shards = []port.RetireShard{{LastID: "2-1", Force: true}}
	retire(port.ShardGone)
}

func testRetireForced(t *testing.T, r Redis) {
	r.prepare(t, 1, 2, "unread", "pending")
	key := shard("porttest", 0)
	r.read(t, key, "pending")
	r.retireAs(t, port.RetireShard{LastID: "1-1", Force: true}, port.ShardKept)
	r.retireAs(t, port.RetireShard{LastID: "", Force: true}, port.ShardKept)
	r.wantGroups(t, key, "unread", "pending")
	r.retireAs(t, port.RetireShard{LastID: "2-1", Force: true}, port.ShardGone)
	r.wantType(t, key, "none")
	r.prepare(t, 1, 2)
	r.retireAs(t, port.RetireShard{LastID: "2-1", Force: true}, port.ShardGone)
	r.wantType(t, key, "none")
}

// testRetireWrittenTo: a record that came after the look keeps the shard, even once it
// was read.
func testRetireWrittenTo(t *testing.T, r Redis) {
	r.prepare(t, 1, 2, "g")
	key := shard("porttest", 0)
	r.done(t, key, "g")
	before := r.look(t, 0)
	r.do(t, "XADD", key, "NOMKSTREAM", "*", "k", "v")
	r.retire(t, before, port.ShardKept)
	r.done(t, key, "g")
	r.retire(t, before, port.ShardKept)
	r.wantGroups(t, key, "g")
	r.retire(t, r.look(t, 0), port.ShardGone)
}

// testRetireCreatedAgain: somebody removes what was proven, and makes something new
// under its key. Whoever was slow must not remove that.
func testRetireCreatedAgain(t *testing.T, r Redis) {
	r.prepare(t, 2, 2, "g")
	key := shard("porttest", 0)
	r.done(t, key, "g")
	before, empty := r.look(t, 0), r.look(t, 1)

	// With the very same ids, by hand: nobody has read it, so it stays.
	r.do(t, "DEL", key)
	r.prepare(t, 1, 2)
	r.retire(t, before, port.ShardBusy)
	r.do(t, "XGROUP", "CREATE", key, "g", "0")
	r.retire(t, before, port.ShardBusy)

	// Provisioned anew it has other ids, though it never held anything.
	for _, sh := range []port.Shard{before, empty} {
		key := shard("porttest", sh.Index)
		r.do(t, "DEL", key)
		for _, groups := range [][]string{{"g"}, nil} {
			r.provision(t, port.Provision{Prefix: "porttest", First: sh.Index, End: sh.Index + 1, Groups: groups, Renew: true, Start: protocol.StartEarliest})
			r.retire(t, sh, port.ShardKept)
			r.wantType(t, key, "stream")
		}
		r.retire(t, r.look(t, sh.Index), port.ShardGone)
	}
}

// testRetireForeignKeys: what is no stream is no shard, and stays.
func testRetireForeignKeys(t *testing.T, r Redis) {
	r.do(t, "SET", shard("porttest", 0), "mine")
	r.do(t, "HSET", shard("porttest", 1), "mine", "too")
	for i := range 2 {
		r.retire(t, r.look(t, i), port.ShardGone)
		r.retireAs(t, port.RetireShard{Index: i, LastID: "1-1", Force: true}, port.ShardGone)
	}
	r.wantType(t, shard("porttest", 0), "string")
	r.wantType(t, shard("porttest", 1), "hash")
}
