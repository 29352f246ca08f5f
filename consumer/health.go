package consumer

import (
	"slices"
	"time"
)

// Health is how a consumer does at one moment.
type Health struct {
	// Coordinator is what keeps heartbeats from being answered. While the lease
	// lasts, reading goes on.
	Coordinator Condition
	// LeaseLeft is as LeaseLeft of the Consumer.
	LeaseLeft time.Duration
	// Shards are those that this member has, in the order of their numbers; none with
	// a Lifecycle of the application.
	Shards []ShardHealth
}

// Healthy reports whether the coordinator answers and every shard is read.
func (h Health) Healthy() bool {
	return h.Coordinator.OK() && !slices.ContainsFunc(h.Shards, func(s ShardHealth) bool { return !s.Trouble.OK() })
}

// Condition is something that fails and is tried again. The zero Condition is that
// nothing does.
type Condition struct {
	// Kind names the trouble for programs, such as "unreachable", "no-permission" or
	// "stream-missing"; empty when there is none.
	Kind string
	// Err is what happened at the last attempt, Advice what it means and what ends
	// it, where something can be said.
	Err    error
	Advice string
	// Since is when it began, Attempts how often it was tried since.
	Since    time.Time
	Attempts int
}

// OK reports whether nothing is wrong.
func (c Condition) OK() bool { return c.Kind == "" }

// ShardState is what the reader of a shard is about.
type ShardState string

// The states of a shard.
const (
	// ShardConnecting: the server is looked for.
	ShardConnecting ShardState = "connecting"
	// ShardRecovering: what earlier owners left, or what was lost on its way, is taken
	// over.
	ShardRecovering ShardState = "recovering"
	// ShardReading: it waits for new records.
	ShardReading ShardState = "reading"
	// ShardFull: it waits for handlers, since as much is in hand as may be.
	ShardFull ShardState = "full"
	// ShardUnacknowledged: it waits for acknowledgements to go through.
	ShardUnacknowledged ShardState = "unacknowledged"
	// ShardMissing: its stream does not exist. It was removed, and will be taken from
	// this member in a moment, or it was lost, and the coordinator creates it again; if
	// neither happens within 2 s it is ShardBroken.
	ShardMissing ShardState = "missing"
	// ShardBroken: it waits to try again; see Trouble.
	ShardBroken ShardState = "broken"
	// ShardNoLease: the lease is over, and it is about to be taken away.
	ShardNoLease ShardState = "no-lease"
	// ShardDraining: it is let go of, and handlers finish.
	ShardDraining ShardState = "draining"
)

// ShardHealth is how one shard does.
type ShardHealth struct {
	Shard Shard
	State ShardState
	// Since is when the state began.
	Since time.Time
	// Polled: the shard has no connection of its own; see MaxBlockedReaders.
	Polled bool
	// Node is the address of the server in a Cluster, empty elsewhere and while it is
	// not known.
	Node string
	// InHand counts the records that were read and not handled yet, Unacknowledged
	// those that were handled and not acknowledged.
	InHand, Unacknowledged int
	// Trouble is what keeps the shard from being read.
	Trouble Condition
}

// Health returns how the consumer does. It is cheap and safe to call often.
func (c *Consumer) Health() Health {
	h := Health{LeaseLeft: c.LeaseLeft(), Coordinator: c.agent.ailment.condition()}
	if c.poller == nil {
		return h
	}
	for _, w := range c.poller.all() {
		h.Shards = append(h.Shards, w.health())
	}
	return h
}

// enter notes what the worker is about from now on.
func (w *worker) enter(s ShardState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state != s {
		w.state, w.since = s, time.Now()
	}
}

func (w *worker) health() ShardHealth {
	w.mu.Lock()
	h := ShardHealth{Shard: w.shard, State: w.state, Since: w.since}
	if w.link != nil {
		h.Polled, h.Node = w.link.polled(), w.link.node.addr
	}
	w.mu.Unlock()
	h.InHand, h.Unacknowledged = w.lanes.size(), w.acks.size()
	h.Trouble = w.ailment.condition()
	return h
}
