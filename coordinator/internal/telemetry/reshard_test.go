package telemetry

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// shelves are shards that hold one record which nobody has read, until they are read.
type shelves struct {
	pretended
	read atomic.Bool
}

func (s *shelves) LookAt(_ context.Context, _ string, indexes []int) ([]port.Shard, error) {
	shards := make([]port.Shard, len(indexes))
	for i, index := range indexes {
		shards[i] = port.Shard{Index: index, Exists: true, LastID: "5-0", Records: 1, Cursors: []port.Cursor{{Group: "billing", NextID: "5-0", Unread: 1, Lag: 1}}}
		if s.read.Load() {
			shards[i].Cursors = []port.Cursor{{Group: "billing"}}
		}
	}
	return shards, nil
}

func (s *shelves) Retire(_ context.Context, r port.Retirement) ([]port.RetireOutcome, error) {
	outcomes := make([]port.RetireOutcome, len(r.Shards))
	for i := range outcomes {
		outcomes[i] = port.ShardGone
	}
	return outcomes, nil
}

func (*shelves) Find(context.Context, string, int, int) ([]int, error) { return nil, nil }

// A change of the shard count is followed from its beginning to its end: what is under
// way, what is still there, and what keeps it.
func TestReshardingIsFollowed(t *testing.T) {
	shelf := new(shelves)
	w := newWorldOn(t, service.Ports{Store: memstore.New(), Streams: shelf, Shards: shelf}, func(c *service.Config) { c.RoutingLease = time.Second })
	w.stream(t, "orders", 4)
	m := &member{id: "a"}
	w.settle(t, "orders", m)
	two := 2
	if _, err := w.API(w.c).ScaleStream(t.Context(), "orders", protocol.Scale{TargetShardCount: &two, RequestedBy: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	f := w.scrape(t)
	want(t, f, 1, "scale_request_total", "stream", "orders", "group", "stream", "status", "SUCCESS")
	want(t, f, 2, "stream_shards", "stream", "orders")
	want(t, f, 1, "migration_active", "stream", "orders", "group", "billing")
	want(t, f, 2, "drain_remaining_shards", "stream", "orders")
	want(t, f, 4, "group_shards", "group", "billing")
	eventually(t, "the removed shards are looked at", func() bool {
		w.beat(t, "orders", "billing", m)
		n, _ := value(w.scrape(t), "drain_blocked_shards", "stream", "orders")
		return n == 2
	})
	if age, _ := value(w.scrape(t), "migration_active_age_seconds", "group", "billing"); age <= 0 || age > patience.Seconds() {
		t.Errorf("the change has been under way for %g s", age)
	}
	shelf.read.Store(true)
	eventually(t, "they are gone", func() bool {
		w.beat(t, "orders", "billing", m)
		n, _ := value(w.scrape(t), "migration_active", "group", "billing")
		return n == 0
	})
	f = w.scrape(t)
	want(t, f, 0, "drain_remaining_shards", "stream", "orders")
	want(t, f, 0, "drain_blocked_shards", "stream", "orders")
	want(t, f, 0, "migration_active_age_seconds", "group", "billing")
	for _, state := range []protocol.MigrationState{protocol.MigrationPreparing, protocol.MigrationActive, protocol.MigrationDraining, protocol.MigrationDeprecated} {
		want(t, f, 1, "migration_total", "stream", "orders", "state", string(state))
	}
	eventually(t, "the group follows", func() bool {
		w.beat(t, "orders", "billing", m)
		n, _ := value(w.scrape(t), "group_shards", "group", "billing")
		return n == 2
	})
}
