package engine

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Engine is the mind of one coordinator about one group. It is not safe for
// concurrent use: its runner steps it from one goroutine.
type Engine struct {
	cfg Config
	// out collects the effects of one step.
	out []Effect

	// view is the cached state at version known; nil when there is none.
	view  *group.View
	known Version
	// absent is true when the last load found no aggregate.
	absent bool
	// fresh is true when known was confirmed in this cycle, stale when the store is
	// said to hold something else since the last load was asked for.
	fresh bool
	stale bool

	// seen is the latest that was ever adopted, also when the cache was dropped.
	seen seen
	// correction is to be opened with the next change.
	correction *group.Correct
	// lastReport is when a member's report last opened a correction.
	lastReport time.Duration
	reportSeen bool
	// lossTold is when a loss of stamps was last told.
	lossTold time.Duration
	lossSeen bool

	clocks  clocks
	reports map[string]*reported
	// places are those of reports that belong to the lives of view, in their order; nil
	// where none was asked for yet.
	places []*reported
	// cycle counts those in which stamps were made.
	cycle uint64

	phase phase
	// collided is true after a save of this cycle was in conflict, locked once it
	// holds the mutex.
	collided bool
	locked   bool
	closing  bool
	attempts int
	ensured  bool
	// queue waits for the next cycle, batch is what this one works on.
	queue []waiting
	batch []waiting
	holds holds
	burst burst
	// gathering lets requests wait for each other at load.
	gathering gathering
	// saving is what an open Save will lead to, renewing what an open Renew
	// confirms.
	saving   *pendingSave
	renewing *pendingRenew
	nextTick time.Duration
	ticking  bool
	wake     time.Duration
	// complaint is the last one since the group was last sound.
	complaint string
}

// seen is what a coordinator knows of a group's past.
type seen struct {
	save    group.Save
	created time.Time
	epoch   protocol.Epoch
	version int64
}

type phase uint8

const (
	idle phase = iota
	loading
	renewing
	saving
	ensuring
)

// waiting is a heartbeat that has no answer yet.
type waiting struct {
	id      uint64
	q       *protocol.Heartbeat
	arrived time.Duration
	// gone is true when its client has gone away meanwhile.
	gone bool
}

type pendingSave struct {
	save   Save
	view   *group.View
	resp   group.Response
	events []group.Event
	asked  []waiting
	marks  int
}

type pendingRenew struct {
	proofs  proofs
	answers []group.Answer
	asked   []waiting
}

// reported is what was last written of a member's reports.
type reported struct {
	// In this order, what every heartbeat looks at lies together.

	// lease is the one that the clocks know, nil before it was first renewed. It goes
	// when this goes, with its life.
	lease *lease
	// cycle is the last one in which a stamp was made.
	cycle uint64
	// at is the time of the last report; written is false before the first.
	at time.Duration
	// In epoch, if steady is set, the member owned what it was to own, and that is what
	// the last report says.
	epoch           protocol.Epoch
	written, steady bool
	capacity        protocol.Capacity
	version         int64
	owned           protocol.Shards
	progress        map[protocol.ShardIndex]protocol.ShardProgress
}

// New returns an engine that knows nothing of its group yet.
func New(cfg Config) *Engine {
	return &Engine{cfg: cfg, clocks: newClocks(cfg.Rules), reports: map[string]*reported{}, holds: newHolds(), nextTick: -1, wake: -1}
}

// Idle reports whether the engine has nothing to do and nothing to remember, so
// that its runner may drop it.
func (e *Engine) Idle() bool {
	return e.phase == idle && len(e.queue) == 0 && e.holds.len() == 0 && e.absent
}

// Quiet reports whether nothing is open or waiting: after Closing, everything
// has been answered.
func (e *Engine) Quiet() bool {
	return e.phase == idle && len(e.queue) == 0 && len(e.batch) == 0 && e.holds.len() == 0
}

// Step takes something that happened and returns what is to be done.
func (e *Engine) Step(in Input, what Happening) []Effect {
	e.out = nil
	if e.nextTick < 0 {
		// The first look is taken at once: a coordinator that starts takes over
		// the watch on every lease.
		e.nextTick = in.Mono
	}
	switch h := what.(type) {
	case Arrived:
		e.arrived(in, h)
	case Canceled:
		e.canceled(h.ID)
	case Loaded:
		e.loaded(in, h)
	case Renewed:
		e.renewed(in, h)
	case Saved:
		e.saved(in, h)
	case Ensured:
		e.ensuredGroup(h)
	case Closing:
		e.closing = true
		for _, entry := range e.holds.takeIf(func(*held) bool { return true }) {
			e.answerHeld(entry)
		}
	case Changed:
		e.changed(h)
	case Woke:
		e.wake = -1
	}
	e.releaseHolds(in)
	e.advance(in)
	e.setWake(in)
	return e.out
}

func (e *Engine) do(effect Effect) { e.out = append(e.out, effect) }

// arrived queues a heartbeat. A newer request of the same incarnation releases
// the one that is held.
func (e *Engine) arrived(in Input, a Arrived) {
	w := waiting{id: a.ID, q: a.Request, arrived: in.Mono}
	switch {
	case e.closing:
		e.retry(w, "this coordinator shuts down: repeat the request at another one")
		return
	case len(e.queue) >= maxQueue:
		e.retry(w, "too many requests wait for this group")
		return
	}
	e.supersede(w.q)
	if isJoin(w) {
		if !slices.ContainsFunc(e.queue, isJoin) && !slices.ContainsFunc(e.batch, isJoin) {
			e.burst.first = in.Mono
		}
		e.burst.last = in.Mono
	}
	e.queue = append(e.queue, w)
}

func (e *Engine) canceled(id uint64) {
	e.holds.cancel(id)
	for i := range e.batch {
		// What it says is being applied; there is only nobody to hold it for.
		e.batch[i].gone = e.batch[i].gone || e.batch[i].id == id
	}
	e.queue = slices.DeleteFunc(e.queue, func(w waiting) bool { return w.id == id })
	e.burst.waiting = 0
}

// timings are the group's, or the configured ones as long as it is not known.
func (e *Engine) timings() protocol.Timings {
	if e.view != nil {
		return e.view.State.Timings
	}
	return e.cfg.Timings
}

func (e *Engine) answer(id uint64, r protocol.HeartbeatResponse) {
	e.do(Answer{ID: id, Response: r})
}

func (e *Engine) retry(w waiting, reason string) {
	e.answer(w.id, protocol.NewHeartbeatResponse(w.q, protocol.StatusRetry, reason, e.timings()))
}

// giveUp answers everything that this cycle works on with RETRY and ends it.
func (e *Engine) giveUp(reason string) {
	for _, w := range e.batch {
		e.retry(w, reason)
	}
	e.endCycle()
}

func (e *Engine) endCycle() {
	if e.locked {
		e.do(Unlock{})
	}
	e.batch, e.phase, e.attempts = nil, idle, 0
	e.collided, e.locked, e.fresh, e.ensured, e.ticking = false, false, false, false, false
	e.saving, e.renewing = nil, nil
}

// load reads the aggregate; after a save that collided under the mutex, so that
// the next attempt does not collide again.
func (e *Engine) load() {
	lock := e.collided && !e.locked
	e.locked = e.locked || lock
	e.phase, e.stale = loading, false
	e.do(Load{Known: e.known, Lock: lock})
}

// advance begins the next cycle if nothing is open.
func (e *Engine) advance(in Input) {
	for e.phase == idle && !e.closing {
		tick := in.Mono >= e.nextTick
		if tick {
			e.nextTick = in.Mono + e.jittered(in)
			tick = e.watches()
		}
		if !tick && !e.stale && e.gathers(in) {
			return
		}
		e.take(in)
		looks := e.looks()
		if !tick && !looks && len(e.batch) == 0 {
			return
		}
		e.ticking = tick
		if tick || looks || e.view == nil {
			e.load()
			return
		}
		e.work(in)
	}
	if e.closing && e.phase == idle {
		for _, w := range e.queue {
			e.retry(w, "this coordinator shuts down: repeat the request at another one")
		}
		e.queue = nil
	}
}

// watches reports whether the group is worth a look: it exists, or nothing is
// known yet. An empty group is looked at too, so that the cache is at most a tick
// old when its first member comes.
func (e *Engine) watches() bool { return e.view != nil || !e.absent }

// jittered spreads the ticks of many groups and coordinators.
func (e *Engine) jittered(in Input) time.Duration {
	var h uint32 = 2166136261
	for _, c := range []byte(in.ID) {
		h = (h ^ uint32(c)) * 16777619
	}
	return e.cfg.TickInterval*9/10 + e.cfg.TickInterval/5*time.Duration(h%1024)/1024
}

// work answers the batch from the cached state, with one round trip.
func (e *Engine) work(in Input) {
	e.joinTheBurst()
	e.dropOld(in)
	e.deferJoins(in)
	if e.correction == nil && !e.ticking {
		if len(e.batch) == 0 {
			e.endCycle()
			return
		}
		if e.steady(in) {
			return
		}
	}
	e.apply(in)
}

// dropOld answers requests that have waited so long that their client has given
// up: it may have joined again since, so they must not be applied.
func (e *Engine) dropOld(in Input) {
	if e.cfg.Rules.Off(rules.RequestsAge) {
		return
	}
	limit := protocol.ClientTimeout(e.timings().Lease)
	e.batch = slices.DeleteFunc(e.batch, func(w waiting) bool {
		old := in.Mono-w.arrived >= limit
		if old {
			e.retry(w, "the request waited too long here: repeat it")
		}
		return old
	})
}

// steady tries the fast path: every request of the batch changes nothing.
func (e *Engine) steady(in Input) bool {
	answers := make([]group.Answer, len(e.batch))
	for i := range e.batch {
		var ok bool
		if answers[i], ok = e.view.Steady(e.batch[i].q); !ok {
			return false
		}
	}
	e.renew(in, answers)
	return true
}

// apply runs the batch, and the verdicts of a tick, through the group's rules.
func (e *Engine) apply(in Input) {
	cmd := make(group.Batch, 0, len(e.batch)+2)
	if e.correction != nil {
		cmd = append(cmd, *e.correction)
	}
	for _, w := range e.batch {
		cmd = append(cmd, group.Beat{Request: w.q})
	}
	input := group.Input{Now: in.Now, ID: in.ID, View: e.view, Rules: e.cfg.Rules}
	input.MayCorrect = !e.reportSeen || in.Mono-e.lastReport >= e.timings().Lease
	if e.ticking {
		input.Expired, input.Overdue = e.clocks.verdicts(in.Mono, e.view)
		input.Corrected = e.clocks.corrected(in.Mono, e.view)
		input.PromiseOver = e.clocks.promiseOver(in.Mono, e.view)
		cmd = append(cmd, group.Tick{})
	}
	next, resp, events, err := group.Apply(*e.view.State, input, cmd)
	if err != nil {
		e.fail(err)
		return
	}
	if !resp.Changed {
		e.unchanged(in, resp, events)
		return
	}
	if e.correction == nil && slices.ContainsFunc(events, opensCorrection) {
		e.reportSeen, e.lastReport = true, in.Mono
	}
	e.save(in, next, resp, events)
}

func opensCorrection(e group.Event) bool {
	_, opens := e.(group.CorrectionOpened)
	return opens
}

// unchanged answers a batch that leaves the state as it is.
func (e *Engine) unchanged(in Input, resp group.Response, events []group.Event) {
	if len(events) > 0 {
		e.do(Publish{events})
	}
	renews := slices.ContainsFunc(resp.Answers, func(a group.Answer) bool { return a.Life != "" })
	switch {
	case renews || len(e.unmarked(e.view)) > 0:
		// The renewal confirms the state that the refusals are made from, too.
		e.renew(in, resp.Answers)
	case len(e.batch) == 0:
		e.endCycle()
	case e.fresh:
		e.answerAll(e.batch, resp.Answers)
		e.endCycle()
	default:
		// Refusals alone: the cached state may be older than what another
		// coordinator has just granted.
		e.load()
	}
}

func (e *Engine) renew(in Input, answers []group.Answer) {
	p := e.proofs(in, e.view, e.batch, answers)
	e.phase = renewing
	e.renewing = &pendingRenew{proofs: p, answers: answers, asked: e.batch}
	expected := e.known
	if e.cfg.Rules.Off(rules.RenewalIsConditional) {
		// Only the model store of the tests knows this revision.
		expected.Revision = -1
	}
	e.do(Renew{Expected: expected, Stamps: p.stamps, Reports: p.reports})
}

func (e *Engine) save(in Input, next group.State, resp group.Response, events []group.Event) {
	v := resp.View
	if v == nil {
		v = group.NewView(&next)
	}
	v.State.Saving(group.Save{Revision: e.known.Revision + 1, Nonce: in.ID}, e.known.Instance)
	body, err := v.Encode()
	if err != nil {
		e.unwritable(in, err)
		return
	}
	p := e.proofs(in, v, e.batch, resp.Answers)
	e.saving = &pendingSave{
		save: Save{
			Expected: e.known, Relied: e.clocks.relied(resp.Relied), Nonce: in.ID, Body: body, UpdatedAt: in.Now,
			Stamps: p.stamps, Reports: p.reports, Ended: resp.Gone,
		},
		view: v, resp: resp, events: events, asked: e.batch, marks: p.marks,
	}
	e.phase = saving
	e.do(e.saving.save)
	if e.cfg.Rules.Off(rules.SaveBeforeAnswer) {
		e.answerAll(e.batch, resp.Answers)
		e.batch, e.saving.asked, e.saving.resp.Answers = nil, nil, nil
	}
}

// unwritable goes on after a state that cannot be saved. If members were to join,
// they are refused, so that a full group goes on with those that it has.
func (e *Engine) unwritable(in Input, err error) {
	members := len(e.batch)
	e.batch = slices.DeleteFunc(e.batch, func(w waiting) bool {
		if isJoin(w) {
			e.answer(w.id, protocol.NewHeartbeatResponse(w.q, protocol.StatusInvalidRequest,
				"the group's record has no room for another member: use fewer shards or members, or shorter names", e.timings()))
		}
		return isJoin(w)
	})
	switch {
	case len(e.batch) == members && len(e.unmarked(e.view)) > 0:
		// What would make room may be that a lease ends, and that needs its mark.
		reason := e.complain(err)
		for _, w := range e.batch {
			e.retry(w, reason)
		}
		e.batch = nil
		e.renew(in, nil)
	case len(e.batch) == members:
		e.fail(err)
	case len(e.batch) == 0 && !e.ticking && e.correction == nil:
		e.endCycle()
	default:
		e.apply(in)
	}
}

// proofs are what shows that incarnations live: a stamp for each, and what some of
// them report.
type proofs struct {
	stamps []Stamp
	// of is what is remembered of the lives of stamps, in their order.
	of      []*reported
	reports []Report
	// marks is how many of stamps stand for those that were lost.
	marks int
}

// proofs makes the stamps and reports of the requests that renew a lease, and marks
// in place of stamps that lives of v have lost.
func (e *Engine) proofs(in Input, v *group.View, asked []waiting, answers []group.Answer) proofs {
	p := proofs{stamps: make([]Stamp, 0, len(answers)), of: make([]*reported, 0, len(answers))}
	stamp := newStamp(in.ID, in.Now)
	e.cycle++
	for i := range answers {
		a := &answers[i]
		if a.Life == "" {
			continue
		}
		r := e.reportedBy(a)
		if r.cycle != e.cycle {
			r.cycle = e.cycle
			p.stamps = append(p.stamps, Stamp{Life: a.Life, Value: stamp})
			p.of = append(p.of, r)
		}
		if body := e.report(in, r, asked[i].q, a.Place > 0); body != nil {
			p.reports = append(p.reports, Report{Life: a.Life, Body: body})
		}
	}
	for _, life := range e.unmarked(v) {
		if r := e.reported(life); r.cycle != e.cycle {
			r.cycle = e.cycle
			p.stamps = append(p.stamps, Stamp{Life: life, Value: newMark(in.ID)})
			p.of = append(p.of, r)
			p.marks++
		}
	}
	return p
}

// unmarked names the lives of v whose stamp was found missing. Only a tick has just
// looked, and heartbeats need not.
func (e *Engine) unmarked(v *group.View) []string {
	if !e.ticking {
		return nil
	}
	return e.clocks.unmarked(v)
}

// marked tells of stamps that were lost, once in a lease time.
func (e *Engine) marked(in Input, lives int) {
	if lives == 0 || (e.lossSeen && in.Mono-e.lossTold < e.timings().Lease) {
		return
	}
	e.lossSeen, e.lossTold = true, in.Mono
	e.do(Publish{[]group.Event{group.StampsLost{Lives: lives}}})
}

// renewedLeases notes stamps that were written beside the cached state.
func (e *Engine) renewedLeases(now time.Duration, p proofs) {
	for i, r := range p.of {
		if r.lease == nil {
			r.lease = e.clocks.lease(p.stamps[i].Life)
		}
		r.lease.renewed(now, p.stamps[i].Value)
	}
}

// reportedBy returns what is remembered of the life that is answered.
func (e *Engine) reportedBy(a *group.Answer) *reported {
	if a.Place == 0 {
		return e.reported(a.Life)
	}
	// A steady answer is made from the cached state.
	r := &e.places[a.Place-1]
	if *r == nil {
		*r = e.reported(a.Life)
	}
	return *r
}

func (e *Engine) reported(life string) *reported {
	r, there := e.reports[life]
	if !there {
		r = new(reported)
		e.reports[life] = r
	}
	return r
}

// report returns the report to write for a request, nil for none: one that says the
// same, or nearly, is written once in a while only.
func (e *Engine) report(in Input, r *reported, q *protocol.Heartbeat, steady bool) []byte {
	if r.written && in.Mono-r.at < r.pause(q, steady) {
		return nil
	}
	shards := 0
	if e.view != nil {
		shards = len(e.view.State.Target)
	}
	if r.progress == nil && len(q.ShardProgress) > 0 {
		r.progress = map[protocol.ShardIndex]protocol.ShardProgress{}
	}
	body, err := encodeReport(q, shards, r.progress)
	if err != nil {
		e.do(Complain{err})
		return nil
	}
	r.epoch, r.steady = q.MemberEpoch, steady
	r.written, r.at, r.owned, r.capacity, r.version = true, in.Mono, slices.Clone(q.OwnedShards), q.Capacity, q.MetadataVersion
	return body
}

// answerAll answers the requests of a cycle, or holds those that ask for it and
// have nothing to hear.
func (e *Engine) answerAll(asked []waiting, answers []group.Answer) {
	e.out = slices.Grow(e.out, len(answers)+2) // with what ends the cycle
	for i := range answers {
		a, w := &answers[i], &asked[i]
		if w.gone {
			continue
		}
		wait := protocol.MaxWait(time.Duration(w.q.MaxWaitMs)*time.Millisecond, e.timings().Lease)
		if wait > 0 && a.Life != "" && !e.closing && group.Settled(w.q, &a.HeartbeatResponse) {
			if before := e.holds.add(*w, a.Life, w.arrived+wait); before != nil {
				// Both waited in the queue, where the newer one could not see it.
				e.answerHeld(before)
			}
			continue
		}
		e.answer(w.id, a.HeartbeatResponse)
	}
}

// adopt makes a stored state the cached one.
func (e *Engine) adopt(v *group.View, at Version) {
	e.view, e.known, e.absent, e.complaint = v, at, false, ""
	e.places = make([]*reported, len(v.State.Lives))
	e.seen = seen{
		save: group.Save{Revision: at.Revision, Nonce: at.Nonce}, created: v.State.CreatedAt,
		epoch: max(e.seen.epoch, v.State.Counter), version: max(e.seen.version, v.State.MetadataVersion),
	}
	for life := range e.reports {
		if _, there := v.Life(life); !there {
			delete(e.reports, life)
		}
	}
}

// forget drops the cached state.
func (e *Engine) forget() {
	e.view, e.known, e.places = nil, Version{}, nil
}

// fail stops the group, and only the group: it answers RETRY until its record
// can be read again.
func (e *Engine) fail(err error) {
	reason := e.complain(err)
	e.forget()
	e.giveUp(reason)
}

// complain reports what stops the group, and returns what its members are told.
func (e *Engine) complain(err error) (reason string) {
	if err.Error() != e.complaint {
		// Every tick finds the same damage.
		e.complaint = err.Error()
		e.do(Complain{err})
	}
	if told := asProtocol(err); told != nil {
		return told.Message
	}
	return "the group's record is damaged"
}

// asProtocol finds the refusal in an error, nil if there is none.
func asProtocol(err error) *protocol.Error {
	var told *protocol.Error
	if errors.As(err, &told) {
		return told
	}
	return nil
}

// setWake asks to be woken when the next thing is due. While something is open,
// its outcome comes first.
func (e *Engine) setWake(in Input) {
	if e.closing {
		return
	}
	next := time.Duration(math.MaxInt64)
	if e.phase == idle {
		next = e.nextTick
		if e.gathers(in) {
			next = min(next, e.gathering.until)
		}
		if slices.ContainsFunc(e.queue, isJoin) && e.joinsWait(in) {
			next = min(next, e.burst.due())
		}
	}
	if until, holding := e.holds.next(); holding {
		next = min(next, until)
	}
	if next != e.wake && next != math.MaxInt64 {
		e.wake = next
		e.do(WakeAt{next})
	}
}
