package member

import (
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// expire gives the incarnation up when its lease has ended.
func (c *change) expire() {
	if !c.s.leased || !c.on(rules.SelfFencing) || !c.s.lease.over(c.in.Mono, c.in.Wall) {
		return
	}
	if !c.on(rules.LeaseNotResumed) {
		// Without the rule: stop, keep the incarnation, and hope for an answer.
		c.emit(LeaseEnded{Incarnation: c.s.incarnation})
		c.s.leased = false
		c.loseAll()
		return
	}
	c.giveUp(LeaseEnded{Incarnation: c.s.incarnation})
}

// giveUp ends the present incarnation: everything stops at once, and the answer
// to its outstanding request does not count any more.
func (c *change) giveUp(why Event) {
	c.emit(why)
	if c.s.phase == leaving {
		c.end(false)
		return
	}
	c.loseAll()
	c.abandon()
	if c.s.leased {
		c.s.expiry = c.s.lease
		c.s.expiry.length = c.s.timings.Lease
	}
	c.s.leased = false
	c.s.stopped, c.s.incarnation = c.s.incarnation, ""
	c.s.epoch, c.s.version = protocol.EpochJoin, 0
	c.s.pending, c.s.standby = nil, false
	c.s.news, c.s.urgent = false, false
	c.s.phase = stopping
	c.s.nextAt = c.s.now
}

// loseAll takes every shard away. Those that were let go of are forgotten: only
// the incarnation that held them could report them.
func (c *change) loseAll() {
	c.drop(func(h holding) bool { return h.hold == released })
	hs := c.holdings()
	for i := range hs {
		h := &hs[i]
		switch h.hold {
		case owned, draining:
			c.emit(Lost{Shard: h.shard, Token: h.token})
			h.hold = lost
		case dropping:
			// It was told already.
			h.hold = lost
		}
	}
}

// rejoin starts a new life when the one that was given up holds nothing any
// more. It then names it as stopped, which frees what it held; so this waits for
// the last handler, but not for ever: once the old lease is over for the
// coordinator too, a handler that does not end keeps nobody out.
func (c *change) rejoin() {
	if c.s.phase != stopping {
		return
	}
	if c.s.any(lost) {
		if !c.s.expiry.over(c.in.Mono, c.in.Wall) {
			return
		}
		hs := c.holdings()
		for i := range hs {
			if hs[i].hold == lost {
				hs[i].hold = stuck
			}
		}
	}
	c.s.phase = joining
}

// renew takes over the lease that an answer to the outstanding request o
// brought. It reports false when that lease is over already.
func (c *change) renew(o outstanding, t protocol.Timings) bool {
	c.s.timings = t
	c.s.leased = true
	c.s.lease = span{from: o.sent, wall: o.wall, length: t.Lease}
	if !c.on(rules.LeaseFromSending) {
		c.s.lease.from, c.s.lease.wall = c.in.Mono, c.in.Wall
	}
	if c.on(rules.LeaseMargin) {
		c.s.lease.length -= protocol.LeaseMargin(t.Lease)
	}
	c.expire()
	return c.s.leased
}
