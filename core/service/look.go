package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// GroupLook is what this coordinator knows of a group at one moment, without asking
// the store.
type GroupLook struct {
	Key port.GroupKey
	// Look is empty where the group was too busy to say it in time.
	engine.Look
	// Answered counts the heartbeats that were answered here, by status.
	Answered map[protocol.Status]uint64
	// Complaints counts the times that the group's record was found to be damaged.
	Complaints uint64
}

// Look says what this coordinator knows of each group that exists, by key. Groups
// that have not said it when ctx ends are there with their key alone. One that was
// deleted here is left out at once.
func (c *Coordinator) Look(ctx context.Context) []GroupLook {
	type asked struct {
		r     *runner
		reply chan GroupLook
	}
	c.mu.Lock()
	all := make([]asked, 0, len(c.groups))
	for key, r := range c.groups {
		if k, there := c.known[key.Stream]; there && !wants(&k.state, key.Group) {
			continue
		}
		all = append(all, asked{r, make(chan GroupLook, 1)})
	}
	c.mu.Unlock()
	for _, a := range all {
		select {
		case a.r.inbox <- message{look: a.reply}:
		case <-a.r.ctx.Done():
		case <-ctx.Done():
		}
	}
	looks := make([]GroupLook, 0, len(all))
	for _, a := range all {
		look := GroupLook{Key: a.r.key}
		select {
		case look = <-a.reply:
		case <-a.r.ctx.Done():
			continue
		case <-ctx.Done():
		}
		if !look.Absent {
			looks = append(looks, look)
		}
	}
	slices.SortFunc(looks, func(a, b GroupLook) int {
		return cmp.Or(cmp.Compare(a.Key.Stream, b.Key.Stream), cmp.Compare(a.Key.Group, b.Key.Group))
	})
	return looks
}

// look answers Look, from the runner's own goroutine.
func (r *runner) look() GroupLook {
	return GroupLook{Key: r.key, Look: r.engine.Look(r.c.ports.Clock.Mono()), Answered: r.answered.byStatus(), Complaints: r.complaints}
}

// LoopAge is the time since the last round of the event loop, or since the start.
func (c *Coordinator) LoopAge() time.Duration {
	return c.ports.Clock.Mono() - time.Duration(c.health.loopSeen.Load())
}

// tellState passes on that the group has another state, or is gone.
func (r *runner) tellState() {
	v, absent := r.engine.View()
	if r.c.cfg.OnGroupState == nil || v == r.told && !(absent && r.known) {
		return
	}
	r.told = v
	if v != nil || absent {
		r.known = v != nil
		r.c.cfg.OnGroupState(r.key, v)
	}
}

// statuses are what a heartbeat can be answered with, the usual one first.
var statuses = [...]protocol.Status{
	protocol.StatusOK, protocol.StatusRetry, protocol.StatusRevokePending, protocol.StatusSyncMetadata, protocol.StatusFencedEpoch,
	protocol.StatusUnknownMember, protocol.StatusInvalidRequest, protocol.StatusUnsupportedProtocol,
}

// statusCounts counts answers by status, in the order of statuses.
type statusCounts [len(statuses)]uint64

func (n *statusCounts) add(s protocol.Status) {
	for i := range statuses {
		if statuses[i] == s {
			n[i]++
			return
		}
	}
}

func (n *statusCounts) byStatus() map[protocol.Status]uint64 {
	counts := map[protocol.Status]uint64{}
	for i, c := range n {
		if c > 0 {
			counts[statuses[i]] = c
		}
	}
	return counts
}

// refused counts heartbeats that no group was asked about.
func (c *Coordinator) refused(s protocol.Status) {
	c.mu.Lock()
	c.turnedAway.add(s)
	c.mu.Unlock()
}

// TurnedAway counts the heartbeats that were answered without a group: there is none of
// that name, or the coordinator shuts down.
func (c *Coordinator) TurnedAway() map[protocol.Status]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turnedAway.byStatus()
}

// conflict passes on that a write met a record changed by somebody else.
func (c *Coordinator) conflict(operation string, attempt int) {
	if c.cfg.OnConflict != nil {
		c.cfg.OnConflict(operation, attempt)
	}
}

// StreamLook is what this coordinator knows of a stream.
type StreamLook struct {
	// State is that of the last look at its record; not to be changed.
	stream.State
	// Blocked counts the removed shards that were not empty when they were last looked at,
	// and those that were and that somebody had not let go of.
	Blocked int
}

// LookStreams says what this coordinator knows of each stream that exists, by prefix,
// without asking the store: the event loop looks at all of them every few seconds.
func (c *Coordinator) LookStreams() []StreamLook {
	c.mu.Lock()
	defer c.mu.Unlock()
	looks := make([]StreamLook, 0, len(c.known))
	for _, k := range c.known {
		if k.state.Removal == nil {
			looks = append(looks, StreamLook{k.state, k.unread + k.held})
		}
	}
	slices.SortFunc(looks, func(a, b StreamLook) int { return cmp.Compare(a.Prefix, b.Prefix) })
	return looks
}

// noteUnread notes how many of the removed shards of a stream are not empty.
func (c *Coordinator) noteUnread(prefix string, shards int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, there := c.known[prefix]; there {
		k.unread = shards
	}
}

// noteHeld notes how many of those that are empty are still read.
func (c *Coordinator) noteHeld(prefix string, shards int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, there := c.known[prefix]; there {
		k.held = shards
	}
}

// purpose names what a change of a stream's record was for, when it is in conflict.
func purpose(cmds []stream.Command) string {
	for _, cmd := range cmds {
		switch cmd.(type) {
		case stream.Scale:
			return "scale-stream"
		case stream.Rollback:
			return "rollback-migration"
		case stream.DeleteGroup:
			return "delete-group"
		}
	}
	return "change-stream"
}
