package service

import (
	"context"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// losses remembers that the store was emptied. Whoever was granted something in
// what was lost may still read it, for as long as its lease: until then, groups
// that are created anew begin with a correction and grant nothing.
type losses struct {
	// id is the store's, empty before it was asked for.
	id string
	// until is when the last lease from before the loss is over.
	until time.Duration
	// freshUntil is set for a store that was empty when this coordinator started:
	// it may be a new one, or one that was emptied meanwhile. Members that speak of
	// an earlier life are the evidence, kept in former until their leases are over.
	freshUntil time.Duration
	former     map[port.GroupKey]time.Duration
}

// maxFormer bounds the groups that are remembered for their former members.
const maxFormer = 10_000

// watchIdentity looks whether the store is still the same.
func (c *Coordinator) watchIdentity(ctx context.Context) {
	call, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	id, fresh, err := c.ports.Store.Identity(call)
	if err != nil {
		c.storeTrouble(ctx, "ask for the store's identity", err)
		return
	}
	now := c.ports.Clock.Mono()
	c.mu.Lock()
	before := c.losses.id
	c.losses.id = id
	lost := before != "" && before != id
	switch {
	case lost:
		c.losses.until = now + c.cfg.Timings.Lease
	case before == "" && fresh:
		c.losses.freshUntil = now + c.cfg.Timings.Lease
	case now >= c.losses.freshUntil+c.cfg.Timings.Lease:
		// The last of those that were noted is over.
		c.losses.former = nil
	}
	c.mu.Unlock()
	if lost {
		c.cfg.Logger.Error("the metadata store was emptied, or one of its servers: streams that are gone and not declared have to be created again; their shards are given after one lease time",
			"lease", c.cfg.Timings.Lease)
		c.repairAfterLoss(ctx)
		if c.cfg.OnStoreLost != nil {
			c.cfg.OnStoreLost()
		}
	}
}

// speaksOfFormer notes a heartbeat of a member that was part of a group which the
// store does not know.
func (c *Coordinator) speaksOfFormer(key port.GroupKey, q *protocol.Heartbeat) {
	if q.MemberEpoch <= protocol.EpochJoin && q.StoppedIncarnation == "" {
		return
	}
	now := c.ports.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	if now >= c.losses.freshUntil || len(c.losses.former) >= maxFormer {
		return
	}
	if c.losses.former == nil {
		c.losses.former = map[port.GroupKey]time.Duration{}
	}
	c.losses.former[key] = now + c.cfg.Timings.Lease
}

// afterLoss returns the correction that a new group has to begin with, nil for
// none.
func (c *Coordinator) afterLoss(key port.GroupKey) *group.Correct {
	now := c.ports.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	until := max(c.losses.until, c.losses.former[key])
	delete(c.losses.former, key)
	if now >= until {
		return nil
	}
	return &group.Correct{Reason: "the store was emptied, and members of before may still read"}
}
