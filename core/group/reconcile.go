package group

import (
	"github.com/redis-stream-coordinator/rsc/core/assign"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// reconcile computes the target if membership changed, takes back what is held
// by others than the target says, and grants what is free.
func (c *change) reconcile() {
	if c.membership {
		c.retarget()
	}
	if !c.membership && !c.moved {
		return
	}
	l := c.ledger()
	for shard, target := range c.s.Target {
		holder := l.Holder[shard]
		switch {
		case holder == target:
			// Held as it should be, or being revoked although the target came
			// back to the holder: then it stays pending until the holder lets go.
			if holder != None && l.Revoke[shard] != 0 && !c.on(rules.NeverUnrevoked) {
				l.Revoke[shard] = 0
				c.newEpoch(holder)
			}
		case holder == None:
			if c.s.Correction == nil || !c.on(rules.CorrectionGrantsNothing) {
				c.grant(shard, target)
			}
		case l.Revoke[shard] == 0 && c.s.Lives[holder].State == Active:
			epoch := c.newEpoch(holder)
			l.Revoke[shard] = epoch
			c.emit(ShardRevoked{Shard: protocol.ShardIndex(shard), Member: c.s.Lives[holder].Member, Epoch: epoch})
		}
	}
}

func (c *change) grant(shard int, life int32) {
	l := c.ledger()
	epoch := c.newEpoch(life)
	l.Holder[shard], l.Grant[shard], l.Revoke[shard] = life, epoch, 0
	c.emit(ShardGranted{Shard: protocol.ShardIndex(shard), Member: c.s.Lives[life].Member, Epoch: epoch})
}

// retarget computes a new target for the live members.
func (c *change) retarget() {
	live := c.s.takersByID()
	rank := make([]int32, len(c.s.Lives))
	for i := range rank {
		rank[i] = assign.None
	}
	for i, life := range live {
		rank[life] = int32(i)
	}
	l := c.ledger()
	open := c.open()
	held := make([]int32, len(open))
	previous := make([]int32, len(open))
	for i, shard := range open {
		held[i] = rankOf(rank, l.Holder[shard])
		previous[i] = rankOf(rank, c.heir(c.s.Target[shard]))
	}
	for shard := range c.s.Target {
		c.s.Target[shard] = None
	}
	moves := 0
	for i, to := range assign.Plan(held, previous, len(live)) {
		if to == assign.None {
			continue
		}
		c.s.Target[open[i]] = live[to]
		if held[i] != assign.None && held[i] != to {
			moves++
		}
	}
	if c.s.Counter == c.first {
		c.draw()
	}
	c.s.GroupEpoch = c.s.Counter
	c.s.AssignmentEpoch = c.s.GroupEpoch
	c.s.MetadataVersion = max(c.s.MetadataVersion+1, int64(c.s.GroupEpoch))
	c.emit(TargetChanged{GroupEpoch: c.s.GroupEpoch, Members: len(live), Moves: moves})
}

// open lists the shards that are read.
func (c *change) open() []int {
	open := make([]int, 0, c.s.ReadCount)
	for _, run := range c.s.Closed.Without(0, c.s.ReadCount) {
		for shard := run.First; shard < run.End; shard++ {
			open = append(open, shard)
		}
	}
	return open
}

// heir is the life that a target goes over to, so that a new life of a member
// gets its shards back.
func (c *change) heir(life int32) int32 {
	if next, follows := c.heirs[life]; follows {
		return next
	}
	return life
}

func rankOf(rank []int32, life int32) int32 {
	if life == None {
		return assign.None
	}
	return rank[life]
}
