package group

import (
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Input is everything that a decision may depend on besides state and command.
type Input struct {
	// Now is the wall time, for records that people read.
	Now time.Time
	// ID is a fresh random id, never used before.
	ID string
	// Expired holds the keys of lives whose lease is over on the clock of the
	// coordinator that acts: their stamps have not changed for a lease time.
	Expired map[string]bool
	// Overdue maps keys of lives to the highest epoch whose revocations have
	// been pending, on the clock of the coordinator that acts, for longer than
	// the rebalance timeout and the lease.
	Overdue map[string]protocol.Epoch
	// Corrected is the jump of a correction that has been open for a lease time
	// on the clock of the coordinator that acts; 0 for none.
	Corrected protocol.Epoch
	// PromiseOver is the epoch of a change of timings since which the longest
	// lease promised before has passed, on the same clock; 0 for none.
	PromiseOver protocol.Epoch
	// MayCorrect allows a member's report to open a correction: at most once per
	// lease time.
	MayCorrect bool
	// View may hold the index of the state that is given, if there is one, so
	// that it need not be built again.
	View *View
	// Rules switches rules off, in tests only.
	Rules rules.Set
}

// Command is something to be done to a group.
type Command interface{ isCommand() }

// Beat is a heartbeat that arrived: a join, a leave, or a sign of life.
type Beat struct{ Request *protocol.Heartbeat }

// Tick lets time pass: leases run out, revocations become overdue.
type Tick struct{}

// Batch is many commands that are applied together: one new target, one save.
type Batch []Command

func (Beat) isCommand()  {}
func (Tick) isCommand()  {}
func (Batch) isCommand() {}

// Response is what Apply answers.
type Response struct {
	// Changed is false when the next state equals the one given, so that
	// nothing is to be saved.
	Changed bool
	// Answers has one element for each Beat, in their order.
	Answers []Answer
	// View is the index of the next state; nil where nothing changed and no answer
	// needed it.
	View *View
	// Relied are the lives from which something was taken because their lease
	// ran out: the save must name their stamps.
	Relied []string
	// Gone are the lives that are no longer part of the state: their stamps and
	// reports can be removed.
	Gone []string
}

// Answer is the answer to one heartbeat.
type Answer struct {
	protocol.HeartbeatResponse
	// Life is the key of the incarnation whose lease the request renews; empty
	// where it renews none.
	Life string
	// Place is where this incarnation stands among the lives of the view that was asked
	// for a steady answer, from 1; 0 in every other answer.
	Place int
}

// ErrInvariant means that a state contradicts itself. The group stops, the
// server does not.
var ErrInvariant = errors.New("the state of the group contradicts itself")

// Apply carries out cmd on s. It returns the next state, the answers to the
// callers, and what happened, in order. On an error s is returned unchanged.
// Errors: ErrInvariant.
func Apply(s State, in Input, cmd Command) (State, Response, []Event, error) {
	c := begin(&s, in)
	c.run(cmd)
	c.reconcile()
	c.cut()
	c.bury()
	if !c.changed {
		// Nothing was touched: the state that was given is the next one.
		if len(c.asked) > 0 {
			c.index()
		}
		return s, Response{Answers: c.answers(c.before), View: c.before}, c.events, nil
	}
	c.s.UpdatedAt = in.Now
	c.date()
	present := call(c.s.Lives)
	if err := c.s.check(&present); err != nil {
		return s, Response{}, nil, err
	}
	next := c.s
	view := newView(&next, present)
	view.inherit(c.before)
	return next, Response{Changed: true, Answers: c.answers(view), View: view, Relied: c.relied, Gone: c.gone}, c.events, nil
}

// change is one Apply in progress: a copy of the state, and what was done to it.
type change struct {
	s  State
	in Input
	// before indexes the state that was given; nil until somebody asks.
	before *View
	given  *State
	// joined are the lives that joined in this change, by member; heirs are those
	// that follow on lives of before.
	joined map[string][]int32
	heirs  map[int32]int32
	tombs  tombs
	// ledgerOwned is true once the columns are copies of our own.
	ledgerOwned bool
	changed     bool
	// first is the counter before the change.
	first protocol.Epoch
	// membership is true when the target has to be computed anew.
	membership bool
	// moved is true when the ledger has to be compared with the target.
	moved bool
	// drawn[i] is true for a life that has got an epoch in this change already.
	drawn map[int32]bool
	// renewed are the lives whose requests were accepted.
	renewed map[int32]bool
	asked   []asked
	relied  []string
	gone    []string
	events  []Event
}

func begin(s *State, in Input) *change {
	c := &change{
		s: *s, in: in, given: s, before: in.View, first: s.Counter,
		joined: map[string][]int32{}, heirs: map[int32]int32{}, drawn: map[int32]bool{}, renewed: map[int32]bool{},
	}
	c.s.Lives = slices.Clone(s.Lives)
	return c
}

// index returns the index of the state that was given.
func (c *change) index() *View {
	if c.before == nil {
		c.before = NewView(c.given)
	}
	return c.before
}

// livesOf walks over the lives of a member, in the order of their joining.
func (c *change) livesOf(member string) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for i := range c.index().livesOf(member) {
			if !yield(i) {
				return
			}
		}
		for _, i := range c.joined[member] {
			if !yield(i) {
				return
			}
		}
	}
}

// mayHold lists the shards that a life held before the change, ascending. The
// ledger is filled last, so while requests are taken it holds no others; some it
// may have let go of.
func (c *change) mayHold(life int32) []int32 {
	if int(life) >= len(c.given.Lives) {
		return nil
	}
	return c.index().held.of(life)
}

func (c *change) run(cmd Command) {
	switch cmd := cmd.(type) {
	case Batch:
		for _, each := range cmd {
			c.run(each)
		}
	case Beat:
		c.beat(cmd.Request)
	case Tick:
		c.tick()
	case Correct:
		if c.s.Correction == nil || !cmd.Once {
			c.correct(cmd)
		}
	case Adopt:
		c.adopt(cmd)
	case Retime:
		c.retime(cmd.Timings)
	case Drain:
		c.drain(cmd)
	case Confirm:
		c.confirm()
	}
}

func (c *change) on(r rules.Rule) bool { return c.in.Rules.On(r) }

func (c *change) emit(e Event) { c.events = append(c.events, e) }

// ledger returns the columns for writing.
func (c *change) ledger() *Ledger {
	if !c.ledgerOwned {
		c.ledgerOwned = true
		c.s.Ledger = Ledger{
			Holder: slices.Clone(c.s.Ledger.Holder),
			Grant:  slices.Clone(c.s.Ledger.Grant),
			Revoke: slices.Clone(c.s.Ledger.Revoke),
		}
		c.s.Target = slices.Clone(c.s.Target)
	}
	c.changed = true
	return &c.s.Ledger
}

// draw returns an epoch that was never used before in this group.
func (c *change) draw() protocol.Epoch {
	c.changed = true
	c.s.Counter++
	return c.s.Counter
}

// newEpoch gives a life a new member epoch, one for the whole change.
func (c *change) newEpoch(life int32) protocol.Epoch {
	l := &c.s.Lives[life]
	if !c.drawn[life] && c.on(rules.NewEpochPerChange) {
		c.drawn[life] = true
		l.Epoch = c.draw()
	}
	return l.Epoch
}

// release frees one shard.
func (c *change) release(shard int, cause ReleaseCause) {
	l := c.ledger()
	member := c.s.Lives[l.Holder[shard]].Member
	l.Holder[shard], l.Grant[shard], l.Revoke[shard] = None, 0, 0
	c.moved = true
	c.emit(ShardReleased{Shard: protocol.ShardIndex(shard), Member: member, Cause: cause})
}

// releaseAll frees whatever a life holds, or only what has been revoked up to
// an epoch.
func (c *change) releaseAll(life int32, cause ReleaseCause, revokedUpTo protocol.Epoch) {
	for _, held := range c.mayHold(life) {
		shard := int(held)
		if !c.heldBy(shard, life) {
			continue
		}
		if cause == ByTimeout && (c.s.Ledger.Revoke[shard] == 0 || c.s.Ledger.Revoke[shard] > revokedUpTo) {
			continue
		}
		c.release(shard, cause)
	}
}

// holds reports whether a life holds any shard.
func (c *change) holds(life int32) bool {
	return slices.ContainsFunc(c.mayHold(life), func(shard int32) bool { return c.heldBy(int(shard), life) })
}

// end closes a life. It stays in the state, as Over, until bury finds that it
// holds nothing.
func (c *change) end(life int32, reason EndReason, detail string) {
	l := &c.s.Lives[life]
	if l.State == Active {
		c.membership = true
	}
	l.State = Over
	c.changed = true
	if int(life) >= len(c.given.Lives) {
		// It never held anything: its tombstone is all that is left to know.
		c.joined[l.Member] = slices.DeleteFunc(c.joined[l.Member], func(i int32) bool { return i == life })
	}
	c.entomb(l.Member, l.Incarnation, reason)
	c.emit(MemberEnded{Member: l.Member, Incarnation: l.Incarnation, Reason: reason, Detail: detail})
}

// tick lets leases run out and fences members that do not let go in time.
func (c *change) tick() {
	for _, life := range c.suspects() {
		l := &c.s.Lives[life]
		key := l.Key()
		// A life whose request is part of this change is alive.
		if c.in.Expired[key] && !c.renewed[life] {
			c.relied = append(c.relied, key)
			c.releaseAll(life, ByLease, 0)
			if l.State != Over {
				c.end(life, EndExpired, "")
			}
			c.changed = true
			continue
		}
		// Being alive does not excuse it from letting go.
		if upTo, late := c.in.Overdue[key]; late && l.State != Over && c.revokedUpTo(life, upTo) {
			c.releaseAll(life, ByTimeout, upTo)
			c.end(life, EndFenced, "it did not let go of a revoked shard within the rebalance timeout")
		}
	}
	c.endCorrection()
	c.endPromise()
}

// suspects returns the lives that there is a verdict on, in order.
func (c *change) suspects() []int32 {
	var out []int32
	note := func(key string) {
		if life, found := c.index().find(key); found {
			out = append(out, life)
		}
	}
	for key, expired := range c.in.Expired {
		if expired {
			note(key)
		}
	}
	for key := range c.in.Overdue {
		note(key)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (c *change) revokedUpTo(life int32, upTo protocol.Epoch) bool {
	return slices.ContainsFunc(c.mayHold(life), func(shard int32) bool {
		r := c.s.Ledger.Revoke[shard]
		return c.heldBy(int(shard), life) && r != 0 && r <= upTo
	})
}

// bury removes lives that are over and hold nothing, and closes the gaps.
func (c *change) bury() {
	if !c.changed {
		return
	}
	c.pruneTombstones()
	held := make([]bool, len(c.s.Lives))
	for _, h := range c.s.Ledger.Holder {
		if h != None {
			held[h] = true
		}
	}
	to := make([]int32, len(c.s.Lives))
	kept := c.s.Lives[:0]
	for i := range c.s.Lives {
		l := c.s.Lives[i]
		if l.State == Over && !held[i] {
			to[i] = None
			c.gone = append(c.gone, l.Key())
			continue
		}
		to[i] = int32(len(kept))
		kept = append(kept, l)
	}
	if len(kept) == len(to) {
		return
	}
	c.s.Lives = kept
	l := c.ledger()
	for i, h := range l.Holder {
		if h != None {
			l.Holder[i] = to[h]
		}
	}
	for i, h := range c.s.Target {
		if h != None {
			c.s.Target[i] = to[h]
		}
	}
}
