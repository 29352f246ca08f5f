package member

import (
	"hash/fnv"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// firstBackOff is the wait after a first failure; it doubles with each, up to
	// the heartbeat interval.
	firstBackOff = 50 * time.Millisecond
	// minWait is the shortest hold that is worth asking for.
	minWait = 50 * time.Millisecond
	// maxProgressRows is how many rows of progress a request carries; with more,
	// they take turns. It keeps a body well below protocol.HeartbeatLimit.
	maxProgressRows = 1000
)

// next decides what is to be done now, after the command.
func (c *change) next() {
	if c.s.phase == leaving && c.s.now >= c.s.leaveBy {
		c.end(false)
	}
	if c.s.phase == left {
		c.r.Done = true
		return
	}
	c.rejoin()
	if c.s.out.id != "" && c.s.now >= c.s.out.giveUp {
		c.abandon()
		c.backOff()
	}
	if c.due() {
		c.send()
	}
	c.r.WakeAt = c.wakeAt()
}

// due reports whether a request is to be sent now.
func (c *change) due() bool {
	switch {
	case c.s.phase == stopping:
		return false
	case c.s.out.id != "":
		// A request that is being held has said what there was to say then; a
		// newer one takes its place. One that is to be answered at once is
		// waited for, so that a burst of news travels together.
		return c.s.urgent || (c.s.news && c.s.out.wait > 0)
	case c.s.now < c.s.notBefore:
		return false
	}
	return c.s.news || c.s.now >= c.s.nextAt
}

// wakeAt returns when a Tick is due.
func (c *change) wakeAt() time.Duration {
	var at time.Duration
	switch {
	case c.s.phase == stopping:
		at = c.s.expiry.end()
	case c.s.out.id != "":
		at = c.s.out.giveUp
	case c.s.news:
		at = c.s.notBefore
	default:
		at = max(c.s.nextAt, c.s.notBefore)
	}
	if c.s.leased && c.on(rules.SelfFencing) {
		at = min(at, c.s.lease.end())
	}
	if c.s.phase == leaving {
		at = min(at, c.s.leaveBy)
	}
	return max(at, c.s.now)
}

// send makes the request that says all there is to say.
func (c *change) send() {
	c.abandon()
	s := &c.s
	if s.incarnation == "" {
		s.incarnation = "m-" + c.in.ID
	}
	q := &protocol.Heartbeat{
		ProtocolVersion: protocol.Version,
		RequestID:       c.in.ID,
		MemberID:        s.cfg.MemberID,
		MemberName:      s.cfg.MemberName,
		Incarnation:     s.incarnation,
		MemberEpoch:     s.epoch,
		MetadataVersion: s.version,
		Capacity:        protocol.Capacity{MaxConcurrency: s.cfg.MaxConcurrency, AvailableConcurrency: s.available},
		OwnedShards:     protocol.Shards{},
		RevokingShards:  []protocol.RevokingShard{},
	}
	switch s.phase {
	case joining:
		q.StoppedIncarnation = s.stopped
	case leaving:
		q.MemberEpoch = protocol.EpochLeave
		q.Capacity.AvailableConcurrency = 0
	}
	undrained := c.list(q)
	q.ShardProgress = c.share()
	wait := c.wait()
	for i := range q.RevokingShards {
		if q.RevokingShards[i].Terminal() {
			// Others wait for this: it is to be confirmed at once.
			wait = 0
		}
	}
	q.MaxWaitMs = wait.Milliseconds()
	s.out = outstanding{
		id: q.RequestID, sent: s.now, wall: c.in.Wall, giveUp: c.giveUpAt(wait),
		wait: wait, epoch: q.MemberEpoch, version: q.MetadataVersion,
		last: s.phase == leaving && !undrained,
	}
	s.news, s.urgent = false, false
	c.r.Send, c.r.GiveUpAt = q, s.out.giveUp
}

// list fills in what is owned and what is being let go of. It reports whether
// anything is held.
func (c *change) list(q *protocol.Heartbeat) (held bool) {
	for at := range c.s.holdings {
		h := c.s.holdings[at]
		switch h.hold {
		case owned:
			held = true
			q.OwnedShards = append(q.OwnedShards, h.shard)
		case draining, dropping:
			held = true
			q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{
				Shard: h.shard, State: protocol.RevokeDraining, InFlight: 1,
			})
		case released:
			if !h.said {
				c.holdings()[at].said = true
			}
			q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{
				Shard: h.shard, State: protocol.RevokeRevoked, AckedAt: h.releasedAt.UTC().Format(time.RFC3339Nano),
			})
		}
	}
	return held
}

// share returns the rows of progress that are due, of shards that we hold.
func (c *change) share() []protocol.ShardProgress {
	rows := []protocol.ShardProgress{}
	all := c.s.progress
	if c.s.turn >= len(all) {
		c.s.turn = 0
	}
	for n := 0; n < len(all) && len(rows) < maxProgressRows; n++ {
		row := all[c.s.turn]
		c.s.turn = (c.s.turn + 1) % len(all)
		if i, held := c.s.find(row.Shard); held && c.s.holdings[i].hold <= dropping {
			rows = append(rows, row)
		}
	}
	return rows
}

// wait is how long the coordinator is asked to hold a heartbeat. A join, a leave,
// and whatever follows a failure are to be answered at once.
//
// An answer renews the lease only when it comes, and from the sending: while one
// heartbeat is held, the lease runs from the one before. Two waits in a row must
// fit in, and after them an attempt that is answered at once, in case the second
// answer is lost. Whatever was before, no wait takes more than half of what is
// left.
func (c *change) wait() time.Duration {
	if c.s.phase != joined || c.s.failures > 0 {
		return 0
	}
	lease := c.s.timings.Lease
	spare := lease - protocol.LeaseMargin(lease) - protocol.ClientTimeout(lease)
	wait := min(protocol.MaxWait(c.s.cfg.MaxWait, lease), spare*2/5)
	if c.s.leased {
		wait = min(wait, max(0, c.s.lease.end()-c.s.now)/2)
	}
	if wait < minWait {
		return 0
	}
	return wait.Truncate(time.Millisecond)
}

// giveUpAt is when a request that is sent now has failed. It is not waited for when
// its answer is well overdue and the rest of the lease is needed for another
// attempt. After a failure, an attempt gets half of what is left
// of the lease: of three coordinators, two may be silent. A late answer is no loss,
// since the coordinator has counted the request all the same.
func (c *change) giveUpAt(wait time.Duration) time.Duration {
	timeout := protocol.ClientTimeout(c.s.timings.Lease)
	at := c.s.now + wait + timeout
	if !c.s.leased {
		return at
	}
	end := c.s.lease.end()
	if c.s.failures > 0 { // and so without a wait
		return min(at, c.s.now+max(timeout/4, (end-c.s.now)/2))
	}
	return min(at, max(c.s.now+wait+timeout/4, end-timeout))
}

// backOff puts the next request off: longer with each failure, and a little
// different for each member, so that many of them do not come back at once.
func (c *change) backOff() {
	pause := c.s.timings.HeartbeatInterval
	if c.s.failures < 16 {
		pause = min(pause, firstBackOff<<c.s.failures)
		c.s.failures++
	}
	h := fnv.New32a()
	// A hash never fails to write.
	_, _ = h.Write([]byte(c.in.ID))
	half := pause / 2
	c.s.notBefore = c.s.now + half + time.Duration(uint64(h.Sum32())*uint64(half)>>32)
	c.s.nextAt = c.s.notBefore
}
