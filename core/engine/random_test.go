package engine

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

var seedFlag = flag.Uint64("seed", 0, "run the random schedules with this seed alone")

// The schedules: so many seeds, each with so many random steps.
const (
	schedules     = 40
	scheduleSteps = 400
)

// TestRandomSchedules steps two coordinators on one store that is slow, away, or
// loses replies or stamps, with clients that beat, go away, or send nonsense, and looks
// after each step at the promises of an engine: every request is answered once,
// nothing is answered that was not saved, one thing is open at a time, whoever
// waits is woken, and at shutdown all of it comes to an end.
func TestRandomSchedules(t *testing.T) {
	first, last := uint64(1), uint64(schedules)
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	seen := map[string]int{}
	for seed := first; seed <= last; seed++ {
		r := newRandom(t, seed, seen)
		for range scheduleSteps {
			r.step()
		}
		r.close()
	}
	for _, what := range []string{
		"OK", "RETRY", "FENCED_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "INVALID_REQUEST", "held", "load when told", "canceled", "conflict", "lost reply",
		"store away", "lock", "ensure", "closed while busy", "mark",
	} {
		if seen[what] == 0 && *seedFlag == 0 {
			t.Errorf("no schedule has seen this happen: %s", what)
		}
	}
}

// random is a world whose coordinators are stepped by chance.
type random struct {
	*world
	t     *testing.T
	seed  uint64
	rng   *rand.Rand
	seen  map[string]int
	log   []string
	peers []*peer
	// granted are the shard, member and token of every grant that was ever saved.
	granted map[string]bool
	last    map[string]*protocol.HeartbeatResponse
	lives   int
}

// peer is one coordinator: what is open at it, and what it owes.
type peer struct {
	*node
	open    Effect
	locked  bool
	owes    map[uint64]*protocol.Heartbeat
	gone    map[uint64]bool
	arrived map[uint64]time.Duration
}

func newRandom(t *testing.T, seed uint64, seen map[string]int) *random {
	r := &random{
		world: newWorld(0), t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), seen: seen,
		granted: map[string]bool{}, last: map[string]*protocol.HeartbeatResponse{},
	}
	for _, name := range []string{"c1", "c2"} {
		timings := protocol.Timings{HeartbeatInterval: 300 * time.Millisecond, Lease: 3 * time.Second, RebalanceTimeout: 3 * time.Second}
		n := &node{name: name, names: map[uint64]string{}, wake: -1, engine: New(Config{
			Stream: "orders", Group: "billing", TickInterval: 100 * time.Millisecond, Timings: timings,
		})}
		p := &peer{node: n, owes: map[uint64]*protocol.Heartbeat{}, gone: map[uint64]bool{}, arrived: map[uint64]time.Duration{}}
		r.peers = append(r.peers, p)
		r.tell(p, Woke{})
	}
	return r
}

func (r *random) fail(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("seed %d: %s\nthe last steps:\n%s\n(replay with -seed=%d)", r.seed, fmt.Sprintf(format, args...),
		strings.Join(r.log[max(0, len(r.log)-40):], "\n"), r.seed)
}

func (r *random) note(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf("%s ", r.now)+fmt.Sprintf(format, args...))
}

func (r *random) chance(oneIn int) bool { return r.rng.IntN(oneIn) == 0 }

func (r *random) step() {
	p := r.peers[r.rng.IntN(len(r.peers))]
	switch n := r.rng.IntN(20); {
	case n < 9:
		r.send(p)
	case n < 16:
		r.finish(p)
	case n < 18:
		r.pass(time.Duration(r.rng.IntN(400)) * time.Millisecond)
	case n == 18:
		if owed := slices.Sorted(maps.Keys(p.owes)); len(owed) > 0 {
			id := owed[r.rng.IntN(len(owed))]
			r.seen["canceled"]++
			p.gone[id] = true
			r.tell(p, Canceled{ID: id})
		}
	case r.chance(3):
		r.signal(p)
	case r.chance(6):
		r.pass(4 * time.Second)
	case r.chance(5):
		r.note("all stamps are lost")
		r.store.stamps = map[string]string{}
	case r.chance(10):
		r.note("the group is deleted")
		r.store.record = record{stamps: map[string]string{}}
	default:
		r.store.down = !r.store.down && r.chance(3)
	}
}

// signal tells a coordinator of a write: of the last one, of one before, of a
// deletion, or that anything may have changed.
func (r *random) signal(p *peer) {
	var h Changed
	if n := len(r.store.history); n > 0 && !r.chance(4) {
		v := r.store.history[max(0, n-1-r.rng.IntN(3))].version
		h = Changed{Revision: v.Revision, Nonce: v.Nonce}
	}
	idle := p.open == nil
	r.note("%s is told of %+v", p.name, h)
	r.tell(p, h)
	if idle && p.open != nil {
		r.seen["load when told"]++
	}
}

// pass lets time pass, from wake to wake.
func (r *random) pass(d time.Duration) {
	until := r.now + d
	for {
		var due *peer
		for _, p := range r.peers {
			if p.wake >= 0 && p.wake <= until && (due == nil || p.wake < due.wake) {
				due = p
			}
		}
		if due == nil {
			break
		}
		r.now = max(r.now, due.wake)
		due.wake = -1
		r.tell(due, Woke{})
	}
	r.now = until
}

// send makes a heartbeat of one of a few members: mostly the next one that its
// last answer asks for, now and then something else.
func (r *random) send(p *peer) {
	member := string(rune('a' + r.rng.IntN(5)))
	q := &protocol.Heartbeat{
		ProtocolVersion: 1, RequestID: fmt.Sprint(r.nextID), MemberID: member, Incarnation: member + fmt.Sprint(r.lives),
		Capacity: protocol.Capacity{MaxConcurrency: 1}, MaxWaitMs: int64(r.rng.IntN(2) * 900),
	}
	if member == "e" {
		q.Incarnation = ""
	}
	if last := r.last[member]; last != nil && !r.chance(12) {
		q.MemberEpoch, q.MetadataVersion = last.MemberEpoch, last.MetadataVersion
		for _, a := range last.Assignment.AssignedShards {
			q.OwnedShards = append(q.OwnedShards, a.Shard)
		}
	}
	switch r.rng.IntN(30) {
	case 0:
		q.MemberEpoch, q.OwnedShards = protocol.EpochLeave, nil
	case 1:
		q.MemberEpoch += protocol.Epoch(r.rng.IntN(5) - 2)
	case 2:
		q.OwnedShards = append(q.OwnedShards, protocol.ShardIndex(r.rng.IntN(9)-2))
	case 3:
		q.RevokingShards = []protocol.RevokingShard{{Shard: protocol.ShardIndex(r.rng.IntN(9) - 2), State: protocol.RevokeRevoked}}
	case 4:
		r.lives++
	}
	r.nextID++
	p.owes[r.nextID], p.arrived[r.nextID] = q, r.now
	r.note("%s receives %d: %s/%s epoch %d owned %v wait %d", p.name, r.nextID, q.MemberID, q.Incarnation, q.MemberEpoch, q.OwnedShards, q.MaxWaitMs)
	r.tell(p, Arrived{ID: r.nextID, Request: q})
}

// finish ends what is open at a coordinator, in one of the ways in which a store
// can behave.
func (r *random) finish(p *peer) {
	open := p.open
	if open == nil {
		return
	}
	p.open = nil
	r.out = nil
	if r.store.down {
		r.seen["store away"]++
	}
	lost := r.chance(8)
	if lost {
		r.seen["lost reply"]++
	}
	var h Happening
	switch e := open.(type) {
	case Load:
		if h = r.load(e); lost {
			h = Loaded{Err: errors.New("lost")}
		}
	case Renew:
		r.marks(e.Stamps)
		if h = r.renew(p.node, e); lost {
			h = Renewed{Outcome: Unknown}
		}
	case Save:
		r.marks(e.Stamps)
		if h = r.save(p.node, e); lost {
			h = Saved{Outcome: Unknown}
		}
		r.saved(e)
	case Ensure:
		r.seen["ensure"]++
		if h = (Ensured{}); lost {
			h = Ensured{Err: protocol.ErrStoreUnavailable}
		} else if r.store.version.Revision == 0 {
			r.create()
		}
	}
	r.note("%s: %T %s -> %+v", p.name, open, strings.Join(r.out, "; "), outcome(h))
	r.tell(p, h)
	if sv, save := open.(Save); save && r.store.version.Nonce == sv.Nonce {
		for _, other := range r.peers {
			if r.chance(2) {
				r.signal(other)
			}
		}
	}
}

// marks looks at what is to be written of lives: each is written once, and a mark is
// no stamp.
func (r *random) marks(stamps []Stamp) {
	lives := map[string]bool{}
	for _, x := range stamps {
		if lives[x.Life] {
			r.fail("%s is written twice in %v", x.Life, stamps)
		}
		lives[x.Life] = true
		if _, heard := StampTime(x.Value); !heard {
			r.seen["mark"]++
		}
	}
}

func outcome(h Happening) any {
	if l, load := h.(Loaded); load {
		return fmt.Sprintf("revision %d, %v", l.Version.Revision, l.Err)
	}
	return h
}

func (r *random) create() {
	s := group.New("orders", "billing", 5, 1, protocol.Timings{
		HeartbeatInterval: 300 * time.Millisecond, Lease: 3 * time.Second, RebalanceTimeout: 3 * time.Second,
	}, epochTime.Add(r.now))
	body, err := group.Encode(&s)
	if err != nil {
		r.fail("%v", err)
	}
	r.base = s.Counter
	r.ids++
	r.store.commit(record{version: Version{Revision: 1, Nonce: fmt.Sprint("first", r.ids)}, body: body, stamps: map[string]string{}})
}

// saved notes what a save that took place has granted.
func (r *random) saved(sv Save) {
	if r.store.version.Nonce != sv.Nonce {
		r.seen["conflict"]++
		return
	}
	s, err := group.Decode(sv.Body)
	if err != nil {
		r.fail("a state was saved that cannot be read: %v", err)
	}
	for shard, h := range s.Ledger.Holder {
		if h != group.None {
			r.granted[grantKey(s.Lives[h].Member, protocol.ShardIndex(shard), s.Ledger.Grant[shard])] = true
		}
	}
}

func grantKey(member string, shard protocol.ShardIndex, token protocol.Epoch) string {
	return fmt.Sprint(member, " ", shard, " ", token)
}

// tell steps a coordinator and takes its effects over.
func (r *random) tell(p *peer, what Happening) {
	effects := p.engine.Step(r.input(), what)
	for _, effect := range effects {
		switch e := effect.(type) {
		case Answer:
			r.answered(p, e)
		case WakeAt:
			p.wake = e.Mono
		case Unlock:
			p.locked = false
		case Load:
			if e.Lock {
				if p.locked {
					r.fail("%s locks again what it has locked", p.name)
				}
				r.seen["lock"]++
				p.locked = true
			}
			r.opened(p, e)
		case Renew, Save, Ensure:
			r.opened(p, e)
		}
	}
	switch {
	case p.open == nil && p.locked:
		r.fail("%s has nothing open and keeps the mutex", p.name)
	case p.open == nil && !p.engine.closing && p.wake < 0 && !p.engine.Idle():
		r.fail("%s has nothing open and nothing to wake it", p.name)
	case p.open == nil && p.engine.phase != idle:
		r.fail("%s waits for something that it has not asked for", p.name)
	}
	if complaint := p.engine.remembersOneLease(); complaint != "" {
		r.fail("%s: %s", p.name, complaint)
	}
	for id := range p.owes {
		// Requests are worked on, waited for, or held; none is forgotten.
		if !p.gone[id] && p.open == nil && !p.engine.knows(id) {
			r.fail("%s has forgotten request %d", p.name, id)
		}
	}
}

// remembersOneLease says what is wrong with the shortcuts to what is remembered of
// lives: a renewal through one must be seen by the verdicts.
func (e *Engine) remembersOneLease() string {
	for life, x := range e.reports {
		if x.lease != nil && e.clocks.leases[life] != x.lease {
			return "two leases are remembered of " + life
		}
	}
	for i, x := range e.places {
		if x != nil && e.reports[e.view.Key(i)] != x {
			return "what is remembered at a place belongs to another than " + e.view.Key(i)
		}
	}
	return ""
}

// knows reports whether an engine still has a request.
func (e *Engine) knows(id uint64) bool {
	_, held := e.holds.byID[id]
	is := func(w waiting) bool { return w.id == id }
	return held || slices.ContainsFunc(e.queue, is) || slices.ContainsFunc(e.batch, is)
}

func (r *random) opened(p *peer, e Effect) {
	if p.open != nil {
		r.fail("%s begins %T while %T is open", p.name, e, p.open)
	}
	p.open = e
}

func (r *random) answered(p *peer, a Answer) {
	q, owed := p.owes[a.ID]
	if !owed {
		r.fail("%s answers %d, which is answered already or was never asked: %+v", p.name, a.ID, a.Response)
	}
	delete(p.owes, a.ID)
	r.note("%s answers %d: %s epoch %d %v %s", p.name, a.ID, a.Response.Status, a.Response.MemberEpoch, a.Response.Assignment.AssignedShards, a.Response.Reason)
	r.seen[string(a.Response.Status)]++
	if a.Response.ResponseTo != q.RequestID || a.Response.MemberID != q.MemberID {
		r.fail("the answer to %s of %s is for %s of %s", q.RequestID, q.MemberID, a.Response.ResponseTo, a.Response.MemberID)
	}
	waited := r.now - p.arrived[a.ID]
	if a.Response.Status == protocol.StatusOK && waited >= 500*time.Millisecond {
		r.seen["held"]++
	}
	for _, x := range a.Response.Assignment.AssignedShards {
		if !r.granted[grantKey(q.MemberID, x.Shard, x.Epoch)] {
			r.fail("%s is answered shard %d with token %d, which was never saved", q.MemberID, x.Shard, x.Epoch)
		}
	}
	if p.gone[a.ID] {
		return
	}
	switch a.Response.Status {
	case protocol.StatusOK:
		r.last[q.MemberID] = &a.Response
		if q.MemberEpoch == protocol.EpochLeave {
			delete(r.last, q.MemberID)
			r.lives++
		}
	case protocol.StatusFencedEpoch, protocol.StatusUnknownMember:
		delete(r.last, q.MemberID)
		r.lives++
	}
}

// close shuts both coordinators down, whatever they are at.
func (r *random) close() {
	for _, p := range r.peers {
		if p.open != nil {
			r.seen["closed while busy"]++
		}
		r.note("%s closes", p.name)
		r.tell(p, Closing{})
		for n := 0; p.open != nil; n++ {
			if n > 20 {
				r.fail("%s goes on and on", p.name)
			}
			r.finish(p)
		}
		if !p.engine.Quiet() {
			r.fail("%s is not quiet", p.name)
		}
		for id := range p.owes {
			if !p.gone[id] {
				r.fail("%s leaves request %d unanswered", p.name, id)
			}
		}
		r.send(p)
		if len(p.owes) > len(p.gone) {
			r.fail("%s takes a request after its end", p.name)
		}
	}
}
