package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/member"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// client is a process that reads shards.
type client interface {
	// name is the process's, member that of the member which it is.
	name() string
	member() string
	// group is that of the member.
	group() string
	// running is true until it crashes or begins to leave, gone once nothing of
	// it is left.
	running() bool
	gone() bool
	crash()
	leave()
	pause(until time.Duration)
	paused() bool
	// reads are the shards that it may be reading at this moment.
	reads() []protocol.ShardIndex
	// inFlight are the shards that it has unfinished work of, and is entitled
	// to finish, although it reads them no more.
	inFlight() []protocol.ShardIndex
}

// process is a client that drives the real member state machine, as the
// consumer module does.
type process struct {
	w         *world
	groupName string
	id        string
	proc      string
	state     member.State
	born      time.Duration
	rate      float64
	// skew is how far its wall clock is off.
	skew        time.Duration
	up          bool
	leaving     bool
	pausedUntil time.Duration
	lastPause   time.Duration
	lastSlow    time.Duration
	inbox       []func()
	wake        int
	reading     map[protocol.ShardIndex]protocol.Epoch
	working     map[protocol.ShardIndex]work
	// swept is when what is pending was last claimed, by tenure.
	swept map[tenure]time.Duration
	// heard is when it took its last answers, the oldest first.
	heard [exchanges]time.Duration
}

// exchanges are how many answers a member must have taken to be sure to have
// acknowledged a revocation: one may have been on its way before it, one tells
// of it, one answers the request that was sent before the work was done, and
// one the request that says so.
const exchanges = 4

// unheard: a process is no longer called healthy because the timeout passed
// while its messages were lost.
const unheard = "unheard"

// work is what is in flight of a shard that was taken away.
type work struct {
	token protocol.Epoch
	since time.Duration
	// slow is true when the handler outlives the rebalance timeout.
	slow bool
	lost bool
}

func newProcess(w *world, group, id, proc string) *process {
	p := &process{
		w: w, groupName: group, id: id, proc: proc, born: w.now, rate: w.clockRate(), skew: w.between(-time.Hour, time.Hour), up: true,
		lastPause: -time.Hour, lastSlow: -time.Hour,
		reading: map[protocol.ShardIndex]protocol.Epoch{}, working: map[protocol.ShardIndex]work{},
	}
	s, err := member.New(member.Config{MemberID: id, MaxConcurrency: 1, MaxWait: w.shape.MaxWait, Timings: w.shape.Timings})
	if err != nil {
		w.violate("a member cannot be made: %v", err)
		return p
	}
	p.state = s
	w.logf("%s starts", proc)
	p.apply(member.Tick{})
	if w.streams != nil {
		p.swept = map[tenure]time.Duration{}
		w.after(w.between(0, readEvery), p.poll)
	}
	return p
}

func (p *process) name() string   { return p.proc }
func (p *process) member() string { return p.id }
func (p *process) group() string  { return p.groupName }
func (p *process) running() bool  { return p.up && !p.leaving }
func (p *process) gone() bool     { return !p.up }

func (p *process) paused() bool { return p.w.now < p.pausedUntil }

func (p *process) crash() {
	p.up = false
	p.w.watch.over(p.w, p.id, p.proc)
	clear(p.reading)
	clear(p.working)
}

func (p *process) leave() {
	p.leaving = true
	p.do(func() { p.apply(member.Leave{Within: p.w.shape.Timings.RebalanceTimeout}) })
}

func (p *process) pause(until time.Duration) {
	p.pausedUntil = until
	p.lastPause = until
	if until <= p.w.now {
		p.goOn()
		return
	}
	p.w.after(until-p.w.now, p.goOn)
}

// goOn continues after a pause: what came meanwhile is handled now.
func (p *process) goOn() {
	if !p.up || p.w.now < p.pausedUntil {
		return
	}
	p.apply(member.Tick{})
	inbox := p.inbox
	p.inbox = nil
	for _, do := range inbox {
		p.do(do)
	}
}

// do runs something in the process, after its pause.
func (p *process) do(what func()) {
	switch {
	case !p.up:
	case p.w.now < p.pausedUntil:
		p.inbox = append(p.inbox, what)
	default:
		what()
	}
}

func (p *process) mono() time.Duration { return time.Duration(float64(p.w.now-p.born) * p.rate) }

func (p *process) wall() time.Time { return wallStart.Add(p.skew + p.w.now) }

// real converts a time on the process's clock.
func (p *process) real(mono time.Duration) time.Duration {
	return p.born + time.Duration(float64(mono)/p.rate) + 1
}

func (p *process) apply(cmd member.Command) {
	before, _, leased := p.state.Lease()
	next, r, events, err := member.Apply(p.state, member.Input{Mono: p.mono(), Wall: p.wall(), ID: p.w.id("r"), Rules: p.w.rules}, cmd)
	if err != nil {
		p.w.violate("%s: %v", p.proc, err)
		return
	}
	p.state = next
	if _, answer := cmd.(member.Answer); answer {
		if until, _, _ := next.Lease(); until != before {
			p.heard = [exchanges]time.Duration(append(p.heard[1:], p.w.now))
		}
	}
	for _, e := range events {
		p.event(e, leased)
	}
	if r.Done {
		p.w.logf("%s has left", p.proc)
		p.crash()
		return
	}
	if r.Send != nil {
		p.send(r.Send)
	}
	p.wake++
	wake := p.wake
	p.w.after(p.real(r.WakeAt)-p.w.now, func() {
		if p.wake == wake {
			p.do(func() { p.apply(member.Tick{}) })
		}
	})
}

// send passes a request to any coordinator, as a balancer in front of them
// would.
func (p *process) send(q *protocol.Heartbeat) {
	c := p.w.coords[p.w.rng.IntN(len(p.w.coords))]
	p.w.counts.Heartbeats++
	if q.StoppedIncarnation != "" {
		p.w.watch.rejoins[q.Incarnation] = true
	}
	p.w.transmit(p.proc, c.name, func() {
		c.receive(p.groupName, q, func(r protocol.HeartbeatResponse) {
			p.w.transmit(c.name, p.proc, func() {
				p.do(func() { p.apply(member.Answer{Response: &r}) })
			})
		})
	})
}

func (p *process) event(e member.Event, leased bool) {
	switch e := e.(type) {
	case member.Assigned:
		p.w.logf("%s reads shard %d (%d)", p.proc, e.Shard, e.Token)
		p.reading[e.Shard] = e.Token
		p.w.watch.group(p.groupName).started(p.w, p.proc, e.Shard, e.Token)
	case member.Revoked:
		p.w.logf("%s lets go of shard %d (%d)", p.proc, e.Shard, e.Token)
		p.letGo(e.Shard, e.Token, false)
	case member.Lost:
		p.w.logf("%s has lost shard %d (%d)", p.proc, e.Shard, e.Token)
		p.letGo(e.Shard, e.Token, true)
	case member.Fenced:
		p.w.logf("%s/%s is fenced: %s %s", p.proc, e.Incarnation, e.Status, e.Reason)
		p.w.counts.Fences++
		p.w.watch.fenced(p.w, p, leased, e)
	case member.LeaseEnded:
		p.w.logf("%s/%s: the lease ended", p.proc, e.Incarnation)
		p.w.counts.LeasesEnded++
	case member.Joined:
		p.w.logf("%s/%s has joined in %d", p.proc, e.Incarnation, e.Epoch)
	}
}

// letGo stops reading at once and finishes the work in hand.
func (p *process) letGo(shard protocol.ShardIndex, token protocol.Epoch, lost bool) {
	delete(p.reading, shard)
	if before, draining := p.working[shard]; draining && before.token == token {
		// Its release is on its way.
		before.lost = before.lost || lost
		p.working[shard] = before
		return
	}
	work := work{token: token, since: p.w.now, lost: lost}
	drain := p.w.between(0, 300*time.Millisecond)
	if p.w.chance(p.w.shape.SlowDrain) {
		work.slow = true
		drain = p.w.between(p.w.shape.Timings.RebalanceTimeout/2, 2*p.w.shape.Timings.RebalanceTimeout)
		p.w.logf("%s drains shard %d for %s", p.proc, shard, drain.Truncate(time.Millisecond))
	}
	p.working[shard] = work
	p.w.after(drain, func() {
		p.do(func() {
			if work.slow {
				p.lastSlow = p.w.now
			}
			if p.working[shard].token == token {
				delete(p.working, shard)
			}
			p.apply(member.Released{Shard: shard, Token: token})
		})
	})
}

// leaseOver reports whether the lease is over by either of its own clocks.
func (p *process) leaseOver() bool {
	mono, wall, held := p.state.Lease()
	return !held || p.mono() >= mono || !p.wall().Before(wall)
}

func (p *process) reads() []protocol.ShardIndex {
	if !p.up || (p.w.now < p.pausedUntil && p.leaseOver()) {
		// A process that stands still reads nothing, and the first thing that
		// it does afterwards is to look at its lease.
		return nil
	}
	return sorted(p.reading)
}

func (p *process) inFlight() []protocol.ShardIndex {
	if !p.up || p.leaseOver() {
		return nil
	}
	var out []protocol.ShardIndex
	for _, shard := range sorted(p.working) {
		if w := p.working[shard]; !w.slow && !w.lost {
			out = append(out, shard)
		}
	}
	return out
}

// healthy reports whether nothing has happened that could be a reason to fence
// the process: it has a valid lease, its name to itself, and was not paused.
func (p *process) healthy() (bool, string) {
	patience := 5 * p.w.shape.Timings.Lease
	timedOut, overdue := p.w.watch.overdue[p.id]
	switch {
	case p.w.now < p.lastPause+patience:
		return false, "paused"
	case p.w.now < p.w.watch.failedOver+patience && p.w.watch.failedOver > 0:
		return false, "failover"
	case overdue && p.heard[0] < timedOut-p.w.shape.Timings.RebalanceTimeout:
		// The rebalance timeout fences whoever says nothing for its whole
		// length, however valid its lease is: too few of its messages came
		// through to say anything.
		return false, unheard
	case p.w.now < p.lastSlow+patience, slices.ContainsFunc(sortedWork(p.working), func(w work) bool { return w.slow }):
		return false, "slow"
	}
	if w := p.w.watch.others[p.id]; w.proc != p.proc && p.w.now < w.at+patience {
		// A join of a process that died may still be on its way: it cannot be
		// told from one that has just started.
		return false, "namesake"
	}
	for _, other := range p.w.clients {
		if other.member() == p.id && other.name() != p.proc && !other.gone() {
			return false, "twin"
		}
	}
	return true, ""
}

func sorted[V any](m map[protocol.ShardIndex]V) []protocol.ShardIndex {
	out := make([]protocol.ShardIndex, 0, len(m))
	for shard := range m {
		out = append(out, shard)
	}
	slices.Sort(out)
	return out
}

func sortedWork(m map[protocol.ShardIndex]work) []work {
	out := make([]work, 0, len(m))
	for _, shard := range sorted(m) {
		out = append(out, m[shard])
	}
	return out
}

func (p *process) String() string { return fmt.Sprintf("%s(%s)", p.proc, p.id) }
