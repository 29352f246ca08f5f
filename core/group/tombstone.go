package group

import (
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// EndReason says how an incarnation ended.
type EndReason string

// How an incarnation ends.
const (
	EndLeft     EndReason = "left"
	EndExpired  EndReason = "expired"
	EndFenced   EndReason = "fenced"
	EndReplaced EndReason = "replaced"
	EndStopped  EndReason = "stopped"
)

// Tombstone remembers an incarnation that ended.
type Tombstone struct {
	Member      string
	Incarnation string
	Reason      EndReason
	// At is for people; nothing is decided by it.
	At time.Time
}

// Tombstones are pruned by number, never by time: comparing times would compare
// clocks of two machines. So many of the last are kept, and a number for each
// life, because a large group ends more incarnations in the same time. When a
// large group shrinks, the surplus goes slowly: their late requests come soon.
const (
	minTombstones     = 256
	tombstonesPerLife = 2
	prunedPerNew      = 2
)

// tombstone finds what is remembered of an incarnation that ended.
func (s *State) tombstone(member, incarnation string) (EndReason, bool) {
	for i := range slices.Backward(s.Ended) {
		if t := &s.Ended[i]; t.Incarnation == incarnation && t.Member == member {
			return t.Reason, true
		}
	}
	return "", false
}

// tombs are the tombstones during a change.
type tombs struct {
	// added counts those of this change; with the first, Ended is a copy.
	added int
	// asked counts look-ups: after a few, index answers them.
	asked int
	index map[[2]string]EndReason
}

// fewLookups is how many are made before an index is worth its price.
const fewLookups = 4

func (c *change) tombstone(member, incarnation string) (EndReason, bool) {
	c.tombs.asked++
	if c.tombs.asked <= fewLookups {
		return c.s.tombstone(member, incarnation)
	}
	if c.tombs.index == nil {
		c.tombs.index = make(map[[2]string]EndReason, len(c.s.Ended))
		for i := range c.s.Ended {
			t := &c.s.Ended[i]
			c.tombs.index[[2]string{t.Member, t.Incarnation}] = t.Reason
		}
	}
	why, over := c.tombs.index[[2]string{member, incarnation}]
	return why, over
}

// entomb remembers an incarnation that ended, if it is not remembered yet.
func (c *change) entomb(member, incarnation string, reason EndReason) {
	if _, known := c.tombstone(member, incarnation); known {
		return
	}
	c.changed = true
	if c.tombs.added == 0 {
		c.s.Ended = slices.Clone(c.s.Ended)
	}
	c.tombs.added++
	c.s.Ended = append(c.s.Ended, Tombstone{Member: member, Incarnation: incarnation, Reason: reason, At: c.in.Now})
	if c.tombs.index != nil {
		c.tombs.index[[2]string{member, incarnation}] = reason
	}
}

// pruneTombstones forgets the oldest.
func (c *change) pruneTombstones() {
	keep := max(minTombstones, tombstonesPerLife*min(len(c.s.Lives), protocol.MaxMembers))
	surplus := min(len(c.s.Ended)-keep, prunedPerNew*c.tombs.added)
	if surplus > 0 {
		c.s.Ended = slices.Delete(c.s.Ended, 0, surplus)
	}
}
