package engine

import (
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// clocks is what one coordinator knows of the leases of a group, by its own
// clock alone: since when each stamp has not changed, and since when each
// revocation is pending.
type clocks struct {
	rules    rules.Set
	instance string
	polled   bool
	lastPoll time.Duration
	leases   map[string]*lease
	revokes  map[revocation]time.Duration
	// epoch is the group epoch last seen.
	epoch protocol.Epoch
	// jump is the correction that is open, since when.
	jump      protocol.Epoch
	jumpSince time.Duration
	// retimed is the last change of timings, since when.
	retimed      protocol.Epoch
	retimedSince time.Duration
}

// lease is the stamp of a life, and since when it has not changed. Without known
// nothing of it counts.
type lease struct {
	stamp string
	since time.Duration
	known bool
}

type revocation struct {
	life  string
	epoch protocol.Epoch
}

func newClocks(off rules.Set) clocks {
	return clocks{rules: off, leases: map[string]*lease{}, revokes: map[revocation]time.Duration{}}
}

// observe takes the stamps of a load into account. gap is how long polling may
// have paused for what was seen before it to count. It reports whether
// everything was forgotten, so that adopt has to follow.
func (c *clocks) observe(now, gap time.Duration, instance string, v *group.View, stamps map[string]string) (forgot bool) {
	if c.polled {
		missed := now-c.lastPoll > gap && c.rules.On(rules.GapRestartsClocks)
		// A gap in the polling may hide renewals that were undone by a store
		// that went backwards; another instance may have lost the last ones.
		if missed || instance != c.instance {
			for _, l := range c.leases {
				l.known = false
			}
			clear(c.revokes)
			c.jump, c.retimed = 0, 0
			forgot = true
		}
	}
	first := !c.polled
	c.polled, c.lastPoll, c.instance = true, now, instance
	for i := range v.State.Lives {
		key := v.Key(i)
		seen := c.lease(key)
		stamp := stamps[key]
		switch {
		case !seen.known && first && c.rules.Off(rules.ClockStartsWithProcess):
			*seen = lease{stamp, now - v.State.Timings.Lease, true}
		case !seen.known:
			*seen = lease{stamp, now, true}
		case c.rules.Off(rules.AnyChangeRenews):
			if stamp > seen.stamp {
				*seen = lease{stamp, now, true}
			}
		case stamp != seen.stamp:
			*seen = lease{stamp, now, true}
		}
	}
	return forgot
}

// lease returns that of a life, also before anything is known of it. It stays the
// same one as long as there is the life.
func (c *clocks) lease(life string) *lease {
	l, there := c.leases[life]
	if !there {
		l = new(lease)
		c.leases[life] = l
	}
	return l
}

// renewed notes stamps that this coordinator has written itself.
func (c *clocks) renewed(now time.Duration, stamps []Stamp) {
	for _, s := range stamps {
		c.lease(s.Life).renewed(now, s.Value)
	}
}

func (l *lease) renewed(now time.Duration, stamp string) { *l = lease{stamp, now, true} }

// adopt follows a new state: it forgets lives that are gone, and arms the
// rebalance timeout of revocations that are new.
func (c *clocks) adopt(now time.Duration, v *group.View) {
	for key := range c.leases {
		if _, there := v.Life(key); !there {
			delete(c.leases, key)
		}
	}
	if c.rules.Off(rules.TimeoutKeepsItsEpoch) && v.State.GroupEpoch != c.epoch {
		clear(c.revokes)
	}
	c.epoch = v.State.GroupEpoch
	if k := v.State.Correction; k != nil && k.Jump != c.jump {
		c.jump, c.jumpSince = k.Jump, now
	}
	if e := v.State.TimingsEpoch; e != c.retimed {
		c.retimed, c.retimedSince = e, now
	}
	pending := v.Revocations()
	for r := range c.revokes {
		if _, there := pending[group.Revocation{Life: r.life, Epoch: r.epoch}]; !there {
			delete(c.revokes, r)
		}
	}
	for p := range pending {
		r := revocation{p.Life, p.Epoch}
		if _, armed := c.revokes[r]; !armed {
			c.revokes[r] = now
		}
	}
}

// verdicts says which leases are over and which revocations are overdue.
func (c *clocks) verdicts(now time.Duration, v *group.View) (expired map[string]bool, overdue map[string]protocol.Epoch) {
	t := v.State.Timings
	expired = map[string]bool{}
	for i := range v.State.Lives {
		key := v.Key(i)
		if l, there := c.leases[key]; there && l.known && !c.lost(l) && now-l.since >= v.State.LongestLease() {
			expired[key] = true
		}
	}
	overdue = map[string]protocol.Epoch{}
	wait := t.RebalanceTimeout
	if c.rules.On(rules.TimeoutSparesLease) {
		wait = max(wait, v.State.LongestLease())
	}
	for r, since := range c.revokes {
		if now-since >= wait {
			overdue[r.life] = max(overdue[r.life], r.epoch)
		}
	}
	return expired, overdue
}

// corrected returns the jump of the correction that has been open for a lease
// time here, 0 for none.
func (c *clocks) corrected(now time.Duration, v *group.View) protocol.Epoch {
	if k := v.State.Correction; k != nil && k.Jump == c.jump && now-c.jumpSince >= v.State.LongestLease() {
		return k.Jump
	}
	return 0
}

// promiseOver returns the change of timings since which the longest lease that
// was promised before has passed, 0 for none.
func (c *clocks) promiseOver(now time.Duration, v *group.View) protocol.Epoch {
	if s := v.State; s.Promised != 0 && s.TimingsEpoch == c.retimed && now-c.retimedSince >= s.Promised {
		return s.TimingsEpoch
	}
	return 0
}

// lost reports whether the stamp of a lease is missing. No lease ends by that: there
// may have been a stamp meanwhile that was lost as well, and nobody can tell two
// losses apart.
func (c *clocks) lost(l *lease) bool { return l.stamp == "" && c.rules.On(rules.LossIsMarked) }

// unmarked names the lives of v whose stamp is missing.
func (c *clocks) unmarked(v *group.View) []string {
	var out []string
	for i := range v.State.Lives {
		key := v.Key(i)
		if l, there := c.leases[key]; there && l.known && c.lost(l) {
			out = append(out, key)
		}
	}
	return out
}

// relied names the stamps that an expiry rests on.
func (c *clocks) relied(lives []string) []Stamp {
	if c.rules.Off(rules.ExpiryIsConditional) {
		return nil
	}
	out := make([]Stamp, len(lives))
	for i, key := range lives {
		out[i] = Stamp{Life: key, Value: c.lease(key).stamp}
	}
	return out
}
