package telemetry

import (
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// groupStats is what happened to one group since this process has known it. It goes
// with the group.
type groupStats struct {
	requests requests

	mu         sync.Mutex
	joined     uint64
	ended      map[group.EndReason]uint64
	rebalances uint64
	moved      uint64
	granted    uint64
	revoked    uint64
	released   map[group.ReleaseCause]uint64
	// corrections were opened, ignored are rows of reports.
	corrections uint64
	ignored     uint64
	// routed and scaled count answers by how they ended.
	routed map[string]uint64
	scaled map[string]uint64

	// shards are the clocks of the shards; handover and ownerless are measured by them.
	shards    []shardClock
	handover  histogram
	ownerless histogram
	// rebalance is how long rebalances took; one runs since unsettledSince if unsettled
	// is set.
	rebalance      latency
	unsettled      bool
	unsettledSince time.Duration
}

// shardClock is since when something has been so with a shard, 0 while it is not.
type shardClock struct{ revoked, free time.Duration }

func newGroupStats() *groupStats {
	return &groupStats{
		ended: map[group.EndReason]uint64{}, released: map[group.ReleaseCause]uint64{},
		routed: map[string]uint64{}, scaled: map[string]uint64{},
	}
}

// happened counts events that this process has brought about.
func (g *groupStats) happened(now time.Duration, events []group.Event) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range events {
		switch e := e.(type) {
		case group.MemberJoined:
			g.joined++
		case group.MemberEnded:
			g.ended[e.Reason]++
		case group.TargetChanged:
			g.rebalances++
			g.moved += uint64(max(0, e.Moves))
			if !g.unsettled {
				g.unsettled, g.unsettledSince = true, now
			}
		case group.ShardGranted:
			g.granted++
			g.given(now, e.Shard)
		case group.ShardRevoked:
			g.revoked++
			g.clock(e.Shard).revoked = now
		case group.ShardReleased:
			g.released[e.Cause]++
			g.clock(e.Shard).free = now
		case group.CorrectionOpened:
			g.corrections++
		case group.RowsIgnored:
			g.ignored += uint64(max(0, e.Rows))
		}
	}
}

// clock returns the clock of a shard. Events name shards that exist.
func (g *groupStats) clock(shard protocol.ShardIndex) *shardClock {
	for int(shard) >= len(g.shards) {
		g.shards = append(g.shards, shardClock{})
	}
	return &g.shards[shard]
}

// given notes that a shard has a new holder.
func (g *groupStats) given(now time.Duration, shard protocol.ShardIndex) {
	c := g.clock(shard)
	if c.revoked != 0 {
		g.handover.observe(now - c.revoked)
	}
	if c.free != 0 {
		g.ownerless.observe(now - c.free)
	}
	*c = shardClock{}
}

// became follows a state, whoever brought it about: so a hand-over that another
// coordinator has begun is measured by the one that ends it.
func (g *groupStats) became(now time.Duration, s *group.State) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.shards) < len(s.Ledger.Holder) {
		g.shards = append(g.shards, shardClock{})
	}
	g.shards = g.shards[:len(s.Ledger.Holder)]
	for i := range g.shards {
		c := &g.shards[i]
		switch held, asked := s.Ledger.Holder[i] != group.None, s.Ledger.Revoke[i] != 0; {
		case held && !asked:
			*c = shardClock{}
		case held:
			c.free = 0
			if c.revoked == 0 {
				c.revoked = now
			}
		case c.free == 0:
			c.free = now
		}
	}
	if !g.unsettled {
		return
	}
	switch s.Summary() {
	case protocol.GroupStable:
		g.rebalance.observe(now, now-g.unsettledSince)
		g.unsettled = false
	case protocol.GroupEmpty:
		// There is nobody left who could settle it.
		g.unsettled = false
	case protocol.GroupReconciling:
	}
}
