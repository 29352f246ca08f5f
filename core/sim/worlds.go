package sim

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Small worlds: a few members, shards and coordinators, and every interleaving
// of their steps up to a depth, with a bounded number of faults. The group is the
// real one; the members are small models of the client half, and time is
// abstract: a member's lease may end at any moment, and a coordinator may call
// it over at any moment after that.
//
// Two states are the same if they differ only in the numbers of their epochs and
// not in the order of them.

// WorldBounds bound a small world.
type WorldBounds struct {
	Members, Shards, Coordinators int
	// Depth is the number of steps, Faults the number of lost or repeated
	// messages, crashes and leases that end too early.
	Depth, Faults int
	// MaxStates ends the search; 0 means that it ends with Depth.
	MaxStates int
	// Twins gives all processes the same member id.
	Twins bool
	Rules rules.Set
}

// WorldResult is what a search found.
type WorldResult struct {
	States, Steps, Depth int
	// Complete is true when every state up to Depth was visited.
	Complete  bool
	Violation string
	// Path tells the steps to the violation.
	Path []string
}

// Explore visits a small world, breadth first.
func Explore(b WorldBounds) WorldResult {
	g := group.New("s", "g", b.Shards, 1, simTimings, wallStart)
	first := &small{b: &b, store: g, members: make([]reader, b.Members), coords: make([]holder, b.Coordinators), tokens: make([]protocol.Epoch, b.Shards)}
	first.settle(0)
	seen := map[uint64]bool{first.hash(): true}
	frontier := []*small{first}
	r := WorldResult{States: 1, Complete: true}
	for r.Depth = 0; r.Depth < b.Depth && len(frontier) > 0; r.Depth++ {
		var next []*small
		for _, s := range frontier {
			for _, t := range s.steps() {
				r.Steps++
				if t.bad != "" {
					r.Violation, r.Path = t.bad, t.path()
					return r
				}
				if h := t.hash(); !seen[h] {
					seen[h] = true
					r.States++
					next = append(next, t)
				}
			}
			if b.MaxStates > 0 && r.States >= b.MaxStates {
				r.Complete = false
				return r
			}
		}
		frontier = next
	}
	return r
}

// settle lets a member join and acknowledge, so that the search begins where it
// gets interesting.
func (s *small) settle(m int) {
	for range 2 {
		*s = *s.ask(m)
		s.load(0, s.net[0])
		s.net = nil
		s.save(0)
		s.hear(s.net[0])
		s.net = nil
	}
	s.from, s.what = nil, ""
}

// small is one state of a small world.
type small struct {
	b *WorldBounds
	// from and what lead to it, for the path to a violation.
	from *small
	what string
	bad  string

	store    group.State
	revision int
	// stamps count the renewals of each incarnation.
	stamps  [maxSmall]int8
	members []reader
	coords  []holder
	net     []message
	// incarnations are numbered; over says whose lease has ended or whose
	// process is gone, so that a coordinator may expire it.
	incarnations int
	over         [maxSmall]bool
	tokens       []protocol.Epoch
	faults       int
}

// maxSmall bounds the incarnations of a small world.
const maxSmall = 8

// reader is a model of a member.
type reader struct {
	// life is its incarnation, from 1; 0 before it has one. stopped is the one
	// before it.
	life, stopped int
	epoch         protocol.Epoch
	// owned, draining and released are sets of shards.
	owned, draining, released uint8
	// waits is true while a request is outstanding, numbered by asked.
	waits bool
	asked int8
	told  uint8
}

// message is a request or an answer on its way.
type message struct {
	to       int
	answer   bool
	life     int
	asked    int8
	request  *protocol.Heartbeat
	response *protocol.HeartbeatResponse
}

// holder is a coordinator between load and save.
type holder struct {
	busy     bool
	revision int
	next     group.State
	changed  bool
	member   int
	life     int
	asked    int8
	answer   *protocol.HeartbeatResponse
	renews   int
	// expires is the incarnation whose stamp was relied on.
	expires int
	stamp   int8
}

func (s *small) path() []string {
	var out []string
	for t := s; t != nil && t.what != ""; t = t.from {
		out = append(out, t.what)
	}
	slices.Reverse(out)
	return out
}

// child is a copy of s, one step on.
func (s *small) child(format string, args ...any) *small {
	t := *s
	t.from, t.what = s, fmt.Sprintf(format, args...)
	t.members = slices.Clone(s.members)
	t.coords = slices.Clone(s.coords)
	t.net = slices.Clone(s.net)
	t.tokens = slices.Clone(s.tokens)
	return &t
}

func memberName(m int) string { return string(rune('a' + m)) }

// id is the member id of a process.
func (s *small) id(m int) string {
	if s.b.Twins {
		return "a"
	}
	return memberName(m)
}

func lifeName(life int) string {
	if life == 0 {
		return ""
	}
	return fmt.Sprintf("i%d", life)
}

// steps are all states that are one step away.
func (s *small) steps() []*small {
	var out []*small
	for m := range s.members {
		out = append(out, s.memberSteps(m)...)
	}
	for i := range s.net {
		out = append(out, s.netSteps(i)...)
	}
	for k := range s.coords {
		out = append(out, s.coordinatorSteps(k)...)
	}
	for _, t := range out {
		t.check()
	}
	return out
}

func (s *small) memberSteps(m int) []*small {
	var out []*small
	r := s.members[m]
	if !r.waits && (r.life != 0 || s.incarnations < maxSmall-1) {
		out = append(out, s.ask(m))
	}
	for shard := range s.b.Shards {
		if bit := uint8(1) << shard; r.draining&bit != 0 {
			t := s.child("%s has drained %d", memberName(m), shard)
			t.members[m].draining &^= bit
			t.members[m].released |= bit
			out = append(out, t)
		}
	}
	if r.waits {
		// It gives up on the answer and will ask again. While request or answer
		// are still on their way this is a fault: they are late.
		late := s.onItsWay(m)
		if !late || s.faults < s.b.Faults {
			t := s.child("%s gives up waiting", memberName(m))
			t.members[m].waits = false
			if late {
				t.faults++
			}
			out = append(out, t)
		}
	}
	if s.faults < s.b.Faults && r.life != 0 && r.epoch > 0 {
		t := s.child("the lease of %s ends", memberName(m))
		t.faults++
		t.over[r.life] = true
		t.members[m] = reader{stopped: r.life, asked: r.asked}
		out = append(out, t)
		t = s.child("%s crashes and comes back", memberName(m))
		t.faults++
		t.over[r.life] = true
		t.members[m] = reader{asked: r.asked}
		out = append(out, t)
	}
	return out
}

// onItsWay reports whether the outstanding request of a member, or its answer,
// is still in the network or at a coordinator.
func (s *small) onItsWay(m int) bool {
	r := &s.members[m]
	return slices.ContainsFunc(s.net, func(x message) bool { return x.to == m && x.life == r.life && x.asked == r.asked }) ||
		slices.ContainsFunc(s.coords, func(h holder) bool {
			return h.busy && h.answer != nil && h.member == m && h.life == r.life && h.asked == r.asked
		})
}

// ask lets a member send its next request.
func (s *small) ask(m int) *small {
	t := s.child("%s asks", memberName(m))
	r := &t.members[m]
	if r.life == 0 {
		t.incarnations++
		r.life = t.incarnations
	}
	r.asked++
	r.waits, r.told = true, r.released
	q := &protocol.Heartbeat{
		ProtocolVersion: 1, RequestID: "q", MemberID: t.id(m), Incarnation: lifeName(r.life),
		StoppedIncarnation: lifeName(r.stopped), MemberEpoch: r.epoch, Capacity: protocol.Capacity{MaxConcurrency: 1},
	}
	for shard := range s.b.Shards {
		bit := uint8(1) << shard
		index := protocol.ShardIndex(shard)
		switch {
		case r.owned&bit != 0:
			q.OwnedShards = append(q.OwnedShards, index)
		case r.draining&bit != 0:
			q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: index, State: protocol.RevokeDraining, InFlight: 1})
		case r.released&bit != 0:
			q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: index, State: protocol.RevokeRevoked})
		}
	}
	t.net = append(t.net, message{to: m, life: r.life, asked: r.asked, request: q})
	return t
}

func (s *small) netSteps(i int) []*small {
	var out []*small
	msg := s.net[i]
	if msg.answer {
		t := s.child("%s hears %s %d", memberName(msg.to), msg.response.Status, msg.response.MemberEpoch)
		t.net = slices.Delete(t.net, i, i+1)
		t.hear(msg)
		out = append(out, t)
	} else {
		for k := range s.coords {
			if !s.coords[k].busy {
				t := s.child("c%d takes the request of %s", k+1, memberName(msg.to))
				t.net = slices.Delete(t.net, i, i+1)
				t.load(k, msg)
				out = append(out, t)
			}
		}
	}
	if s.faults < s.b.Faults {
		t := s.child("a message is lost")
		t.net = slices.Delete(t.net, i, i+1)
		t.faults++
		out = append(out, t)
		if !msg.answer && len(s.net) < 2*s.b.Members {
			t = s.child("a message is repeated")
			t.net = append(t.net, msg)
			t.faults++
			out = append(out, t)
		}
	}
	return out
}

// load lets a coordinator read the state and apply a request to it.
func (s *small) load(k int, msg message) {
	next, resp, _, err := group.Apply(s.store, s.input(), group.Beat{Request: msg.request})
	if err != nil {
		s.bad = err.Error()
		return
	}
	h := holder{
		busy: true, revision: s.revision, next: next, changed: resp.Changed, member: msg.to, life: msg.life, asked: msg.asked,
		answer: &resp.Answers[0].HeartbeatResponse,
	}
	if resp.Answers[0].Life != "" {
		h.renews = msg.life
	}
	s.coords[k] = h
}

func (s *small) input() group.Input {
	return group.Input{Now: wallStart.Add(time.Second), ID: "n", Rules: s.b.Rules}
}

func (s *small) coordinatorSteps(k int) []*small {
	var out []*small
	h := s.coords[k]
	if h.busy {
		t := s.child("c%d saves", k+1)
		t.save(k)
		return append(out, t)
	}
	for life := 1; life <= s.incarnations; life++ {
		if !s.over[life] {
			continue
		}
		for i := range s.store.Lives {
			if l := &s.store.Lives[i]; l.Incarnation == lifeName(life) {
				t := s.child("c%d finds the lease of %s over", k+1, l.Key())
				in := t.input()
				in.Expired = map[string]bool{l.Key(): true}
				next, resp, _, err := group.Apply(t.store, in, group.Tick{})
				if err != nil {
					t.bad = err.Error()
				}
				if resp.Changed || err != nil {
					t.coords[k] = holder{busy: true, revision: t.revision, next: next, changed: true, expires: life, stamp: t.stamps[life]}
					out = append(out, t)
				}
			}
		}
	}
	return out
}

// save writes what a coordinator has applied, if nothing has changed since, and
// sends the answer.
func (s *small) save(k int) {
	h := s.coords[k]
	s.coords[k] = holder{}
	if h.revision != s.revision || (h.expires != 0 && h.stamp != s.stamps[h.expires] && s.b.Rules.On(rules.ExpiryIsConditional)) {
		// Nothing was written; the member asks again when it has waited enough.
		return
	}
	if h.changed {
		s.store = h.next
		s.revision++
		s.granted()
	}
	if h.renews != 0 {
		s.stamps[h.renews] = (s.stamps[h.renews] + 1) % 4
	}
	if h.answer != nil {
		s.net = append(s.net, message{to: h.member, answer: true, life: h.life, asked: h.asked, response: h.answer})
	}
}

// granted checks that tokens only rise.
func (s *small) granted() {
	for shard, g := range s.store.Ledger.Grant {
		if g != 0 && g < s.tokens[shard] {
			s.bad = fmt.Sprintf("the token of shard %d goes from %d to %d", shard, s.tokens[shard], g)
		}
		s.tokens[shard] = max(s.tokens[shard], g)
	}
}

// hear lets a member apply an answer, if it is the one that it waits for.
func (s *small) hear(msg message) {
	r := &s.members[msg.to]
	matches := r.waits && msg.life == r.life && msg.asked == r.asked
	if !matches && (s.b.Rules.On(rules.MatchAnswer) || r.life != msg.life) {
		return
	}
	r.waits = false
	a := msg.response
	switch a.Status {
	case protocol.StatusOK:
	case protocol.StatusFencedEpoch, protocol.StatusUnknownMember:
		s.over[r.life] = true
		*r = reader{stopped: r.life, asked: r.asked}
		return
	default:
		return
	}
	r.stopped, r.epoch = 0, a.MemberEpoch
	r.released &^= r.told
	var assigned uint8
	for _, x := range a.Assignment.AssignedShards {
		assigned |= 1 << x.Shard
	}
	r.draining |= r.owned &^ assigned
	r.owned &= assigned
	r.owned |= assigned &^ (r.draining | r.released)
}

// check looks for two readers.
func (s *small) check() {
	if s.bad != "" {
		return
	}
	var taken, busy uint8
	for m := range s.members {
		r := &s.members[m]
		if taken&r.owned != 0 || busy&r.owned != 0 || taken&r.draining != 0 {
			s.bad = "two members read one shard, or one reads while another still has work of it"
			return
		}
		taken |= r.owned
		busy |= r.draining
	}
}

// hash identifies a state up to the numbers of its epochs.
func (s *small) hash() uint64 {
	var epochs []protocol.Epoch
	s.eachEpoch(func(e protocol.Epoch) { epochs = append(epochs, e) })
	// Those of messages take part in the order; the messages themselves are a
	// bag, so they are written by messageKey.
	for i := range s.net {
		if m := &s.net[i]; m.answer {
			epochs = append(epochs, m.response.MemberEpoch)
		} else {
			epochs = append(epochs, m.request.MemberEpoch)
		}
	}
	slices.Sort(epochs)
	epochs = slices.Compact(epochs)
	h := fnv.New64a()
	buf := make([]byte, 0, 512)
	put := func(n int) { buf = binary.AppendVarint(buf, int64(n)) }
	s.eachEpoch(func(e protocol.Epoch) {
		i, _ := slices.BinarySearch(epochs, e)
		put(i)
	})
	for i := range s.store.Lives {
		l := &s.store.Lives[i]
		buf = append(buf, l.Member...)
		buf = append(buf, l.Incarnation...)
		put(int(l.State))
	}
	for i := range s.store.Target {
		put(int(s.store.Target[i]))
		put(int(s.store.Ledger.Holder[i]))
	}
	for _, x := range s.store.Ended {
		buf = append(buf, x.Incarnation...)
		buf = append(buf, x.Reason...)
	}
	for m := range s.members {
		r := &s.members[m]
		put(r.life)
		put(r.stopped)
		buf = append(buf, r.owned, r.draining, r.released, r.told)
		if r.waits {
			put(1)
		}
		put(-1)
	}
	for k := range s.coords {
		c := &s.coords[k]
		if c.busy {
			put(c.member)
			put(c.life)
			put(c.expires)
			put(c.renews)
			put(int(int8(s.revision - c.revision)))
			put(int(s.stamps[c.expires] - c.stamp))
			// What it will write follows from what it has read and been asked.
			for i := range c.next.Lives {
				buf = append(buf, c.next.Lives[i].Incarnation...)
				put(int(c.next.Lives[i].State))
			}
			for i := range c.next.Target {
				put(int(c.next.Target[i]))
				put(int(c.next.Ledger.Holder[i]))
			}
			if c.answer != nil {
				s.putAnswer(&buf, c.answer)
				put(int(s.members[c.member].asked - c.asked))
			}
		}
		put(-2)
	}
	lines := make([]string, len(s.net))
	for i := range s.net {
		lines[i] = s.messageKey(&s.net[i], epochs)
	}
	// Messages are a bag: their order means nothing.
	slices.SortFunc(lines, cmp.Compare[string])
	buf = append(buf, strings.Join(lines, ";")...)
	for life := 1; life <= s.incarnations; life++ {
		if s.over[life] {
			put(life)
		}
	}
	put(s.faults)
	put(s.incarnations)
	// A hash never fails to write.
	_, _ = h.Write(buf)
	return h.Sum64()
}

func (s *small) putAnswer(buf *[]byte, a *protocol.HeartbeatResponse) {
	*buf = append(*buf, a.Status...)
	for _, x := range a.Assignment.AssignedShards {
		*buf = append(*buf, byte(x.Shard))
	}
}

func (s *small) messageKey(m *message, epochs []protocol.Epoch) string {
	rank := func(e protocol.Epoch) int {
		i, _ := slices.BinarySearch(epochs, e)
		return i
	}
	age := int(s.members[m.to].asked - m.asked)
	if m.answer {
		var b []byte
		s.putAnswer(&b, m.response)
		return fmt.Sprint("a", m.to, m.life, age, rank(m.response.MemberEpoch), string(b))
	}
	q := m.request
	return fmt.Sprint("q", m.to, m.life, age, rank(q.MemberEpoch), q.OwnedShards, q.RevokingShards, q.StoppedIncarnation)
}

// eachEpoch walks over every epoch of a state, always in the same order.
func (s *small) eachEpoch(visit func(protocol.Epoch)) {
	ledger := func(g *group.State) {
		for i := range g.Lives {
			visit(g.Lives[i].JoinEpoch)
			visit(g.Lives[i].Acked)
			visit(g.Lives[i].Epoch)
		}
		for i := range g.Ledger.Grant {
			visit(g.Ledger.Grant[i])
			visit(g.Ledger.Revoke[i])
		}
	}
	ledger(&s.store)
	for m := range s.members {
		visit(s.members[m].epoch)
	}
	for k := range s.coords {
		if s.coords[k].busy {
			ledger(&s.coords[k].next)
			if s.coords[k].answer != nil {
				visit(s.coords[k].answer.MemberEpoch)
			}
		}
	}
}
