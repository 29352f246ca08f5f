package group

import (
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Retime changes the timings of the group, which are valid.
type Retime struct{ Timings protocol.Timings }

func (Retime) isCommand() {}

// TimingsChanged: the group has other timings.
type TimingsChanged struct{ Before, Now protocol.Timings }

func (TimingsChanged) isEvent() {}

// retime takes other timings over. Members learn of a lease with their next
// answer: a longer one counts at once, a shorter one only when the longer one
// that was promised before is over.
func (c *change) retime(t protocol.Timings) {
	if t == c.s.Timings {
		return
	}
	c.emit(TimingsChanged{Before: c.s.Timings, Now: t})
	promised := c.s.LongestLease()
	c.s.Timings = t
	c.s.Promised = 0
	if promised > t.Lease && c.on(rules.ShorterLeaseWaits) {
		c.s.Promised = promised
	}
	c.s.TimingsEpoch = c.draw()
	c.membership = true
}

// endPromise lets a shorter lease count, once the longer one has been over for
// the coordinator that acts.
func (c *change) endPromise() {
	if c.s.Promised != 0 && c.in.PromiseOver == c.s.TimingsEpoch {
		c.s.Promised = 0
		c.changed = true
	}
}
