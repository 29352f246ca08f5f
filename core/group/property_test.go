package group

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

var seedFlag = flag.Uint64("seed", 0, "run the random schedules with this seed alone")

// The schedules: so many seeds, each with so many random steps.
const (
	schedules     = 100
	scheduleSteps = 250
)

// TestRandomSchedules lets members of every kind beat, stop, crash, restart and
// leave in random order, over a network that loses, repeats, delays and reorders,
// and looks after every step at what must always hold. Then the faults end, and
// the group has to settle as fast as the design says.
func TestRandomSchedules(t *testing.T) {
	first, last := uint64(1), uint64(schedules)
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	seen := map[string]int{}
	for seed := first; seed <= last; seed++ {
		if complaint := play(seed, 0, seen); complaint != "" {
			t.Fatal(complaint)
		}
	}
	// A schedule in which nothing happens proves nothing.
	for _, what := range []string{
		"answer lost", "duplicate", "joined", "left", "expired", "fenced by timeout", "replaced", "stopped", "rejoin waits",
		"handed over", "batch", "old client joined", "old client left", "converged", "late request", "steady", "correction", "drained", "removed, and held",
	} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("no schedule has seen this happen: %s", what)
		}
	}
}

// TestSchedulesNoticeARuleThatIsMissing shows that the schedules would notice.
func TestSchedulesNoticeARuleThatIsMissing(t *testing.T) {
	for name, rule := range map[string]rules.Rule{
		"UnreportedIsHeld": rules.UnreportedIsHeld, "OmissionNeedsRevokeEpoch": rules.OmissionNeedsRevokeEpoch,
		"NewEpochPerChange": rules.NewEpochPerChange, "OlderEpochIsValid": rules.OlderEpochIsValid,
		"RestartHoldsOldGrants": rules.RestartHoldsOldGrants, "RejoinNeverDisplaces": rules.RejoinNeverDisplaces,
		"EndedStaysEnded": rules.EndedStaysEnded, "LeavingHolds": rules.LeavingHolds,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := uint64(1); seed <= 10*schedules; seed++ {
				if play(seed, rules.Without(rule), map[string]int{}) != "" {
					return
				}
			}
			t.Errorf("%d schedules do not notice that the rule is missing", 10*schedules)
		})
	}
}

// play runs one schedule and returns what does not hold, empty if all does.
func play(seed uint64, off rules.Set, seen map[string]int) (complaint string) {
	p := newSchedule(seed, off, seen)
	defer func() {
		if r := recover(); r != nil {
			failed, ours := r.(failure)
			if !ours {
				panic(r)
			}
			complaint = string(failed)
		}
	}()
	for range scheduleSteps {
		p.step()
	}
	p.settle()
	return ""
}

// failure ends a schedule.
type failure string

// schedule is one group and the processes around it.
type schedule struct {
	rng  *rand.Rand
	seed uint64
	off  rules.Set
	log  []string
	seen map[string]int

	state   State
	changes int
	procs   []*process
	net     []*letter
	ids     int

	// tokens are the highest fencing token of each shard and the life that had it.
	tokens []grantOf
	// given maps each member epoch to the life that it was given to.
	given map[protocol.Epoch]string
}

type grantOf struct {
	life  string
	token protocol.Epoch
}

// letter is a request under way to the coordinator.
type letter struct {
	from   *process
	q      *protocol.Heartbeat
	copies int
}

func newSchedule(seed uint64, off rules.Set, seen map[string]int) *schedule {
	p := &schedule{rng: rand.New(rand.NewPCG(seed, 0)), seed: seed, off: off, seen: seen, given: map[protocol.Epoch]string{}}
	shards := p.rng.IntN(9)
	p.state = New("orders", "billing", shards, 1, protocol.DefaultTimings(), dawn)
	p.tokens = make([]grantOf, 16) // as many as there will ever be
	return p
}

func (p *schedule) id() string {
	p.ids++
	return fmt.Sprint(p.ids)
}

func (p *schedule) note(format string, args ...any) {
	p.log = append(p.log, fmt.Sprintf(format, args...))
}

func (p *schedule) fail(format string, args ...any) {
	panic(failure(fmt.Sprintf("seed %d: %s\nthe last steps:\n%s\n(replay with -seed=%d)",
		p.seed, fmt.Sprintf(format, args...), strings.Join(p.log[max(0, len(p.log)-60):], "\n"), p.seed)))
}

func (p *schedule) chance(oneIn int) bool { return p.rng.IntN(oneIn) == 0 }

// step does one random thing.
func (p *schedule) step() {
	switch n := p.rng.IntN(100); {
	case n < 8:
		p.start()
	case n < 45:
		if c := p.anyProcess(); c != nil {
			p.send(c)
		}
	case n < 80:
		p.deliver()
	case n < 84:
		if c := p.anyProcess(); c != nil {
			c.drainOne(p.rng)
		}
	case n < 88:
		if c := p.anyProcess(); c != nil {
			c.stop(p.chance(2))
		}
	case n < 90:
		if c := p.anyProcess(); c != nil && c.phase != gone {
			p.note("%s crashes", c)
			c.crash()
		}
	case n < 92:
		// Only a client that knows incarnations ends its lease by itself, and only
		// once it was given one.
		if c := p.anyProcess(); c != nil && !c.legacy && c.phase == working && c.epoch != protocol.EpochJoin {
			p.note("the lease of %s ends", c)
			c.begin(p.id())
		}
	case n < 97:
		p.apply(Tick{}, p.expired(), nil)
	case n < 98:
		p.apply(Tick{}, nil, p.overdue())
	case n < 99 && p.chance(2):
		p.drain()
	case n < 99:
		p.reshape()
	case p.chance(2):
		// Somebody thinks that the store went backwards. Nothing is lost here, so
		// nobody may be the worse for it.
		p.seen["correction"]++
		p.note("a correction is opened")
		p.apply(Correct{Seen: p.state.Counter + protocol.Epoch(p.rng.IntN(9)), SeenVersion: p.state.MetadataVersion, Reason: "chance"}, nil, nil)
	}
}

// drain takes a member out of work, or puts it back.
func (p *schedule) drain() {
	c := p.anyProcess()
	if c == nil {
		return
	}
	cmd := Drain{Member: c.member, Undo: p.chance(2)}
	p.note("drain %s, undo %v", cmd.Member, cmd.Undo)
	was := p.state.GroupEpoch
	p.apply(cmd, nil, nil)
	if !cmd.Undo && p.state.GroupEpoch != was {
		p.seen["drained"]++
	}
}

// reshape changes which shards are read; now and then by an old record, which counts
// for nothing.
func (p *schedule) reshape() {
	cmd := Adopt{ShardCount: p.rng.IntN(9), StreamVersion: p.state.StreamVersion + int64(p.rng.IntN(3))}
	cmd.ReadCount = cmd.ShardCount + p.rng.IntN(4)
	for shard := cmd.ShardCount; shard < cmd.ReadCount; shard++ {
		if p.chance(2) {
			cmd.Closed = cmd.Closed.With(shard)
		}
	}
	p.note("other shards are read: %+v", cmd)
	before := p.state
	p.apply(cmd, nil, nil)
	if cmd.StreamVersion == before.StreamVersion && p.state.ReadCount != before.ReadCount {
		p.fail("a record that is not newer changes %d shards into %d", before.ReadCount, p.state.ReadCount)
	}
	if len(p.state.Target) > p.state.ReadCount {
		p.seen["removed, and held"]++
	}
}

func (p *schedule) anyProcess() *process {
	if len(p.procs) == 0 {
		return nil
	}
	return p.procs[p.rng.IntN(len(p.procs))]
}

// start begins a process under one of a few names: a new one, or a second one
// under a name that is in use. Old clients do not tell such twins apart, so they
// get names of their own, and a restart waits for the crash.
func (p *schedule) start() {
	name := string(rune('a' + p.rng.IntN(4)))
	legacy := p.chance(3)
	if legacy {
		name = strings.ToUpper(name)
		if slices.ContainsFunc(p.procs, func(c *process) bool { return c.member == name && c.phase != gone }) {
			return
		}
	}
	c := &process{member: name, legacy: legacy, python: legacy && p.chance(2), number: len(p.procs)}
	c.begin(p.id())
	p.procs = append(p.procs, c)
	p.note("%s starts", c)
}

// send puts the next request of a process under way; what was outstanding is
// given up.
func (p *schedule) send(c *process) {
	q := c.next(p.id())
	if q == nil {
		return
	}
	copies := 1
	// An old client's join that comes twice, the second time after it has been
	// acknowledged, cannot be told from a restart.
	if p.chance(4) && !(c.legacy && q.MemberEpoch == protocol.EpochJoin) {
		copies += 1 + p.rng.IntN(2)
		p.seen["duplicate"]++
	}
	p.net = append(p.net, &letter{c, q, copies})
}

// deliver lets one to four requests arrive in any order, sometimes together with
// a tick; their answers arrive at once or never.
func (p *schedule) deliver() {
	var letters []*letter
	for range 1 + p.rng.IntN(4)*p.rng.IntN(2) {
		if len(p.net) == 0 {
			break
		}
		i := p.rng.IntN(len(p.net))
		l := p.net[i]
		l.copies--
		if l.copies == 0 {
			p.net = slices.Delete(p.net, i, i+1)
		}
		if p.chance(10) {
			p.note("request %s of %s is lost", l.q.RequestID, l.from)
			continue
		}
		if l.q.RequestID != l.from.outstanding {
			p.seen["late request"]++
			if l.from.legacy && l.q.MemberEpoch <= protocol.EpochJoin {
				// A late join or leave of an old client speaks for whoever has its
				// name then: that is what they are promised best effort for.
				continue
			}
		}
		letters = append(letters, l)
	}
	if len(letters) == 0 {
		return
	}
	if len(letters) > 1 {
		p.seen["batch"]++
	}
	var batch Batch
	for _, l := range letters {
		batch = append(batch, Beat{l.q})
	}
	var expired map[string]bool
	var overdue map[string]protocol.Epoch
	if p.chance(4) {
		batch = append(batch, Tick{})
		expired, overdue = p.expired(), p.overdue()
	}
	cmd := Command(batch)
	if len(batch) == 1 {
		cmd = batch[0]
	}
	for i, a := range p.apply(cmd, expired, overdue) {
		if p.chance(4) {
			p.seen["answer lost"]++
			p.note("the answer %s is lost", a.ResponseTo)
			continue
		}
		p.receive(letters[i].from, letters[i].q, &a.HeartbeatResponse)
	}
}

func (p *schedule) receive(c *process, q *protocol.Heartbeat, r *protocol.HeartbeatResponse) {
	if c.outstanding != q.RequestID || c.phase == gone {
		return
	}
	if r.Status == protocol.StatusRetry {
		p.seen["rejoin waits"]++
	}
	if r.Status == protocol.StatusFencedEpoch && c.healthy {
		p.fail("%s is fenced although it did nothing wrong: %s", c, r.Reason)
	}
	c.take(r, p.id)
}

// expired is a verdict that a coordinator can come to: the lease of a life may be
// over once its process has stopped reading under it.
func (p *schedule) expired() map[string]bool {
	out := map[string]bool{}
	for i := range p.state.Lives {
		l := &p.state.Lives[i]
		if !p.mayRead(l) && p.chance(2) {
			out[l.Key()] = true
		}
	}
	return out
}

// mayRead reports whether a process may be reading, now or after the answer to a
// request that is under way, as this life.
func (p *schedule) mayRead(l *Life) bool {
	return slices.ContainsFunc(p.procs, func(c *process) bool {
		switch {
		case c.member != l.Member || c.phase == gone:
			return false
		case c.legacy && c.epoch == protocol.EpochJoin:
			return l.State == Active
		case c.legacy:
			return p.given[c.epoch] == l.Key()
		}
		return c.incarnation == l.Incarnation
	})
}

// overdue is a verdict on a life whose process has heard of the revocation (or
// has stopped) and still drains.
func (p *schedule) overdue() map[string]protocol.Epoch {
	out := map[string]protocol.Epoch{}
	for shard, r := range p.state.Ledger.Revoke {
		if r == 0 {
			continue
		}
		l := &p.state.Lives[p.state.Ledger.Holder[shard]]
		heard := true
		for s, h := range p.state.Ledger.Holder {
			if h != p.state.Ledger.Holder[shard] || p.state.Ledger.Revoke[s] == 0 || p.state.Ledger.Revoke[s] > r {
				continue
			}
			heard = heard && !p.reads(l, protocol.ShardIndex(s))
		}
		if heard && p.chance(3) {
			out[l.Key()] = max(out[l.Key()], r)
		}
	}
	return out
}

func (p *schedule) reads(l *Life, shard protocol.ShardIndex) bool {
	return slices.ContainsFunc(p.procs, func(c *process) bool {
		_, reads := c.owned[shard]
		return reads && c.member == l.Member && (c.legacy || c.incarnation == l.Incarnation)
	})
}

// apply carries a command out, and looks at everything that must hold.
func (p *schedule) apply(cmd Command, expired map[string]bool, overdue map[string]protocol.Epoch) []Answer {
	p.changes++
	before := p.state
	stable := before.Summary() == protocol.GroupStable
	in := Input{Now: dawn, ID: fmt.Sprint("change", p.changes), Expired: expired, Overdue: overdue, Rules: p.off}
	if k := before.Correction; k != nil && p.chance(2) {
		in.Corrected = k.Jump
	}
	if p.chance(2) {
		in.View = NewView(&before)
	}
	next, r, events, err := Apply(before, in, cmd)
	if err != nil {
		p.fail("%v", err)
	}
	p.describe(cmd, expired, overdue, r.Answers)
	p.count(events, overdue)
	p.checkGrowth(&before, &next)
	p.checkTarget(&next)
	p.checkMoves(stable, &before, cmd, events)
	p.checkAnswers(&next, r)
	p.checkSteady(&before, cmd, r)
	p.state = next
	if p.chance(5) {
		p.state = p.reread(&next)
	}
	p.checkReaders()
	return r.Answers
}

// reread takes a state through the store.
func (p *schedule) reread(s *State) State {
	body, err := Encode(s)
	if err != nil {
		p.fail("%v", err)
	}
	got, err := Decode(body)
	if err != nil {
		p.fail("%v", err)
	}
	return got
}

func (p *schedule) describe(cmd Command, expired map[string]bool, overdue map[string]protocol.Epoch, answers []Answer) {
	batch, several := cmd.(Batch)
	for i, a := range answers {
		q := cmd
		if several {
			q = batch[i]
		}
		b, _ := q.(Beat)
		p.note("%s/%s sends %s: epoch %d owned %v revoking %v stopped %q: %s %d %v %s", b.Request.MemberID, b.Request.Incarnation, b.Request.RequestID,
			b.Request.MemberEpoch, b.Request.OwnedShards, b.Request.RevokingShards, b.Request.StoppedIncarnation,
			a.Status, a.MemberEpoch, a.Assignment.AssignedShards, a.Reason)
	}
	if len(expired)+len(overdue) > 0 {
		p.note("tick: expired %v overdue %v", expired, overdue)
	}
}

// count notes what has happened, and which processes have no right to go on.
func (p *schedule) count(events []Event, overdue map[string]protocol.Epoch) {
	replaced := map[string]*process{}
	for _, e := range events {
		switch e := e.(type) {
		case MemberJoined:
			p.seen["joined"]++
			switch c := p.owner(e.Member, e.Incarnation); {
			case c.legacy:
				p.seen["old client joined"]++
			case e.Replaced && c == replaced[e.Member]:
				p.fail("%s is replaced by itself", c)
			case e.Replaced && c.incarnation == e.Incarnation && c.stopped != "":
				p.fail("%s, which was started earlier, takes the name of %s", c, replaced[e.Member])
			}
		case ShardReleased:
			if e.Cause == ByReport || e.Cause == ByOmission {
				p.seen["handed over"]++
			}
		case MemberEnded:
			p.seen[string(e.Reason)]++
			c := p.owner(e.Member, e.Incarnation)
			_, late := overdue[LifeKey(e.Member, e.Incarnation)]
			switch {
			case e.Reason == EndReplaced:
				replaced[e.Member] = c
				c.unfit(e.Incarnation)
			case e.Reason == EndFenced && late:
				p.seen["fenced by timeout"]++
				c.unfit(e.Incarnation)
			case e.Reason == EndLeft && c.legacy:
				p.seen["old client left"]++
			}
		}
	}
}

// owner finds the process that lives, or lived, as an incarnation.
func (p *schedule) owner(member, incarnation string) *process {
	for _, c := range slices.Backward(p.procs) {
		if c.member == member && (c.legacy || slices.Contains(c.lives, incarnation)) {
			return c
		}
	}
	p.fail("nobody ever lived as %s/%s", member, incarnation)
	return nil
}

// checkGrowth: epochs, versions and tokens never go back, and no two lives are
// given the same epoch.
func (p *schedule) checkGrowth(before, next *State) {
	if next.Counter < before.Counter || next.GroupEpoch < before.GroupEpoch || next.MetadataVersion < before.MetadataVersion ||
		(next.GroupEpoch != before.GroupEpoch) != (next.MetadataVersion != before.MetadataVersion) {
		p.fail("counter %d -> %d, group epoch %d -> %d, version %d -> %d",
			before.Counter, next.Counter, before.GroupEpoch, next.GroupEpoch, before.MetadataVersion, next.MetadataVersion)
	}
	for i := range next.Lives {
		l := &next.Lives[i]
		for _, e := range []protocol.Epoch{l.JoinEpoch, l.Epoch} {
			if owner, known := p.given[e]; known && owner != l.Key() {
				p.fail("epoch %d was given to %s and to %s", e, owner, l.Key())
			}
			p.given[e] = l.Key()
		}
	}
	for shard, h := range next.Ledger.Holder {
		if h == None {
			continue
		}
		now, last := grantOf{next.Lives[h].Key(), next.Ledger.Grant[shard]}, p.tokens[shard]
		if now != last && now.token <= last.token {
			p.fail("the token of shard %d goes from %+v to %+v", shard, last, now)
		}
		p.tokens[shard] = now
	}
}

// checkTarget: every shard has a live target, loads differ by at most one, and
// the ledger follows.
func (p *schedule) checkTarget(s *State) {
	loads := map[int32]int{}
	for i := range s.Lives {
		if s.Lives[i].State == Active && !s.Lives[i].Draining {
			loads[int32(i)] = 0
		}
	}
	if len(loads) == 0 {
		return
	}
	for shard, to := range s.Target {
		if s.closed(shard) {
			h := s.Ledger.Holder[shard]
			if to != None || h != None && s.Lives[h].State == Active && s.Ledger.Revoke[shard] == 0 {
				p.fail("shard %d is read no more and meant for %d, held by %d", shard, to, h)
			}
			continue
		}
		if _, live := loads[to]; !live {
			p.fail("shard %d is meant for nobody that lives", shard)
		}
		loads[to]++
		h := s.Ledger.Holder[shard]
		switch {
		case h == None && s.Correction == nil:
			p.fail("shard %d is free and not granted", shard)
		case h == None:
		case h != to && s.Lives[h].State != Over && s.Ledger.Revoke[shard] == 0:
			p.fail("shard %d is held by %s, meant for %s and not revoked", shard, s.Lives[h].Key(), s.Lives[to].Key())
		}
	}
	least, most := len(s.Target), 0
	for _, n := range loads {
		least, most = min(least, n), max(most, n)
	}
	if most-least > 1 {
		p.fail("the loads differ by %d", most-least)
	}
}

// checkMoves: from a stable group, one join takes the fewest shards and one
// departure takes none.
func (p *schedule) checkMoves(stable bool, before *State, cmd Command, events []Event) {
	if _, other := cmd.(Adopt); other {
		return // fewer shards may have to be spread anew
	}
	if b, batch := cmd.(Batch); !stable || before.Correction != nil || (batch && len(b) > 1) {
		return
	}
	joins, ends := 0, 0
	for _, e := range events {
		switch e := e.(type) {
		case MemberJoined:
			joins++
		case MemberDraining:
			if e.Undone {
				joins++ // the same as a join to whoever holds shards
			} else {
				ends++
			}
		case MemberEnded:
			ends++
		case MemberLeaving:
			ends++
		case TargetChanged:
			want := 0
			if joins == 1 && ends == 0 && e.Members > 1 {
				want = read(before) / e.Members
			}
			if e.Moves != want {
				p.fail("%d joins and %d departures move %d shards among %d members, %d are enough", joins, ends, e.Moves, e.Members, want)
			}
		}
	}
}

// checkAnswers: an answer says what the ledger says.
func (p *schedule) checkAnswers(s *State, r Response) {
	for i := range r.Answers {
		a := &r.Answers[i]
		if !a.Status.RenewsLease() && (len(a.Assignment.AssignedShards) > 0 || a.Life != "") {
			p.fail("a refusal assigns or renews: %+v", a)
		}
		for _, x := range a.Assignment.AssignedShards {
			h := s.Ledger.Holder[x.Shard]
			if h == None || s.Lives[h].Member != a.MemberID || s.Lives[h].State != Active || s.Ledger.Grant[x.Shard] != x.Epoch || s.Ledger.Revoke[x.Shard] != 0 {
				p.fail("the answer %s assigns shard %d, which the ledger does not give to %s", a.ResponseTo, x.Shard, a.MemberID)
			}
			if slices.Contains(a.Assignment.PendingShards, x.Shard) {
				p.fail("shard %d is assigned and pending in one answer", x.Shard)
			}
		}
	}
	for _, key := range r.Relied {
		if slices.ContainsFunc(r.Answers, func(a Answer) bool { return a.Life == key }) {
			p.fail("%s is renewed and expired in one change", key)
		}
	}
}

// checkSteady: the short way gives the same answer as the long one, and only
// where the long one changes nothing.
func (p *schedule) checkSteady(before *State, cmd Command, r Response) {
	b, single := cmd.(Beat)
	if !single {
		return
	}
	v := NewView(before)
	short, ok := v.Steady(b.Request)
	if !ok {
		return
	}
	p.seen["steady"]++
	if short.Place < 1 || v.Key(short.Place-1) != short.Life {
		p.fail("the short way renews %s and places it at %d", short.Life, short.Place)
	}
	short.Place = 0 // the long way answers from another state
	if r.Changed || !reflect.DeepEqual(short, r.Answers[0]) {
		p.fail("the short way answers %+v, the long way (changed %v) %+v", short, r.Changed, r.Answers[0])
	}
}

// checkReaders: no shard has two readers, nor a reader while another process
// finishes its work on it in time; and whoever reads is in the ledger, with the
// token that it reads under.
func (p *schedule) checkReaders() {
	readers := map[protocol.ShardIndex]*process{}
	for _, c := range p.procs {
		for shard, token := range c.owned {
			if other := readers[shard]; other != nil {
				p.fail("%s and %s read shard %d", other, c, shard)
			}
			readers[shard] = c
			h := p.state.Ledger.Holder[shard]
			if h == None || p.state.Lives[h].Member != c.member || p.state.Ledger.Grant[shard] != token {
				p.fail("%s reads shard %d under token %d, which the ledger does not know", c, shard, token)
			}
		}
	}
	for _, c := range p.procs {
		for shard := range c.draining {
			if other := readers[shard]; other != nil && other != c && c.healthy {
				p.fail("%s reads shard %d while %s has work in flight", other, shard, c)
			}
		}
	}
}

// round lets every process that works beat once, and be answered.
func (p *schedule) round() {
	for _, c := range p.procs {
		c.drainAll()
		if q := c.next(p.id()); q != nil {
			a := p.apply(Beat{q}, nil, nil)[0]
			p.receive(c, q, &a.HeartbeatResponse)
		}
	}
}

// within demands that the group is stable after at most so many rounds.
func (p *schedule) within(rounds int, what string) {
	for n := range rounds + 1 {
		if p.state.Summary() == protocol.GroupStable {
			p.seen["converged"]++
			return
		}
		if n < rounds {
			p.round()
		}
	}
	p.fail("the group is %s %d rounds after %s:\n%+v", p.state.Summary(), rounds, what, p.state)
}

// settle ends the faults: what was under way is lost, twins end but for one, the
// leases of those that stopped run out.
func (p *schedule) settle() {
	p.note("the faults end")
	p.net = nil
	for i, c := range p.procs {
		if c.phase == leaving || slices.ContainsFunc(p.procs[i+1:], func(d *process) bool { return d.member == c.member && d.phase != gone }) {
			c.crash()
		}
	}
	if !slices.ContainsFunc(p.procs, func(c *process) bool { return c.phase != gone }) {
		p.start()
	}
	for i := range p.state.Lives {
		if p.state.Lives[i].Draining {
			p.apply(Drain{Member: p.state.Lives[i].Member, Undo: true}, nil, nil)
		}
	}
	p.expireAll()
	// Whoever was fenced meanwhile needs a round to hear of it and one to join,
	// and what an old client held then waits for a lease.
	for range 3 {
		p.round()
		p.expireAll()
	}
	if p.state.Correction != nil {
		// Everybody hears of it, says what he reads, and waits for its end.
		p.round()
		p.round()
		for range 20 {
			p.expireAll()
		}
		if p.state.Correction != nil {
			p.fail("the correction does not end:\n%+v", p.state)
		}
	}
	p.within(3, "the end of the faults")

	old := p.state
	fresh := &process{member: "z", number: len(p.procs)}
	fresh.begin(p.id())
	p.procs = append(p.procs, fresh)
	q := fresh.next(p.id())
	p.receive(fresh, q, &p.apply(Beat{q}, nil, nil)[0].HeartbeatResponse)
	p.within(3, "a join")
	if moved, enough := p.moved(&old), read(&p.state)/p.active(); moved != enough {
		p.fail("a join moved %d shards, %d are enough", moved, enough)
	}
	if p.active() < 2 {
		return
	}
	old = p.state
	leaver := p.procs[slices.IndexFunc(p.procs, func(c *process) bool { return c.phase == working && c != fresh })]
	held := len(leaver.owned)
	leaver.stop(true)
	if q := leaver.next(p.id()); q != nil {
		p.receive(leaver, q, &p.apply(Beat{q}, nil, nil)[0].HeartbeatResponse)
	}
	// An old Python client does not say that it stops.
	p.expireAll()
	p.within(2, "a leave")
	if moved := p.moved(&old); moved != held {
		p.fail("a leave moved %d shards, the leaver held %d", moved, held)
	}
}

// expireAll ends every life that nobody reads as.
func (p *schedule) expireAll() {
	expired := map[string]bool{}
	for i := range p.state.Lives {
		if l := &p.state.Lives[i]; !p.mayRead(l) {
			expired[l.Key()] = true
		}
	}
	p.apply(Tick{}, expired, nil)
}

// read counts the shards that are read.
func read(s *State) int { return s.ReadCount - s.Closed.Len() }

func (p *schedule) active() int { return len(p.state.takersByID()) }

// moved counts the shards that changed hands since a state.
func (p *schedule) moved(old *State) int {
	n := 0
	for shard, h := range p.state.Ledger.Holder {
		if h != None && old.Lives[old.Ledger.Holder[shard]].Key() != p.state.Lives[h].Key() {
			n++
		}
	}
	return n
}

// phase is how far a process has come.
type phase int

const (
	working phase = iota
	leaving
	gone
)

// process is a client as the design describes it, without its clock: when its
// lease ends is for the schedule to say.
type process struct {
	member      string
	incarnation string
	stopped     string
	legacy      bool
	// python clients never report what they let go of.
	python bool
	number int
	phase  phase
	// healthy is false once the process has overstayed a rebalance timeout, or
	// another one has taken its name.
	healthy bool
	// lives are all incarnations, the present one included.
	lives       []string
	epoch       protocol.Epoch
	version     int64
	owned       map[protocol.ShardIndex]protocol.Epoch
	draining    map[protocol.ShardIndex]bool
	released    map[protocol.ShardIndex]bool
	outstanding string
}

func (c *process) String() string {
	return fmt.Sprintf("process %d (%s/%s)", c.number, c.member, c.incarnation)
}

// forget drops everything that was held.
func (c *process) forget() {
	c.epoch, c.version, c.outstanding = protocol.EpochJoin, 0, ""
	c.owned = map[protocol.ShardIndex]protocol.Epoch{}
	c.draining, c.released = map[protocol.ShardIndex]bool{}, map[protocol.ShardIndex]bool{}
}

func (c *process) crash() {
	c.forget()
	c.phase = gone
}

// begin starts a life; it names the one before it, if there was one.
func (c *process) begin(id string) {
	c.forget()
	c.healthy = true
	if !c.legacy {
		c.stopped, c.incarnation = c.incarnation, "i"+id
		c.lives = append(c.lives, c.incarnation)
	}
}

// unfit notes that the process may be told that this life of it is over.
func (c *process) unfit(incarnation string) {
	if c.legacy || c.incarnation == incarnation {
		c.healthy = false
	}
}

// stop begins a graceful shutdown; an old Python client just ends.
func (c *process) stop(drained bool) {
	if c.phase != working || c.epoch == protocol.EpochJoin {
		return
	}
	if c.python {
		c.crash()
		return
	}
	c.phase = leaving
	for shard := range c.owned {
		c.draining[shard] = true
	}
	if !c.legacy {
		clear(c.owned)
	}
	if drained {
		c.drainAll()
	}
}

func (c *process) drainAll() {
	for shard := range c.draining {
		c.letGo(shard)
	}
}

func (c *process) drainOne(rng *rand.Rand) {
	if shards := slices.Sorted(maps.Keys(c.draining)); len(shards) > 0 {
		c.letGo(shards[rng.IntN(len(shards))])
	}
}

func (c *process) letGo(shard protocol.ShardIndex) {
	delete(c.draining, shard)
	c.released[shard] = true
}

// next makes the process's next request; nil when it has none.
func (c *process) next(id string) *protocol.Heartbeat {
	if c.phase == gone {
		return nil
	}
	q := &protocol.Heartbeat{
		ProtocolVersion: 1, RequestID: id, MemberID: c.member, Incarnation: c.incarnation,
		MemberEpoch: c.epoch, MetadataVersion: c.version, OwnedShards: slices.Sorted(maps.Keys(c.owned)),
	}
	switch {
	case c.phase == leaving:
		q.MemberEpoch = protocol.EpochLeave
	case c.epoch == protocol.EpochJoin:
		q.StoppedIncarnation = c.stopped
	}
	if !c.python {
		for _, shard := range slices.Sorted(maps.Keys(c.draining)) {
			q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: shard, State: protocol.RevokeDraining, InFlight: 1})
		}
		for _, shard := range slices.Sorted(maps.Keys(c.released)) {
			q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: shard, State: protocol.RevokeRevoked})
		}
	}
	c.outstanding = id
	if c.legacy {
		// It says so once, and whether it is heard or not.
		clear(c.released)
		if c.phase == leaving {
			c.crash()
		}
	}
	return q
}

// take follows the answer to the latest request.
func (c *process) take(r *protocol.HeartbeatResponse, id func() string) {
	c.outstanding = ""
	switch r.Status {
	case protocol.StatusOK:
		if c.phase == leaving {
			if clear(c.released); len(c.draining) == 0 {
				c.crash()
			}
			return
		}
		c.assigned(r)
	case protocol.StatusSyncMetadata, protocol.StatusRevokePending:
		// What is assigned is kept, nothing is begun.
		if c.phase != leaving {
			c.epoch, c.version = r.MemberEpoch, r.MetadataVersion
			c.keep(r)
		}
	case protocol.StatusFencedEpoch, protocol.StatusUnknownMember:
		if c.phase == leaving {
			c.crash()
			return
		}
		c.begin(id())
	}
}

func (c *process) assigned(r *protocol.HeartbeatResponse) {
	c.epoch, c.version, c.stopped = r.MemberEpoch, r.MetadataVersion, ""
	for shard, token := range c.keep(r) {
		if !c.draining[shard] && !c.released[shard] {
			c.owned[shard] = token
		}
	}
}

// keep lets go of what is owned and not assigned; it returns what is assigned.
func (c *process) keep(r *protocol.HeartbeatResponse) map[protocol.ShardIndex]protocol.Epoch {
	if !c.legacy {
		// What was said to be let go of has been heard.
		clear(c.released)
	}
	granted := map[protocol.ShardIndex]protocol.Epoch{}
	for _, a := range r.Assignment.AssignedShards {
		granted[a.Shard] = a.Epoch
	}
	for shard, token := range c.owned {
		if granted[shard] != token {
			delete(c.owned, shard)
			if !c.python {
				c.draining[shard] = true
			}
		}
	}
	return granted
}
