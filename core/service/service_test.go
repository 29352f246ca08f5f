package service_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// fast are timings that keep a test short: what waits for a lease waits a second.
var fast = protocol.Timings{HeartbeatInterval: 100 * time.Millisecond, Lease: time.Second, RebalanceTimeout: time.Second}

// The tests run in bubbles: time is virtual, a sleep takes no time.

// start runs a coordinator on a store until the test ends.
func start(t *testing.T, store port.Store, change func(*service.Config, *service.Ports)) *service.Coordinator {
	t.Helper()
	cfg := service.Config{ID: "test", Timings: fast, TickInterval: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	ports := service.Ports{Store: store, Mutex: new(memstore.Mutex)}
	if change != nil {
		change(&cfg, &ports)
	}
	c, err := service.New(cfg, ports)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	// Its first look around is over before the test begins.
	synctest.Wait()
	t.Cleanup(func() {
		stop()
		running.Wait()
		ctx, done := context.WithTimeout(context.Background(), 5*time.Second)
		defer done()
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

func shards(n int) protocol.CreateStream {
	return protocol.CreateStream{InitialShardCount: &n, RequestedBy: "test"}
}

// beat is a member's next heartbeat, made from the last answer.
type beat struct {
	id, incarnation string
	last            protocol.HeartbeatResponse
	n               int
}

func (b *beat) next() *protocol.Heartbeat {
	b.n++
	q := &protocol.Heartbeat{
		ProtocolVersion: 1, RequestID: fmt.Sprint(b.id, b.n), MemberID: b.id, Incarnation: b.incarnation,
		MemberEpoch: b.last.MemberEpoch, MetadataVersion: b.last.MetadataVersion,
		Capacity: protocol.Capacity{MaxConcurrency: 1},
	}
	for _, s := range b.last.Assignment.AssignedShards {
		q.OwnedShards = append(q.OwnedShards, s.Shard)
	}
	return q
}

func (b *beat) send(t *testing.T, c *service.Coordinator) protocol.HeartbeatResponse {
	t.Helper()
	b.last = c.Heartbeat(t.Context(), "orders", "billing", b.next())
	return b.last
}

// settles beats for all members, round by round, until every shard is owned and
// nothing changes.
func settle(t *testing.T, c *service.Coordinator, shards int, members ...*beat) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for {
		owned := 0
		for _, m := range members {
			r := m.send(t, c)
			if !r.Status.RenewsLease() {
				t.Fatalf("%s: %s %s", m.id, r.Status, r.Reason)
			}
			owned += len(r.Assignment.AssignedShards)
		}
		g, err := c.Group(t.Context(), "orders", "billing")
		if err != nil {
			t.Fatal(err)
		}
		if owned == shards && g.State == protocol.GroupStable {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not settled: %+v", g)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestMembersShareAStream(t *testing.T) { synctest.Test(t, membersShareAStream) }

func membersShareAStream(t *testing.T) {
	c := start(t, memstore.New(), nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(8)); err != nil {
		t.Fatal(err)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 8, a)
	settle(t, c, 8, a, b)
	if n := len(a.last.Assignment.AssignedShards); n != 4 {
		t.Errorf("a has %d shards, want 4", n)
	}
	// a goes away without a word: b gets everything after one lease.
	deadline := time.Now().Add(fast.Lease + time.Second)
	for len(b.send(t, c).Assignment.AssignedShards) != 8 {
		if time.Now().After(deadline) {
			t.Fatal("b did not get the shards of the member that died")
		}
		time.Sleep(fast.HeartbeatInterval)
	}
	members, err := c.Members(t.Context(), "orders", "billing")
	if err != nil {
		t.Fatal(err)
	}
	if len(members.Members) != 2 || members.Members[0].State != protocol.MemberExpired || members.Members[1].State != protocol.MemberActive {
		t.Errorf("members: %+v", members.Members)
	}
}

func TestAHeldHeartbeatHearsOfAChange(t *testing.T) { synctest.Test(t, aHeldHeartbeatHearsOfAChange) }

func aHeldHeartbeatHearsOfAChange(t *testing.T) {
	c := start(t, memstore.New(), nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 2, a)
	q := a.next()
	q.MaxWaitMs = 300
	heard := make(chan protocol.HeartbeatResponse, 1)
	go func() { heard <- c.Heartbeat(context.Background(), "orders", "billing", q) }()
	// Held: the wait is over before anything changes.
	began := time.Now()
	if r := <-heard; r.Status != protocol.StatusOK || len(r.Assignment.AssignedShards) != 2 || time.Since(began) < 200*time.Millisecond {
		t.Fatalf("held heartbeat after %s: %+v", time.Since(began), r)
	}
	go func() { heard <- c.Heartbeat(context.Background(), "orders", "billing", q) }()
	b.send(t, c)
	if r := <-heard; len(r.Assignment.AssignedShards) != 1 {
		t.Fatalf("a still has %+v", r.Assignment)
	}
}

func TestABurstOfJoinsHandsEachShardOutOnce(t *testing.T) {
	synctest.Test(t, aBurstOfJoinsHandsEachShardOutOnce)
}

func aBurstOfJoinsHandsEachShardOutOnce(t *testing.T) {
	c := start(t, memstore.New(), nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(100)); err != nil {
		t.Fatal(err)
	}
	members := make([]*beat, 20)
	var joins sync.WaitGroup
	for i := range members {
		members[i] = &beat{id: fmt.Sprintf("m%02d", i), incarnation: "x"}
		joins.Go(func() { members[i].send(t, c) })
	}
	joins.Wait()
	for _, m := range members {
		if n := len(m.last.Assignment.AssignedShards); n != 5 || len(m.last.Assignment.PendingShards) != 0 {
			t.Errorf("%s: %d assigned, %d pending, want 5 and 0", m.id, n, len(m.last.Assignment.PendingShards))
		}
	}
	settle(t, c, 100, members...)
}

func TestStreamsAndGroups(t *testing.T) { synctest.Test(t, streamsAndGroups) }

func streamsAndGroups(t *testing.T) {
	c := start(t, memstore.New(), nil)
	ctx := t.Context()
	del := protocol.Delete{RequestedBy: "test", Reason: "test"}
	expect := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) || (want == nil && err != nil) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	_, err := c.Routing(ctx, "orders", "billing")
	expect("routing of no stream", err, protocol.ErrStreamNotFound)
	_, err = c.CreateStream(ctx, "orders", shards(4))
	expect("create stream", err, nil)
	_, err = c.CreateStream(ctx, "orders", shards(4))
	expect("create stream again", err, protocol.ErrStreamExists)
	_, err = c.CreateStream(ctx, "or{d}ers", shards(4))
	expect("braces", err, protocol.ErrInvalidRequest)
	_, err = c.CreateStream(ctx, "huge", shards(5000))
	expect("too many shards", err, protocol.ErrInvalidRequest)
	r, err := c.Routing(ctx, "orders", "no-group-yet")
	expect("routing", err, nil)
	if r.ShardCount != 4 || r.Shards[3].StreamKey != "orders:3" || r.RoutingLeaseMs != 30000 || r.Shards[0].RedisSlot != 8578 {
		t.Errorf("routing: %+v", r)
	}
	_, err = c.Group(ctx, "orders", "billing")
	expect("no group", err, protocol.ErrGroupNotFound)
	five := 5
	_, err = c.CreateGroup(ctx, "orders", "billing", protocol.CreateGroup{InitialShardCount: &five, RequestedBy: "test"})
	expect("another shard count", err, protocol.ErrShardCountMismatch)
	g, err := c.CreateGroup(ctx, "orders", "billing", protocol.CreateGroup{RequestedBy: "test"})
	expect("create group", err, nil)
	if g.State != protocol.GroupEmpty || g.ShardCount != 4 || g.GroupEpoch != g.AssignmentEpoch {
		t.Errorf("group: %+v", g)
	}
	_, err = c.CreateGroup(ctx, "orders", "billing", protocol.CreateGroup{RequestedBy: "test"})
	expect("create group again", err, protocol.ErrGroupExists)
	_, err = c.CreateGroup(ctx, "invoices", "print", protocol.CreateGroup{InitialShardCount: &five, RequestedBy: "test"})
	expect("create group and stream", err, nil)
	_, err = c.DeleteStream(ctx, "orders", del)
	expect("delete stream with groups", err, protocol.ErrStreamHasGroups)

	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 4, a)
	_, err = c.DeleteGroup(ctx, "orders", "billing", del)
	expect("delete group with members", err, protocol.ErrGroupHasMembers)
	forced := del
	forced.Force = true
	_, err = c.DeleteGroup(ctx, "orders", "billing", forced)
	expect("delete by force", err, nil)
	if r := a.send(t, c); r.Status != protocol.StatusUnknownMember {
		t.Errorf("member of a deleted group: %s", r.Status)
	}
	// It stays deleted until somebody creates it again.
	a.last = protocol.HeartbeatResponse{}
	if r := a.send(t, c); r.Status != protocol.StatusUnknownMember {
		t.Errorf("join of a deleted group: %s %s", r.Status, r.Reason)
	}
	_, err = c.CreateGroup(ctx, "orders", "billing", protocol.CreateGroup{RequestedBy: "test"})
	expect("create it again", err, nil)
	a = &beat{id: "a", incarnation: "a2"}
	settle(t, c, 4, a)
	_, err = c.DeleteGroup(ctx, "orders", "billing", forced)
	expect("delete it again", err, nil)
	_, err = c.DeleteStream(ctx, "orders", del)
	expect("delete stream", err, nil)
	list, err := c.Streams(ctx)
	expect("list", err, nil)
	if len(list.Streams) != 1 || list.Streams[0].StreamPrefix != "invoices" {
		t.Errorf("streams: %+v", list)
	}
	groups, err := c.Groups(ctx)
	expect("groups", err, nil)
	if len(groups.Groups) != 1 || groups.Groups[0].ConsumerGroup != "print" {
		t.Errorf("groups: %+v", groups)
	}
}

func TestANewCoordinatorKeepsMembers(t *testing.T) { synctest.Test(t, aNewCoordinatorKeepsMembers) }

func aNewCoordinatorKeepsMembers(t *testing.T) {
	store := memstore.New()
	first := start(t, store, nil)
	if _, err := first.CreateStream(t.Context(), "orders", shards(4)); err != nil {
		t.Fatal(err)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, first, 4, a, b)
	epoch := a.last.MemberEpoch
	second := start(t, store, nil)
	for range 20 {
		for i, c := range []*service.Coordinator{first, second} {
			m := []*beat{a, b}[i]
			if r := m.send(t, c); r.Status != protocol.StatusOK {
				t.Fatalf("%s: %s %s", m.id, r.Status, r.Reason)
			}
		}
		time.Sleep(fast.HeartbeatInterval)
	}
	if a.last.MemberEpoch != epoch {
		t.Errorf("the epoch of a moved from %d to %d in a stable group", epoch, a.last.MemberEpoch)
	}
}
