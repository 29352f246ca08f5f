package sim

import (
	"math/rand/v2"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Shape is the kind of a schedule: how many take part, and which faults at which
// rates. Rates are chances: for each message, or for each second of a process.
type Shape struct {
	Name         string
	Coordinators int
	// Groups is how many groups the stream has, 0 for one; each has Members.
	Groups  int
	Members int
	// Shards is how many shards the stream has, at first.
	Shards  int
	Timings protocol.Timings
	Tick    time.Duration
	// Faulty is how long faults are injected, Settle how long the group then has
	// to come to rest.
	Faulty, Settle time.Duration
	// MaxWait is how long members let heartbeats be held.
	MaxWait time.Duration

	// The network: chances for each message.
	Lose, Repeat float64
	// Middle and Late are chances of a delay of up to a heartbeat interval, and
	// of one beyond a lease.
	Middle, Late float64
	// Cut is the chance per second that all messages in one direction between
	// two processes get lost for a while.
	Cut float64

	// Members: chances per second for each.
	Crash, Leave, Pause, Twin float64
	// SlowDrain is the chance that a revoked shard is drained for longer than
	// the rebalance timeout.
	SlowDrain float64
	// Legacy is the share of members that do not send an incarnation.
	Legacy float64
	// Drift is how far clocks run apart, at most, as a share.
	Drift float64

	// Coordinators: a pause before any step, crashes per second.
	CoordPause, CoordCrash float64

	// The store: chances for each write to lose its reply, and per second to be
	// away for a while or to fail over, losing its last writes.
	LostReply, Away, Failover float64
	// LoseStamps is the chance per second that stamps alone are lost.
	LoseStamps float64
	// Retime is the chance per second that the lease time is changed.
	Retime float64
	// Drain is the chance per second that a member is taken out of work, or put back.
	Drain float64
	// Recreate is the chance per second that the group is deleted by force, with
	// members in it, and created again at once.
	Recreate float64

	// Signals is true where coordinators are told of each other's saves, late, more than
	// once, or not at all.
	Signals bool

	// Producers is how many write records; without any, the shards are names alone, and
	// there are as many as at first.
	Producers int
	// RoutingLease is how long a producer may use a route.
	RoutingLease time.Duration
	// LateWrite is the chance of a record to be on its way for about a routing lease,
	// Deaf that per second of a producer to reach no coordinator for as long.
	LateWrite, Deaf float64
	// An operator, chances per second: Scale and Rollback change the shard count,
	// Regroup deletes and creates groups, GiveUp and Ignore overrule what a drain waits
	// for.
	Scale, Rollback, Regroup, GiveUp, Ignore float64
	// Past the coordinators, per second: Strangers make consumer groups, Rewind sets one
	// of ours back, Destroy deletes one on a shard, Delete deletes and trims records.
	Strangers, Rewind, Destroy, Delete float64
	// FromLatest lets new groups begin at the newest record, in a quarter of the seeds.
	FromLatest bool
}

var simTimings = protocol.Timings{HeartbeatInterval: time.Second, Lease: 6 * time.Second, RebalanceTimeout: 15 * time.Second}

// Shapes are the schedules that are drawn from. Each finds faults that the
// others hide.
var Shapes = []Shape{
	// Short delays, many repeats, members that come and go all the time: finds
	// what is wrong with the ledger.
	{
		Name: "churn", Coordinators: 1, Members: 4, Shards: 3, Tick: 300 * time.Millisecond, Faulty: 80 * time.Second,
		Lose: 0.12, Repeat: 0.33, Middle: 0.3, Late: 0.01, Crash: 0.04, Leave: 0.15, Pause: 0.02, SlowDrain: 0.05, Drift: 0.04,
		LostReply: 0.03, MaxWait: 2 * time.Second,
	},
	// One coordinator, long delays and pauses: what is wrong with members.
	{
		Name: "member", Coordinators: 1, Members: 3, Shards: 4, Tick: 300 * time.Millisecond, Faulty: 90 * time.Second,
		Lose: 0.15, Repeat: 0.2, Middle: 0.2, Late: 0.03, Cut: 0.03, Crash: 0.03, Leave: 0.03, Pause: 0.06, SlowDrain: 0.1, Drift: 0.04,
	},
	// Several coordinators that pause between any two steps.
	{
		Name: "multi", Coordinators: 3, Members: 3, Shards: 4, Tick: 300 * time.Millisecond, Faulty: 90 * time.Second,
		Lose: 0.08, Repeat: 0.2, Middle: 0.2, Late: 0.02, Cut: 0.02, Crash: 0.04, Leave: 0.05, Pause: 0.03, Drift: 0.04,
		CoordPause: 0.025, CoordCrash: 0.02, LostReply: 0.03, Away: 0.01, MaxWait: 2 * time.Second,
	},
	// Two processes under one name.
	{
		Name: "twins", Coordinators: 2, Members: 3, Shards: 4, Tick: 300 * time.Millisecond, Faulty: 80 * time.Second,
		Lose: 0.1, Repeat: 0.2, Middle: 0.2, Late: 0.02, Crash: 0.08, Leave: 0.03, Pause: 0.05, Twin: 0.08, Drift: 0.04,
		CoordPause: 0.01, CoordCrash: 0.01,
	},
	// Clients of the existing implementation among ours.
	{
		Name: "legacy", Coordinators: 2, Members: 4, Shards: 4, Tick: 300 * time.Millisecond, Faulty: 80 * time.Second,
		Lose: 0.08, Repeat: 0.1, Middle: 0.1, Crash: 0.04, Leave: 0.04, Legacy: 0.6, CoordCrash: 0.01,
	},
	// Held heartbeats under many changes.
	{
		Name: "wait", Coordinators: 2, Members: 5, Shards: 6, Tick: 300 * time.Millisecond, Faulty: 60 * time.Second,
		Lose: 0.1, Repeat: 0.2, Middle: 0.3, Late: 0.02, Crash: 0.05, Leave: 0.08, Pause: 0.02, Drift: 0.04,
		CoordPause: 0.02, CoordCrash: 0.02, LostReply: 0.03, MaxWait: 5 * time.Second,
	},
	// A store that fails over and loses its last writes, now and then.
	{
		Name: "failover", Coordinators: 2, Members: 3, Shards: 4, Tick: 300 * time.Millisecond, Faulty: 90 * time.Second,
		Lose: 0.08, Repeat: 0.2, Middle: 0.2, Late: 0.01, Crash: 0.03, Leave: 0.04, Pause: 0.03, Drift: 0.04,
		CoordPause: 0.01, CoordCrash: 0.01, Failover: 0.06, LostReply: 0.02,
	},
	// The same under many changes.
	{
		Name: "failchurn", Coordinators: 1, Members: 4, Shards: 3, Tick: 300 * time.Millisecond, Faulty: 90 * time.Second,
		Lose: 0.12, Repeat: 0.33, Middle: 0.3, Crash: 0.04, Leave: 0.15, Drift: 0.04, Failover: 0.08, MaxWait: 2 * time.Second,
	},
	// Stamps alone get lost, with or without another instance.
	{
		Name: "liveloss", Coordinators: 2, Members: 3, Shards: 4, Tick: 300 * time.Millisecond, Faulty: 90 * time.Second,
		Lose: 0.1, Repeat: 0.2, Middle: 0.2, Crash: 0.05, Pause: 0.04, Drift: 0.04, Away: 0.03, LoseStamps: 0.05, Failover: 0.02,
	},
	// The lease time is lowered and raised, and members are drained, while others come
	// and go.
	{
		Name: "retime", Coordinators: 2, Members: 3, Shards: 4, Tick: 300 * time.Millisecond, Faulty: 90 * time.Second,
		Lose: 0.2, Repeat: 0.1, Middle: 0.3, Cut: 0.06, Crash: 0.05, Leave: 0.04, Pause: 0.06, Drift: 0.03,
		CoordCrash: 0.01, Retime: 0.2, Drain: 0.2,
	},
	// The group is deleted under its members and created again.
	{
		Name: "recreate", Coordinators: 2, Members: 3, Shards: 4, Tick: 300 * time.Millisecond, Faulty: 90 * time.Second,
		Lose: 0.1, Repeat: 0.2, Middle: 0.2, Late: 0.01, Cut: 0.03, Crash: 0.04, Leave: 0.04, Pause: 0.03, Drift: 0.04,
		CoordPause: 0.02, CoordCrash: 0.01, LostReply: 0.02, Recreate: 0.06,
	},
	// The shard count changes under traffic, and nothing else goes wrong for long.
	{
		Name: "reshard", Coordinators: 2, Groups: 2, Members: 2, Shards: 4, Tick: 500 * time.Millisecond, Faulty: 70 * time.Second,
		Lose: 0.05, Repeat: 0.1, Middle: 0.1, Late: 0.01, Crash: 0.02, Pause: 0.02, Drift: 0.04, CoordPause: 0.02, CoordCrash: 0.02, LostReply: 0.02, Failover: 0.02,
		Producers: 2, RoutingLease: 12 * time.Second, LateWrite: 0.02, Deaf: 0.03,
		Scale: 0.1, Rollback: 0.05, Strangers: 0.02, Ignore: 0.1, Delete: 0.05, Rewind: 0.02, Destroy: 0.02,
	},
	// The same with coordinators that pause all the time, one group.
	{
		Name: "reshardslow", Coordinators: 3, Members: 2, Shards: 3, Tick: 500 * time.Millisecond, Faulty: 90 * time.Second,
		Lose: 0.05, Middle: 0.1, Late: 0.01, Crash: 0.01, Drift: 0.04, CoordPause: 0.06, CoordCrash: 0.02, LostReply: 0.03,
		Producers: 2, RoutingLease: 3 * time.Second, LateWrite: 0.03, Deaf: 0.03,
		Scale: 0.15, Rollback: 0.1, GiveUp: 0.01, Ignore: 0.1, Rewind: 0.03,
	},
	// And with a store that fails over all the time, and loses the last writes of the
	// stream's record and of the groups', each for itself.
	{
		Name: "lostwrites", Coordinators: 2, Groups: 2, Members: 2, Shards: 4, Tick: 500 * time.Millisecond, Faulty: 70 * time.Second,
		Lose: 0.02, Middle: 0.05, Crash: 0.01, Drift: 0.04, CoordPause: 0.02, CoordCrash: 0.02, LostReply: 0.02, Failover: 0.15,
		Producers: 2, RoutingLease: 3 * time.Second, LateWrite: 0.1, Deaf: 0.1,
		Scale: 0.2, Rollback: 0.1, Rewind: 0.1, Destroy: 0.02,
	},
	// And with groups that are deleted and created meanwhile.
	{
		Name: "regroup", Coordinators: 2, Groups: 3, Members: 1, Shards: 3, Tick: 500 * time.Millisecond, Faulty: 70 * time.Second,
		Lose: 0.05, Middle: 0.1, Late: 0.01, Crash: 0.02, Leave: 0.02, Drift: 0.04, CoordPause: 0.03, CoordCrash: 0.02, LostReply: 0.02,
		Producers: 2, RoutingLease: 4 * time.Second, LateWrite: 0.03, Deaf: 0.03,
		Scale: 0.1, Rollback: 0.05, Regroup: 0.08, GiveUp: 0.01, Ignore: 0.1, Strangers: 0.02, Delete: 0.03,
	},
	// Nothing but a bad network: here no member may ever be fenced.
	{
		Name: "healthy", Coordinators: 3, Members: 4, Shards: 6, Tick: 300 * time.Millisecond, Faulty: 90 * time.Second,
		Lose: 0.3, Repeat: 0.33, Middle: 0.3, MaxWait: 1500 * time.Millisecond,
	},
}

// drawn returns the shape of a seed: each kind of fault is off in half of the
// seeds, and the rates of the others differ by up to five times.
func (s Shape) drawn(rng *rand.Rand) Shape {
	if s.RoutingLease == 0 {
		s.RoutingLease = time.Minute
	}
	if s.Timings == (protocol.Timings{}) {
		s.Timings = simTimings
	}
	if s.Settle == 0 {
		// A member that drains too slowly is fenced after the timeout, and what
		// else it held waits for its lease.
		s.Settle = 2*s.Timings.RebalanceTimeout + 4*s.Timings.Lease
	}
	for _, rate := range []*float64{
		&s.Lose, &s.Repeat, &s.Middle, &s.Late, &s.Cut, &s.Crash, &s.Leave, &s.Pause, &s.Twin, &s.SlowDrain,
		&s.CoordPause, &s.CoordCrash, &s.LostReply, &s.Away, &s.Failover, &s.LoseStamps, &s.Retime, &s.Recreate,
	} {
		s.scaled(rng, rate)
	}
	if s.Drain > 0 {
		s.scaled(rng, &s.Drain)
	}
	if s.Producers > 0 {
		for _, rate := range []*float64{
			&s.LateWrite, &s.Deaf, &s.Rollback, &s.Regroup, &s.GiveUp, &s.Ignore, &s.Strangers, &s.Rewind, &s.Delete, &s.Destroy,
		} {
			s.scaled(rng, rate)
		}
		s.FromLatest = rng.IntN(4) == 0
	}
	return s
}

// scaled switches a rate off, or makes it another.
func (s *Shape) scaled(rng *rand.Rand, rate *float64) {
	scale := 0.2 + rng.Float64()*rng.Float64()*4.8
	if rng.IntN(2) == 0 {
		scale = 0
	}
	*rate = min(0.5, *rate*scale)
}

// start is where new groups begin.
func (s *Shape) start() protocol.GroupStart {
	if s.FromLatest {
		return protocol.StartLatest
	}
	return protocol.StartEarliest
}
