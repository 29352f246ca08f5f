package service_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// An empty shard is closed: it is taken from its readers, and only then removed.

// holds has a group keep what it lets go of for long.
func holds(t *testing.T, c *service.Coordinator) {
	t.Helper()
	long := protocol.Timings{HeartbeatInterval: time.Second, Lease: 20 * time.Second, RebalanceTimeout: time.Minute}
	if _, err := c.SetTimings(t.Context(), "orders", "billing", long); err != nil {
		t.Fatal(err)
	}
}

func damage(t *testing.T, store port.Store, name string) {
	t.Helper()
	key := port.GroupKey{Stream: "orders", Group: name}
	rec, err := store.LoadGroup(t.Context(), key, port.Version{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveGroup(t.Context(), key, port.GroupSave{Expected: rec.Version, Nonce: "damage", Body: []byte("{")}); err != nil {
		t.Fatal(err)
	}
}

// Nobody knows what the members of a group read whose record cannot be read. It is named,
// and keeps nothing else of the stream waiting.
func TestADamagedGroupMayBeReading(t *testing.T) { synctest.Test(t, damagedReader) }

func damagedReader(t *testing.T) {
	c, store, redis := reshards(t, 3)
	holds(t, c)
	if _, err := c.CreateGroup(t.Context(), "orders", "audit", byTest); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 3, a)
	m := scale(t, c, 1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a)
	// The shards are closed, and a has not heard of it.
	time.Sleep(2 * time.Second)
	damage(t, store, "audit")
	pass(t, c, 3*time.Second, a)
	if found := redis.present(0, 9); len(found) != 3 {
		t.Errorf("shards %v exist", found)
	}
	m, err := c.Migration(t.Context(), "orders", m.ReshardingID)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.BlockedBy) != 2 {
		t.Errorf("it waits for %+v", m.BlockedBy)
	}
	for _, b := range m.BlockedBy {
		if b.Kind != protocol.BlockedByGroup || b.ConsumerGroup != "audit" || b.Shard == nil || !strings.Contains(b.Reason, "delete the group") {
			t.Errorf("it waits for %+v", b)
		}
	}
	if _, err := c.Migrations(t.Context(), "orders"); err != nil {
		t.Errorf("the list of changes: %v", err)
	}
	if blocked := c.LookStreams()[0].Blocked; blocked != 2 {
		t.Errorf("%d shards are counted as blocked", blocked)
	}
	// Groups come and go meanwhile.
	if _, err := c.CreateGroup(t.Context(), "orders", "search", byTest); err != nil {
		t.Errorf("another group: %v", err)
	}
	if s, err := c.Stream(t.Context(), "orders"); err != nil || !slices.Contains(s.Groups, "search") {
		t.Errorf("the stream is %+v, %v", s, err)
	}
	if _, err := c.DeleteGroup(t.Context(), "orders", "search", protocol.Delete{RequestedBy: "test", Reason: "x"}); err != nil {
		t.Errorf("delete another group: %v", err)
	}
	// What the reason says to do works.
	if _, err := c.DeleteGroup(t.Context(), "orders", "audit", protocol.Delete{RequestedBy: "test", Reason: "damaged", Force: true}); err != nil {
		t.Fatal(err)
	}
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated, a)
}

// A shard that is closed and still read is waited for at the pace of the event loop, also
// where more are empty than can be removed in one go.
func TestManyClosedShardsAreWaitedFor(t *testing.T) { synctest.Test(t, manyClosed) }

func manyClosed(t *testing.T) {
	const most = 1500
	c, _, redis := reshards(t, most)
	holds(t, c)
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, most, a, b)
	m := scale(t, c, 0)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a, b)
	before := redis.count("LookAt")
	// Nobody says anything for a while.
	time.Sleep(10 * time.Second)
	if n := redis.count("LookAt") - before; n > 15 {
		t.Errorf("the shards were looked at %d times in 10 s", n)
	}
	if found := redis.present(0, most); len(found) != most {
		t.Errorf("%d shards exist", len(found))
	}
	m, err := c.Migration(t.Context(), "orders", m.ReshardingID)
	if err != nil || len(m.BlockedBy) != protocol.MaxBlockers || m.BlockedBy[0].Kind != protocol.BlockedByReader {
		t.Errorf("it waits for %d things, %v", len(m.BlockedBy), err)
	}
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated, a, b)
}

// A late record in a closed shard is read: the shard is given out again, under a higher
// token, and no other moves for it.
func TestAClosedShardIsReadAgain(t *testing.T) { synctest.Test(t, readAgain) }

func readAgain(t *testing.T) {
	c, _, redis := reshards(t, 4)
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 4, a, b)
	tokens := func() map[protocol.ShardIndex]protocol.Epoch {
		found := map[protocol.ShardIndex]protocol.Epoch{}
		for _, m := range []*beat{a, b} {
			for _, s := range m.last.Assignment.AssignedShards {
				found[s.Shard] = s.Epoch
			}
		}
		return found
	}
	redis.write(3)
	m := scale(t, c, 2)
	// Shard 2 is empty, and somebody who follows no route writes to it as soon as it
	// is closed.
	var late bool
	redis.set(func(_ context.Context, call string) error {
		if call == "Retire" && !late {
			late = redis.write(2)
		}
		return nil
	})
	first := tokens()
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a, b)
	pass(t, c, 4*time.Second, a, b)
	settle(t, c, 4, a, b)
	if !late {
		t.Fatal("shard 2 was not to be removed")
	}
	again := tokens()
	if again[2] <= first[2] {
		t.Errorf("shard 2 is read under token %d, and was under %d", again[2], first[2])
	}
	for _, shard := range []protocol.ShardIndex{0, 1, 3} {
		if again[shard] != first[shard] {
			t.Errorf("shard %d changed hands", shard)
		}
	}
	redis.drain(2, 3)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated, a, b)
}

// A failover has lost that a shard was opened again, and not what a group had adopted,
// whose record lies elsewhere.
func TestAStreamThatWentBack(t *testing.T) { synctest.Test(t, streamWentBack) }

func streamWentBack(t *testing.T) {
	c, store, redis := reshards(t, 2)
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	var closed port.Record
	redis.set(func(ctx context.Context, call string) error {
		if call == "Retire" && closed.Body == nil {
			closed, _ = store.LoadStream(ctx, "orders")
			redis.write(1)
		}
		return nil
	})
	m := scale(t, c, 1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a)
	pass(t, c, 3*time.Second, a)
	settle(t, c, 2, a)
	if closed.Body == nil {
		t.Fatal("shard 1 was not to be removed")
	}
	goesBack(t, store, closed)
	pass(t, c, 3*time.Second, a)
	redis.drain(1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated, a)
	if found := redis.present(0, 9); len(found) != 1 {
		t.Errorf("shards %v exist", found)
	}
}

// goesBack has the record of the stream be an earlier one.
func goesBack(t *testing.T, store port.Store, to port.Record) {
	t.Helper()
	now, err := store.LoadStream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveStream(t.Context(), "orders", port.StreamSave{Expected: now.Version, Nonce: "failover", Body: to.Body}); err != nil {
		t.Fatal(err)
	}
}

// And the other way round: that a shard was closed is lost, and the group, which has
// adopted it, does not read the record that came late.
func TestAStreamThatForgotWhatItClosed(t *testing.T) { synctest.Test(t, forgotClosed) }

func forgotClosed(t *testing.T) {
	c, store, redis := reshards(t, 2)
	holds(t, c)
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	var open port.Record
	redis.set(func(ctx context.Context, call string) error {
		if call == "LookAt" && open.Body == nil {
			open, _ = store.LoadStream(ctx, "orders")
		}
		return nil
	})
	m := scale(t, c, 1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a)
	closed := func() bool {
		rec, err := store.LoadGroup(t.Context(), port.GroupKey{Stream: "orders", Group: "billing"}, port.Version{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := group.Decode(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		return s.Closed.Contains(1)
	}
	for began := time.Now(); !closed(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("shard 1 is not closed")
		}
	}
	redis.write(1)
	goesBack(t, store, open)
	pass(t, c, 5*time.Second, a)
	settle(t, c, 2, a)
	redis.drain(1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated, a)
}

// And all of a change is lost: producers were sent to shards that the record knows
// nothing of.
func TestAStreamThatForgotItsShards(t *testing.T) { synctest.Test(t, forgotShards) }

func forgotShards(t *testing.T) {
	c, store, redis := reshards(t, 2)
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	before, err := store.LoadStream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	scale(t, c, 4)
	redis.write(3)
	goesBack(t, store, before)
	pass(t, c, 15*time.Second, a)
	settle(t, c, 3, a)
	if r, err := c.Routing(t.Context(), "orders", "billing"); err != nil || r.ShardCount != 2 {
		t.Errorf("producers are told %d shards, %v", r.ShardCount, err)
	}
	redis.drain(3)
	pass(t, c, 3*time.Second, a)
	if found := redis.present(0, 9); !slices.Equal(found, []int{0, 1}) {
		t.Errorf("shards %v exist", found)
	}
	settle(t, c, 2, a)
}

// The write that created a group is lost, and the group, which lies elsewhere, is not: its
// stream knows it again, so that it is told of shards that are added.
func TestAStreamThatForgotAGroup(t *testing.T) { synctest.Test(t, forgotGroup) }

func forgotGroup(t *testing.T) {
	store, redis := memstore.New(), newShelf()
	c := start(t, store, redis.wired)
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	before, err := store.LoadStream(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	goesBack(t, store, before)
	pass(t, c, 3*time.Second, a)
	if s, err := c.Stream(t.Context(), "orders"); err != nil || !slices.Equal(s.Groups, []string{"billing"}) {
		t.Fatalf("the stream knows %v, %v", s.Groups, err)
	}
	scale(t, c, 4)
	settle(t, c, 4, a)

	// What was deleted does not come back by what is left of it.
	if _, err := c.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{Force: true, RequestedBy: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if s, err := c.Stream(t.Context(), "orders"); err != nil || len(s.Groups) > 0 {
		t.Errorf("the stream knows %v, %v", s.Groups, err)
	}
}

// Without a Redis of the shards nothing is known of them but what an operator says. Who
// still reads one that was given up is named all the same.
func TestAShardThatWasGivenUpIsStillRead(t *testing.T) { synctest.Test(t, givenUpRead) }

func givenUpRead(t *testing.T) {
	c := start(t, memstore.New(), func(cfg *service.Config, _ *service.Ports) { cfg.RoutingLease = time.Second })
	two := 2
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", protocol.CreateGroup{InitialShardCount: &two, RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	holds(t, c)
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	m := scale(t, c, 1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a)
	order := protocol.Order{RequestedBy: "test", Reason: "it was read to its end"}
	if _, err := c.GiveUp(t.Context(), "orders", protocol.GiveUp{Shards: protocol.Shards{1}, Order: order}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	m, err := c.Migration(t.Context(), "orders", m.ReshardingID)
	if err != nil || len(m.BlockedBy) != 1 || m.BlockedBy[0].Kind != protocol.BlockedByReader {
		t.Errorf("it waits for %+v, %v", m.BlockedBy, err)
	}
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated, a)
}
