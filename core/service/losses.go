package service

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// losses remembers that the store was emptied. Whoever was granted something in
// what was lost may still read it, for as long as its lease: until then, groups
// that are created anew begin with a correction and grant nothing.
type losses struct {
	// asking keeps an answer about the store's identity from being overtaken by
	// another one.
	asking sync.Mutex

	// What follows is guarded by the coordinator's mu; id is the store's, empty before
	// it was asked for.
	id string
	// emptied is what the store said of itself with the id.
	emptied bool
	// until is when the last lease from before the loss is over.
	until time.Duration
	// freshUntil is the end of the first lease time of this coordinator: the store that
	// it found may have been emptied a moment before, and another coordinator may have
	// been the first to find it so. Members that speak of an earlier life are the
	// evidence, kept in former until their leases are over.
	freshUntil time.Duration
	former     map[port.GroupKey]time.Duration
}

// maxFormer bounds the groups that are remembered for their former members.
const maxFormer = 10_000

// watchIdentity looks whether the store is still the same.
func (c *Coordinator) watchIdentity(ctx context.Context) error {
	lost, err := c.askIdentity(ctx)
	if err != nil {
		return c.storeError(ctx, "ask for the store's identity", err)
	}
	if !lost {
		return nil
	}
	c.cfg.Logger.Error("the metadata store was emptied, or one of its servers: streams that are gone and not declared have to be created again; their shards are given after one lease time",
		"lease", c.cfg.Timings.Lease)
	c.repairAfterLoss()
	if c.cfg.OnStoreLost != nil {
		c.cfg.OnStoreLost()
	}
	return nil
}

// askIdentity asks the store who it is, and notes what follows from that. It reports
// whether the store has lost what this coordinator has seen.
func (c *Coordinator) askIdentity(ctx context.Context) (lost bool, err error) {
	c.losses.asking.Lock()
	defer c.losses.asking.Unlock()
	c.mu.Lock()
	before := c.losses.id
	c.mu.Unlock()
	call, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	found, err := c.ports.Store.Identity(call, before)
	if err != nil {
		return false, err
	}
	now := c.ports.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	lost = before != "" && before != found.ID
	// Somebody else knows that it was emptied, and nobody how long ago.
	told := found.Emptied && !c.losses.emptied
	c.losses.id, c.losses.emptied = found.ID, found.Emptied
	switch {
	case lost || told:
		c.losses.until = now + c.cfg.Timings.Lease
	case before == "":
		c.losses.freshUntil = now + c.cfg.Timings.Lease
	case now >= c.losses.freshUntil+c.cfg.Timings.Lease:
		// The last of those that were noted is over.
		c.losses.former = nil
	}
	return lost, nil
}

// correctAfterLoss has all groups granted nothing for a lease time, unless they are in a
// correction already: a coordinator that knows nothing of the loss may have created
// them before it was noticed here.
func (c *Coordinator) correctAfterLoss(ctx context.Context) {
	call, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	keys, err := c.ports.Store.ListGroups(call)
	if err != nil {
		c.storeTrouble(ctx, "list groups", err)
		return
	}
	for _, key := range keys {
		err := c.changeGroup(ctx, key, group.Correct{Reason: "the store was emptied, and members of before may still read", Once: true})
		if err != nil && !errors.Is(err, protocol.ErrGroupNotFound) {
			c.cfg.Logger.ErrorContext(ctx, "group cannot be corrected after the loss", "stream", key.Stream, "group", key.Group, "err", err)
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
