package sim

import (
	"fmt"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/member"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// watch knows what must never happen, and what was seen so far.
type watch struct {
	violation string
	groups    map[string]*groupWatch
	// failedOver is when the store last went backwards.
	failedOver time.Duration
	readers    map[readable]string
	// rejoins are the incarnations that joined in place of an earlier one.
	rejoins map[string]bool
	// others are the last processes of each member that ended.
	others map[string]ending
	// overdue is when a member last lost shards to the rebalance timeout.
	overdue map[string]time.Duration
}

// readable is what one process at a time may read.
type readable struct {
	group string
	shard protocol.ShardIndex
}

// groupWatch is what was seen of one group.
type groupWatch struct {
	// granted are the grants that were ever saved.
	granted map[grant]bool
	// tokens are the highest tokens of the shards, counter and version the
	// highest numbers that were ever saved.
	tokens  map[int]protocol.Epoch
	counter protocol.Epoch
	group   protocol.Epoch
	version int64
	last    *group.State
	// used are the highest tokens under which shards were read.
	used map[protocol.ShardIndex]protocol.Epoch
}

func (x *watch) group(name string) *groupWatch {
	g, there := x.groups[name]
	if !there {
		g = &groupWatch{granted: map[grant]bool{}, tokens: map[int]protocol.Epoch{}, used: map[protocol.ShardIndex]protocol.Epoch{}}
		x.groups[name] = g
	}
	return g
}

type ending struct {
	proc string
	at   time.Duration
}

// over notes that a process of a member has ended.
func (x *watch) over(w *world, member, proc string) {
	if x.others == nil {
		x.others = map[string]ending{}
	}
	x.others[member] = ending{proc, w.now}
}

// late notes that a member lost shards to the rebalance timeout.
func (x *watch) late(member string, at time.Duration) {
	if x.overdue == nil {
		x.overdue = map[string]time.Duration{}
	}
	x.overdue[member] = at
}

type grant struct {
	member string
	shard  protocol.ShardIndex
	epoch  protocol.Epoch
}

func (w *world) violate(format string, args ...any) {
	if w.watch.violation == "" {
		w.watch.violation = fmt.Sprintf(format, args...)
		w.logf("VIOLATION: %s", w.watch.violation)
	}
}

// committed looks at every state that is saved.
func (x *groupWatch) committed(w *world, s *group.State) {
	if err := s.Check(); err != nil {
		w.violate("saved: %v", err)
	}
	if s.Counter < x.counter || s.GroupEpoch < x.group || s.MetadataVersion < x.version {
		w.violate("saved: the counter goes from %d to %d, the group epoch from %d to %d, the version from %d to %d",
			x.counter, s.Counter, x.group, s.GroupEpoch, x.version, s.MetadataVersion)
	}
	x.counter, x.group, x.version = s.Counter, s.GroupEpoch, s.MetadataVersion
	for shard, h := range s.Ledger.Holder {
		if h == group.None {
			continue
		}
		g := grant{s.Lives[h].Member, protocol.ShardIndex(shard), s.Ledger.Grant[shard]}
		if x.granted[g] {
			continue
		}
		x.granted[g] = true
		if g.epoch <= x.tokens[shard] {
			w.violate("shard %d is granted to %s in epoch %d, after epoch %d", shard, g.member, g.epoch, x.tokens[shard])
		}
		x.tokens[shard] = g.epoch
	}
	x.balanced(w, s)
	x.last = s
}

// balanced checks every target that is computed.
func (x *groupWatch) balanced(w *world, s *group.State) {
	if x.last != nil && x.last.GroupEpoch == s.GroupEpoch {
		return
	}
	load := map[int32]int{}
	members := 0
	for i := range s.Lives {
		if l := &s.Lives[i]; l.State == group.Active && !l.Draining {
			load[int32(i)] = 0
			members++
		}
	}
	for _, t := range s.Target {
		if t != group.None {
			load[t]++
		}
	}
	if members == 0 {
		return
	}
	low, high := len(s.Target), 0
	for _, n := range load {
		low, high = min(low, n), max(high, n)
	}
	if high-low > 1 {
		w.violate("a target gives one member %d shards and another %d", low, high)
	}
}

// answered looks at every answer: what it carries must have been saved before.
func (x *watch) answered(w *world, group, coordinator string, r *protocol.HeartbeatResponse) {
	w.counts.answered(r.Status)
	for _, a := range r.Assignment.AssignedShards {
		if !x.group(group).granted[grant{r.MemberID, a.Shard, a.Epoch}] {
			w.violate("%s answers %s with shard %d in epoch %d, which no save gave it", coordinator, r.MemberID, a.Shard, a.Epoch)
		}
	}
}

// started looks at every shard that a process begins to read: its token must be
// above all under which the shard was ever read.
func (x *groupWatch) started(w *world, proc string, shard protocol.ShardIndex, token protocol.Epoch) {
	if token <= x.used[shard] {
		w.violate("%s reads shard %d under token %d, after %d", proc, shard, token, x.used[shard])
	}
	x.used[shard] = max(x.used[shard], token)
}

// fenced looks at every member that is told that it is over.
func (x *watch) fenced(w *world, p *process, leased bool, e member.Fenced) {
	if !leased {
		return
	}
	switch healthy, why := p.healthy(); {
	case why == unheard:
		w.counts.Unheard++
	case healthy:
		w.violate("%s/%s is fenced although it is healthy: %s %s", p.proc, e.Incarnation, e.Status, e.Reason)
	}
}

// check looks at all processes after every step.
func (w *world) check() {
	if w.watch.readers == nil {
		w.watch.readers = map[readable]string{}
	}
	clear(w.watch.readers)
	for _, p := range w.clients {
		for _, shard := range p.reads() {
			what := readable{p.group(), shard}
			if other, taken := w.watch.readers[what]; taken {
				w.violate("two readers: %s and %s read shard %d", other, p.name(), shard)
				return
			}
			w.watch.readers[what] = p.name()
		}
	}
	for _, p := range w.clients {
		for _, shard := range p.inFlight() {
			if other, taken := w.watch.readers[readable{p.group(), shard}]; taken && other != p.name() {
				w.violate("in flight: %s reads shard %d while %s still has work of it", other, shard, p.name())
				return
			}
		}
	}
}

// final checks what must have come to be once the faults are long over.
func (w *world) final() {
	for _, group := range w.groups {
		w.finalGroup(group)
	}
	w.finalStreams()
}

func (w *world) finalGroup(group string) {
	load := map[string]int{}
	for _, p := range w.clients {
		if p.group() == group && p.running() {
			load[p.name()] = len(p.reads())
		}
	}
	if len(load) == 0 {
		return
	}
	if len(load) != w.shape.Members {
		w.violate("not settled: %d members run, %d should", len(load), w.shape.Members)
	}
	shards := w.shardsToRead()
	low, high, total := shards, 0, 0
	for _, n := range load {
		low, high, total = min(low, n), max(high, n), total+n
	}
	if total != shards || high-low > 1 {
		w.violate("not settled: %d of %d shards are read, between %d and %d by one member", total, shards, low, high)
	}
	if s := w.watch.group(group).last; s == nil || s.Summary() != protocol.GroupStable {
		w.violate("not settled: the group is at %+v", s)
	}
}
