package telemetry

import (
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

var (
	groupEpoch      = gauge("group_epoch", "The group epoch.")
	assignmentEpoch = gauge("assignment_epoch", "The assignment epoch.")
	memberCount     = gauge("members", "Members by state.")
	groupShards     = gauge("group_shards", "Shards that the group reads.")
	withoutOwner    = gauge("shards_without_owner", "Shards that nobody may read now.")
	revokePending   = gauge("revoke_pending", "Shards that their holder was asked to let go and has not.")
	revokeAge       = gauge("revoke_pending_age_seconds", "How long the oldest of them has been waited for.")
	rebalances      = counter("rebalance_total", "Changes of the target assignment.")
	rebalanceTook   = summary("rebalance_duration_seconds", "From a change of the target until all is as it is to be.")
	rebalanceMax    = gauge("rebalance_duration_seconds_max", "The longest of the last one to two minutes.")
	movedShards     = counter("rebalance_moved_shards_total", "Shards that rebalances took from live members.")
	granted         = counter("shard_granted_total", "Grants of a shard to a member.")
	revoked         = counter("shard_revoked_total", "Times that a member was asked to let a shard go.")
	released        = counter("shard_released_total", "Shards that became free, by cause.")
	handoverTook    = distributed("shard_handover_duration_seconds", "From asking the holder of a shard to let go until the next one got it.")
	ownerlessTook   = distributed("shard_ownerless_duration_seconds", "From the moment a shard was free until somebody got it.")
	joined          = counter("member_joined_total", "Members that joined.")
	expired         = counter("member_expired_total", "Members whose lease ran out.")
	fenced          = counter("member_fenced_total", "Members that were fenced.")
	ended           = counter("member_ended_total", "Lives of members that ended, by reason.")
	rowsIgnored     = counter("report_rows_ignored_total", "Rows of reports that named a shard the member cannot speak of.")
	correctionOpen  = gauge("correction_open", "1 while a correction is open: the store went backwards, and nothing is granted.")
	corrections     = counter("correction_total", "Corrections that were opened.")
	violations      = gauge("invariant_violations", "1 while the group is stopped because its record is damaged or contradicts itself.")
	violationCount  = counter("invariant_violation_total", "Times that this was found.")
	heldHere        = gauge("heartbeats_held", "Heartbeats whose answer waits for a change.")
)

// The reasons and causes, as labels.
var (
	endReasons    = []group.EndReason{group.EndExpired, group.EndFenced, group.EndLeft, group.EndReplaced, group.EndStopped}
	releaseCauses = map[group.ReleaseCause]string{
		group.ByReport: "reported", group.ByOmission: "omitted", group.ByLeave: "left",
		group.ByLease: "lease", group.ByRestart: "restarted", group.ByTimeout: "timeout",
	}
)

// group makes the series of one group, of its members and its shards.
func (c *collector) group(s *sink, w *World, look *service.GroupLook, r *reading) {
	prefix, name := look.Key.Stream, look.Key.Group
	all := c.base.with("stream", prefix, "group", name)
	s.put(violations, all, number(look.Damaged))
	s.count(violationCount, all, look.Complaints)
	s.put(heldHere, all, float64(look.Held))
	stats := c.t.known(look.Key)
	for status, n := range look.Answered {
		if look.Key != stranger {
			s.count(heartbeats, c.base.with("stream", prefix, "group", name, "status", string(status)), n)
		}
	}
	if stats != nil {
		c.happenings(s, all, stats)
		c.requests(s, stats, prefix, name)
	}
	if look.View == nil {
		return
	}
	state := look.View.State
	s.put(groupEpoch, all, float64(state.GroupEpoch))
	s.put(assignmentEpoch, all, float64(state.AssignmentEpoch))
	s.put(correctionOpen, all, number(state.Correction != nil))
	c.ledger(s, all, look)
	found := r.of(look.Key)
	c.members(s, w, look, found)
	c.shards(s, w, look, found, stats)
}

// happenings makes the series of what this process has seen happen to a group.
func (c *collector) happenings(s *sink, all labels, g *groupStats) {
	now := c.t.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	s.count(joined, all, g.joined)
	s.count(expired, all, g.ended[group.EndExpired])
	s.count(fenced, all, g.ended[group.EndFenced])
	for _, reason := range endReasons {
		s.count(ended, all.with("reason", string(reason)), g.ended[reason])
	}
	for cause, label := range releaseCauses {
		s.count(released, all.with("cause", label), g.released[cause])
	}
	s.count(granted, all, g.granted)
	s.count(revoked, all, g.revoked)
	s.count(movedShards, all, g.moved)
	s.count(corrections, all, g.corrections)
	s.count(rowsIgnored, all, g.ignored)
	reason := all.with("reason", "reconcile")
	s.count(rebalances, reason, g.rebalances)
	s.durations(rebalanceTook, rebalanceMax, reason, g.rebalance.report(now), false)
	s.distribution(handoverTook, all, &g.handover)
	s.distribution(ownerlessTook, all, &g.ownerless)
}

// ledger counts the shards of a group by who may read them.
func (c *collector) ledger(s *sink, all labels, look *service.GroupLook) {
	state := look.View.State
	reads, free, asked := 0, 0, 0
	for shard, holder := range state.Ledger.Holder {
		if state.Ledger.Revoke[shard] != 0 {
			asked++
		}
		if isRead(state, shard) {
			reads++
			free += int(number(holder == group.None))
		}
	}
	s.put(groupShards, all, float64(reads))
	s.put(withoutOwner, all, float64(free))
	s.put(revokePending, all, float64(asked))
	s.put(revokeAge, all, look.Revoking.Seconds())
}

// isRead reports whether the group is to read a shard: it was not removed.
func isRead(s *group.State, shard int) bool { return shard < s.ReadCount && !s.Closed.Contains(shard) }
