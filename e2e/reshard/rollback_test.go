package reshard

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// TestRollback takes changes back under load, with records in added and in removed shards.
func TestRollback(t *testing.T) {
	asked(t)
	t.Parallel()
	for _, kind := range either([]faultkit.Kind{faultkit.Redis7}, []faultkit.Kind{faultkit.Redis7, faultkit.Cluster}) {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			r := &rollback{world: newWorld(t, kind), rate: either(500, 2000)}
			r.fleet.createStream(stream, cycleFirst, fast, slow)
			r.join(fast, 0)
			r.join(slow, 2*time.Duration(mainFeeds*64)*time.Second/time.Duration(r.rate)/2)
			r.feedAll(r.rate)
			r.flows(r.rate)
			r.outInActive()
			r.inInActive()
			r.inInDraining()
			r.stop(mainFeed(0), mainFeed(1))
			r.handleAll()
			r.stop(fast, slow)
			r.wantPresent(cycleFirst, cycleHighest, "at the end")
			t.Logf("rollback: server=%s stored=%d lost=%d+%d duplicates=%d+%d kill_9=%d nameless=%s", kind.Name, r.account.storedCount(),
				len(r.account.lost(fast)), len(r.account.lost(slow)), r.account.duplicates(fast), r.account.duplicates(slow), r.kills, r.worst.Round(time.Millisecond))
			within(t, "a state lasted without a name for what it waited for", r.worst, nameless)
		})
	}
}

type rollback struct {
	*world
	rate int
}

func (r *rollback) takeBack(id string) {
	r.t.Helper()
	r.fleet.order(streamPath(stream)+"/migrations/"+id+"/rollback", protocol.Order{RequestedBy: "test", Reason: "taken back"}, nil)
}

// wantBack waits until a change is taken back, and producers write to the first shards
// alone.
func (r *rollback) wantBack(id string) {
	r.t.Helper()
	r.awaitState(id, protocol.MigrationRolledBack)
	// Whatever was told before is over by then.
	r.until("the other shards are gone", func() bool {
		return slices.Equal(r.present(cycleHighest), []int{0, 1, 2, 3, 4, 5, 6, 7})
	})
	r.flows(r.rate / 2)
	r.wantPresent(cycleFirst, cycleHighest, "taken back")
	m, ok := r.fleet.migration(stream, id)
	if !ok || m.State != protocol.MigrationRolledBack {
		r.t.Errorf("the change is %+v", m)
	}
	// Taken back again it is the same.
	r.takeBack(id)
}

// holds waits until a feed has stored some more records in shards.
func (r *rollback) holds(first, end int) {
	r.t.Helper()
	since := time.Now()
	r.until("records are stored in those shards", func() bool {
		r.account.take()
		return r.account.feeds[mainFeed(0)].storedIn(first, end, since) >= 10
	})
}

// outInActive takes an addition back when records lie in the added shards; the
// coordinator that was asked is killed.
func (r *rollback) outInActive() {
	id := r.fleet.scale(stream, cycleHighest)
	r.holds(cycleFirst, cycleHighest)
	if m, ok := r.fleet.migration(stream, id); !ok || m.State != protocol.MigrationActive {
		r.t.Logf("8 to 16 is %s already", m.State)
	}
	r.takeBack(id)
	r.kill(r.fleet[0])
	r.wantBack(id)
}

// inInActive takes a removal back before anything was removed. If it is met too late for
// that, records that nobody reads keep it from being over.
func (r *rollback) inInActive() {
	const kept = cycleFirst - 1
	r.redis("XGROUP", "CREATE", key(kept), idle, "0")
	id := r.fleet.scale(stream, cycleLow)
	r.awaitActive(id)
	r.takeBack(id)
	r.redis("XGROUP", "DESTROY", key(kept), idle)
	r.wantBack(id)
	r.holds(cycleLow, cycleFirst)
}

// inInDraining takes a removal back when some of the removed shards have gone and another
// holds records that nobody reads. A key of those that come back is taken at first, and
// the coordinator that was asked is killed in ROLLING_BACK.
func (r *rollback) inInDraining() {
	const kept, taken = 6, 5
	r.redis("XGROUP", "CREATE", key(kept), idle, "0")
	id := r.fleet.scale(stream, cycleLow)
	m := r.await(id, "the others are gone", func(m *protocol.Migration) bool {
		return m.State == protocol.MigrationDraining && m.Draining == 1
	})
	r.awaitOnlyIdle(id)
	if found := r.present(cycleHighest); !slices.Equal(found, []int{0, 1, 2, 3, kept}) || m.BlockedBy == nil {
		r.t.Errorf("shards %v exist while %d is kept", found, kept)
	}
	r.redis("SET", key(taken), "taken")
	status, body := r.fleet.ask(http.MethodPost, streamPath(stream)+"/migrations/"+id+"/rollback", protocol.Order{RequestedBy: "test", Reason: "taken back"})
	if status/100 == 2 {
		r.t.Errorf("the rollback over a key that is taken: %d %s", status, body)
	}
	r.await(id, "it says why it is not taken back", func(m *protocol.Migration) bool {
		return m.State == protocol.MigrationRollingBack && len(m.BlockedBy) > 0 && m.BlockedBy[0].Kind == protocol.BlockedByProvisioning
	})
	r.kill(r.fleet[0])
	r.redis("DEL", key(taken))
	r.wantBack(id)
	r.holds(cycleLow, cycleFirst)
	r.redis("XGROUP", "DESTROY", key(kept), idle)
}
