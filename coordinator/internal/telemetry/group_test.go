package telemetry

import (
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// held makes a state whose shards are held as given: -1 by nobody, and asked back where
// revoke is not 0.
func held(holders []int32, revoke []protocol.Epoch) *group.State {
	s := group.New("orders", "billing", len(holders), 1, protocol.DefaultTimings(), time.Unix(1, 0))
	s.Lives = []group.Life{{Member: "a"}, {Member: "b"}}
	copy(s.Ledger.Holder, holders)
	copy(s.Target, holders)
	copy(s.Ledger.Revoke, revoke)
	return &s
}

// A hand-over that another coordinator has begun is measured by the one that ends it,
// and by no other.
func TestHandOverBegunElsewhere(t *testing.T) {
	const second = time.Second
	g := newGroupStats()
	g.became(10*second, held([]int32{0}, nil))
	g.became(12*second, held([]int32{0}, []protocol.Epoch{5}))
	g.became(13*second, held([]int32{0}, []protocol.Epoch{5}))
	g.became(15*second, held([]int32{-1}, nil))
	g.happened(16*second, []group.Event{group.ShardGranted{Shard: 0, Member: "b", Epoch: 6}})
	g.became(16*second, held([]int32{1}, nil))
	if g.handover.seconds != 4 || g.ownerless.seconds != 1 || g.granted != 1 {
		t.Errorf("hand-over %g s, without owner %g s, %d grants; want 4, 1 and 1", g.handover.seconds, g.ownerless.seconds, g.granted)
	}
	// The next one is ended elsewhere.
	g.became(20*second, held([]int32{1}, []protocol.Epoch{7}))
	g.became(22*second, held([]int32{0}, nil))
	g.happened(30*second, []group.Event{group.ShardRevoked{Shard: 0, Member: "a", Epoch: 8}})
	g.happened(31*second, []group.Event{group.ShardReleased{Shard: 0, Member: "a", Cause: group.ByReport}, group.ShardGranted{Shard: 0, Member: "b", Epoch: 9}})
	if g.handover.seconds != 4+1 || g.ownerless.seconds != 1 {
		t.Errorf("hand-overs %g s, without owner %g s; want 5 and 1", g.handover.seconds, g.ownerless.seconds)
	}
}

// A rebalance lasts until everything is where it is to be; one that comes meanwhile
// belongs to it.
func TestRebalanceLastsUntilAllIsStill(t *testing.T) {
	const second = time.Second
	g := newGroupStats()
	g.happened(10*second, []group.Event{group.TargetChanged{Members: 2, Moves: 1}})
	g.became(10*second, held([]int32{0}, []protocol.Epoch{5}))
	g.happened(12*second, []group.Event{group.TargetChanged{Members: 2, Moves: 2}})
	g.became(12*second, held([]int32{0}, []protocol.Epoch{5}))
	if r := g.rebalance.report(13 * second); r.count != 0 {
		t.Errorf("an end was seen: %+v", r)
	}
	g.became(17*second, held([]int32{1}, nil))
	g.became(18*second, held([]int32{1}, nil))
	if r := g.rebalance.report(19 * second); r.count != 1 || r.seconds != 7 || g.rebalances != 2 || g.moved != 3 {
		t.Errorf("%+v, %d rebalances, %d moved; want one of 7 s, 2 and 3", r, g.rebalances, g.moved)
	}
	// Nobody is left who could settle it.
	g.happened(20*second, []group.Event{group.TargetChanged{}})
	empty := held([]int32{-1}, nil)
	empty.Lives = nil
	g.became(21*second, empty)
	g.became(30*second, held([]int32{1}, nil))
	if r := g.rebalance.report(31 * second); r.count != 1 {
		t.Errorf("an empty group has settled: %+v", r)
	}
}

// Shards that go and come again begin anew.
func TestShardsComeAndGo(t *testing.T) {
	g := newGroupStats()
	g.became(10, held([]int32{0, -1, -1}, nil))
	g.became(20, held([]int32{0}, nil))
	g.became(30, held([]int32{0, -1, 0}, nil))
	if c := g.clocks(); len(c) != 3 || c[1].free != 30 || c[2].free != 0 {
		t.Errorf("clocks %v", c)
	}
	g.happened(40, []group.Event{group.ShardReleased{Shard: 7}})
	if c := g.clocks(); len(c) != 8 || c[7].free != 40 {
		t.Errorf("clocks %v", c)
	}
}
