package telemetry

import (
	"strconv"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

var (
	memberActive    = gauge("member_active", "1 for a member that gets shards.")
	heartbeatAge    = gauge("member_heartbeat_age_seconds", "Time since the member's lease was last renewed.")
	leaseRemaining  = gauge("member_lease_remaining_seconds", "What is left of the member's lease.")
	maxConcurrency  = gauge("member_runtime_max_concurrency", "Workers that the member says it has.")
	activeWorkers   = gauge("member_active_workers", "Workers that the member says are busy.")
	currentShards   = gauge("member_current_shards", "Shards that the member says it reads.")
	grantedShards   = gauge("member_granted_shards", "Shards that the member may read.")
	revokingShards  = gauge("member_revoking_shards", "Shards that the member was asked to let go and has not.")
	deliveredMs     = gauge("consumer_shard_last_delivered_ms", "First half of the id that the member was last handed.")
	deliveredSeq    = gauge("consumer_shard_last_delivered_seq", "Second half of the id that the member was last handed.")
	ackedMs         = gauge("consumer_shard_last_acked_ms", "First half of the id that the member last acknowledged.")
	ackedSeq        = gauge("consumer_shard_last_acked_seq", "Second half of the id that the member last acknowledged.")
	consumerPending = gauge("consumer_shard_pending", "Records in the member's hands.")
	progressAt      = gauge("consumer_shard_progress_updated_at_seconds", "When the member said so, in Unix time.")
	progressAge     = gauge("consumer_shard_progress_age_seconds", "Time since the member said so.")
)

// members makes the series of a group's members.
func (c *collector) members(s *sink, w *World, look *service.GroupLook, found *groupReading) {
	state := look.View.State
	prefix, name := look.Key.Stream, look.Key.Group
	counts := map[string]int{"active": 0, "draining": 0, "leaving": 0, "fenced": 0}
	present := map[string]int{}
	for i := range state.Lives {
		l := &state.Lives[i]
		counts[stateOf(l)]++
		// Of several lives of a member, the series are those of the one that works.
		if other, another := present[l.Member]; !another || state.Lives[other].State != group.Active {
			present[l.Member] = i
		}
	}
	since := time.Now().Add(-w.Retention)
	gone := map[string]bool{}
	for i := range state.Ended {
		e := &state.Ended[i]
		if _, back := present[e.Member]; !back && e.Reason == group.EndExpired && e.At.After(since) {
			gone[e.Member] = true
		}
	}
	counts["expired"] = len(gone)
	counts["total"] = len(present) + len(gone)
	for label, n := range counts {
		s.put(memberCount, c.base.with("stream", prefix, "group", name, "state", label), float64(n))
	}
	for member, i := range present {
		of := c.base.with("stream", prefix, "group", name, "member", member)
		c.member(s, of, look, i)
		if report, said := found.report(state.Lives[i].Key()); said {
			c.report(s, of, state, &report, found)
		}
	}
}

// stateOf is a member's state as a label.
func stateOf(l *group.Life) string {
	switch {
	case l.State == group.Leaving:
		return "leaving"
	case l.State == group.Over:
		return "fenced"
	case l.Draining:
		return "draining"
	}
	return "active"
}

// member makes the series of what the coordinator knows of a member.
func (c *collector) member(s *sink, of labels, look *service.GroupLook, i int) {
	state := look.View.State
	l := &state.Lives[i]
	s.put(memberActive, of, number(stateOf(l) == "active"))
	if silence := look.Silence[i]; silence >= 0 {
		if !look.Lost[i] {
			s.put(heartbeatAge, of, silence.Seconds())
		}
		s.put(leaseRemaining, of, max(0, state.LongestLease()-silence).Seconds())
	}
	may, asked := 0, 0
	for _, shard := range look.View.Held(l.Key()) {
		if state.Ledger.Revoke[shard] != 0 {
			asked++
		} else {
			may++
		}
	}
	s.put(grantedShards, of, float64(may))
	s.put(revokingShards, of, float64(asked))
}

// report makes the series of what a member says of itself.
func (c *collector) report(s *sink, of labels, state *group.State, r *engine.MemberReport, found *groupReading) {
	s.put(currentShards, of, float64(len(r.Owned)))
	if r.Capacity.MaxConcurrency > 0 {
		s.put(maxConcurrency, of, float64(r.Capacity.MaxConcurrency))
		s.put(activeWorkers, of, float64(max(0, r.Capacity.MaxConcurrency-r.Capacity.AvailableConcurrency)))
	}
	said := make(map[protocol.ShardIndex]bool, len(r.Progress))
	for i := range r.Progress {
		p := &r.Progress[i]
		if p.Shard < 0 || int(p.Shard) >= len(state.Target) || said[p.Shard] {
			continue
		}
		said[p.Shard] = true
		row := of.with("shard", strconv.Itoa(int(p.Shard)))
		delivered, acked := parseID(p.LastDeliveredID), parseID(p.LastAckedID)
		s.put(deliveredMs, row, delivered.ms)
		s.put(deliveredSeq, row, delivered.seq)
		s.put(ackedMs, row, acked.ms)
		s.put(ackedSeq, row, acked.seq)
		s.put(consumerPending, row, float64(max(0, p.PendingCount)))
		if at, err := time.Parse(time.RFC3339Nano, p.UpdatedAt); err == nil {
			s.put(progressAt, row, float64(at.UnixMilli())/1000)
			s.put(progressAge, row, max(0, found.at.Sub(at).Seconds()))
		}
	}
}
