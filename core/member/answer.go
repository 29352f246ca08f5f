package member

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// answer takes an answer over, if it is the one that counts.
func (c *change) answer(r *protocol.HeartbeatResponse) {
	o := c.s.out
	if o.id == "" || (r.ResponseTo != o.id && c.on(rules.MatchAnswer)) {
		return
	}
	c.s.out = outstanding{}
	switch {
	case r.Status.RenewsLease():
		c.accepted(o, r)
	case r.Status == protocol.StatusFencedEpoch,
		r.Status == protocol.StatusUnknownMember && c.s.phase != joining:
		c.over(r)
	default:
		// RETRY and every other refusal changes nothing. So does the answer that
		// nobody knows us, to a member that has not joined: it waits for its
		// group to be created.
		if !c.on(rules.RetryRenewsNothing) && c.s.leased {
			c.renew(o, c.s.timings)
		}
		c.refused(r.Status, r.Reason)
	}
}

// over ends the incarnation because the coordinator says so.
func (c *change) over(r *protocol.HeartbeatResponse) {
	if c.s.phase == leaving {
		// Nobody holds anything for us any more, which is what we wanted to hear,
		// unless something of ours is still running.
		if r.Status == protocol.StatusFencedEpoch {
			c.emit(Fenced{Incarnation: c.s.incarnation, Status: r.Status, Reason: r.Reason})
		}
		c.end(!c.s.any(draining, dropping))
		return
	}
	c.giveUp(Fenced{Incarnation: c.s.incarnation, Status: r.Status, Reason: r.Reason})
	c.backOff()
}

func (c *change) refused(status protocol.Status, reason string) {
	c.emit(Waiting{Status: status, Reason: reason})
	c.backOff()
}

// accepted takes over an answer that renews the lease.
func (c *change) accepted(o outstanding, r *protocol.HeartbeatResponse) {
	t, complaint := c.usable(r)
	if complaint != "" {
		c.refused(r.Status, complaint)
		return
	}
	c.s.failures, c.s.notBefore = 0, 0
	if !c.renew(o, t) {
		return
	}
	// What the request reported as let go of is known now.
	c.drop(func(h holding) bool { return h.hold == released && h.said })
	c.s.nextAt = o.sent + t.HeartbeatInterval
	if c.s.phase == leaving {
		if o.last {
			c.end(true)
		}
		return
	}
	if c.s.phase == joining {
		c.s.phase = joined
		c.s.stopped = ""
		c.emit(Joined{Incarnation: c.s.incarnation, Epoch: r.MemberEpoch})
	}
	c.s.epoch, c.s.version = r.MemberEpoch, r.MetadataVersion
	if c.s.epoch != o.epoch || (r.Status == protocol.StatusSyncMetadata && c.s.version != o.version) {
		// It is acknowledged at once: the coordinator waits for it.
		c.s.news = true
	}
	switch {
	case o.wait == 0 && c.wait() > 0:
		// That one was to be answered at once; now let one be held.
		c.s.nextAt = c.s.now
	case o.wait > 0 && c.s.now >= o.sent+o.wait && c.s.cfg.MaxWait >= t.HeartbeatInterval:
		// It was held to its end, which the lease made shorter than an interval.
		c.s.nextAt = c.s.now
	}
	assigned := byShard(r.Assignment.AssignedShards)
	c.takeAway(assigned)
	if r.Status == protocol.StatusOK {
		// The other statuses say to keep what is assigned and wait for the rest.
		c.start(assigned)
	}
	c.setPending(r.Assignment.PendingShards)
}

// usable checks what a coordinator must never say, and returns the timings of
// an answer; values that it leaves out stay as they were.
func (c *change) usable(r *protocol.HeartbeatResponse) (t protocol.Timings, complaint string) {
	t = c.s.timings
	t.Lease = told(r.MemberLeaseTTLMs, t.Lease)
	t.HeartbeatInterval = max(told(r.HeartbeatIntervalMs, t.HeartbeatInterval), minInterval)
	t.RebalanceTimeout = told(r.RebalanceTimeoutMs, t.RebalanceTimeout)
	switch {
	case t.Lease < 2*protocol.LeaseMargin(t.Lease):
		return t, fmt.Sprintf("the answer gives a lease of %s, which is too short to be used", t.Lease)
	case c.s.phase != leaving && (r.MemberEpoch <= protocol.EpochJoin || r.MemberEpoch < c.s.epoch):
		return t, fmt.Sprintf("the answer gives the epoch %d after %d", r.MemberEpoch, c.s.epoch)
	case len(r.Assignment.AssignedShards) > protocol.MaxShards || len(r.Assignment.PendingShards) > protocol.MaxShards:
		return t, fmt.Sprintf("the answer lists more than %d shards", protocol.MaxShards)
	}
	return t, ""
}

// minInterval keeps an answer from making the member spin.
const minInterval = 10 * time.Millisecond

// told converts milliseconds of an answer; what is not given stays as it was.
func told(ms int64, before time.Duration) time.Duration {
	const most = int64(24 * time.Hour / time.Millisecond)
	if ms <= 0 {
		return before
	}
	return time.Duration(min(ms, most)) * time.Millisecond
}

// byShard sorts assigned shards and leaves out what cannot be one. Of two rows
// for a shard the newer one counts.
func byShard(in []protocol.AssignedShard) []protocol.AssignedShard {
	out := slices.DeleteFunc(slices.Clone(in), func(a protocol.AssignedShard) bool {
		return a.Shard < 0 || a.Shard >= protocol.MaxShards
	})
	slices.SortFunc(out, func(a, b protocol.AssignedShard) int {
		return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(b.Epoch, a.Epoch))
	})
	return slices.CompactFunc(out, func(a, b protocol.AssignedShard) bool { return a.Shard == b.Shard })
}

// takeAway lets go of what is owned and not assigned any more.
func (c *change) takeAway(assigned []protocol.AssignedShard) {
	i := 0
	for at := range c.s.holdings {
		h := c.s.holdings[at]
		for i < len(assigned) && assigned[i].Shard < h.shard {
			i++
		}
		there := i < len(assigned) && assigned[i].Shard == h.shard
		switch {
		case h.hold != owned || (there && assigned[i].Epoch == h.token):
		case there:
			// The grant that we read under was lost and renewed. Somebody else
			// may have held the shard in between, so what we have of it is
			// dropped; the new grant starts when the old one is let go of and
			// that is reported.
			c.holdings()[at].hold = dropping
			c.emit(Lost{Shard: h.shard, Token: h.token})
		default:
			c.holdings()[at].hold = draining
			c.emit(Revoked{Shard: h.shard, Token: h.token, Deadline: c.revokeDeadline()})
		}
	}
}

// start takes over what is assigned and not held in any way.
func (c *change) start(assigned []protocol.AssignedShard) {
	var fresh []holding
	for _, a := range assigned {
		at, held := c.s.find(a.Shard)
		switch {
		case !held:
			fresh = append(fresh, holding{shard: a.Shard, token: a.Epoch, hold: owned})
			c.emit(Assigned{Shard: a.Shard, Token: a.Epoch})
		case c.s.holdings[at].hold == stuck:
			// A handler of an earlier incarnation still works on it. The shard is
			// ours again, so the coordinator can be told of that.
			c.holdings()[at].hold = dropping
			c.s.news = true
		}
	}
	if len(fresh) > 0 {
		c.s.holdings = slices.Concat(c.s.holdings, fresh)
		c.copied = true
		slices.SortFunc(c.s.holdings, func(a, b holding) int { return cmp.Compare(a.shard, b.shard) })
	}
}

// setPending notes what will come, and says so when the member has nothing to
// do now.
func (c *change) setPending(pending protocol.Shards) {
	next := slices.Sorted(slices.Values(pending))
	idle := !c.s.any(owned)
	if idle && (!c.s.standby || !slices.Equal(next, c.s.pending)) {
		c.emit(Standby{Pending: next})
	}
	c.s.pending, c.s.standby = next, idle
}
