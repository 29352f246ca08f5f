package service

import (
	"maps"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// known is what is remembered of a stream between two looks at its record.
type known struct {
	// written and read are its shard counts.
	written, read int
	// latest and highest are the latest version and the highest shard count that were ever
	// seen: the record may lose its last writes.
	latest  int64
	highest int
	// state is what the record said, unread how many of the removed shards were not empty,
	// held how many were, and were still read: for metrics.
	state        stream.State
	unread, held int
	clock        stream.Clock
	// looked is when shards beyond the known ones were last looked for.
	looked time.Duration
	// trouble is the last failure to take its steps, told the time when the log heard
	// of it.
	trouble error
	told    time.Duration
}

// remember notes what a stream's record says, as an instance of the store has it; nil for
// one that does not exist.
func (c *Coordinator) remember(prefix string, s *stream.State, instance string) {
	now := c.ports.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s == nil {
		delete(c.known, prefix)
		return
	}
	k, there := c.known[prefix]
	if !there {
		k = &known{looked: now}
		c.known[prefix] = k
	}
	if !k.state.CreatedAt.Equal(s.CreatedAt) {
		// Another stream of this name.
		k.latest, k.highest = 0, 0
	}
	k.written, k.read, k.state = s.ShardCount, s.ReadCount, *s
	k.latest, k.highest = max(k.latest, s.Version), max(k.highest, s.HighestCount)
	if s.Removed().Len() == len(s.Proofs) {
		k.unread = 0
	}
	if len(s.Proofs) == 0 {
		k.held = 0
	}
	k.clock.Loaded(instance)
	k.clock.RoutesOver(now, s)
}

// forgetOthers drops what is remembered of streams that are gone; they may have
// been deleted through another coordinator.
func (c *Coordinator) forgetOthers(prefixes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known, func(prefix string, _ *known) bool {
		_, there := slices.BinarySearch(prefixes, prefix)
		return !there
	})
	maps.DeleteFunc(c.doubts, func(key port.GroupKey, _ struct{}) bool {
		_, there := slices.BinarySearch(prefixes, key.Stream)
		return !there
	})
}

// HeartbeatLimit bounds the body of a heartbeat for a stream, in bytes.
func (c *Coordinator) HeartbeatLimit(prefix string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	read := 0
	if k, there := c.known[prefix]; there {
		read = k.read
	}
	return protocol.HeartbeatLimit(read)
}

// knows reports whether a stream was last seen to have a group.
func (c *Coordinator) knows(key port.GroupKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, there := c.known[key.Stream]
	if !there {
		return false
	}
	_, there = k.state.Group(key.Group)
	return there
}

// writes reports whether producers write to a shard of a stream that is known here.
func (c *Coordinator) writes(prefix string, shard protocol.ShardIndex) bool {
	k, there := c.known[prefix]
	return there && shard >= 0 && int(shard) < k.written
}

// lookInterval is how often shards beyond the known ones are looked for.
const lookInterval = 10 * time.Second

// streamInput is what the steps of a stream depend on beside its record. look asks for
// the time to look for more shards to be taken into account.
func (c *Coordinator) streamInput(s *stream.State, look bool) stream.Input {
	now := c.ports.Clock.Mono()
	in := stream.Input{Now: c.input().Now}
	c.mu.Lock()
	defer c.mu.Unlock()
	k, there := c.known[s.Prefix]
	if !there {
		return in
	}
	in.RoutesOver = k.clock.RoutesOver(now, s)
	if look && now-k.looked >= lookInterval {
		in.Look, k.looked = true, now
	}
	return in
}

// troubleRepeat is how often the same trouble is logged again.
const troubleRepeat = time.Minute

// troubled notes how the steps of a stream went, and reports whether that is news for
// the log.
func (c *Coordinator) troubled(prefix string, err error) bool {
	now := c.ports.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	k, there := c.known[prefix]
	if !there {
		return err != nil
	}
	news := err != nil && (k.trouble == nil || k.trouble.Error() != err.Error() || now-k.told >= troubleRepeat)
	if k.trouble = err; news {
		k.told = now
	}
	return news
}

func (c *Coordinator) troubleOf(prefix string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, there := c.known[prefix]; there {
		return k.trouble
	}
	return nil
}
