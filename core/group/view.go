package group

import (
	"slices"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// View is a state with an index over it, so that the answer for one member
// costs what that member holds and not what the group holds. It is built once
// for each state and only read.
type View struct {
	State *State
	// briefs are those of the lives, in their order.
	briefs []brief
	roll
	// rows are the lives as they are stored, each empty until it was written once.
	rows []string
	// held and pending list shards by life, ascending: those of life i are
	// list[start[i]:start[i+1]].
	held, pending byLife
	// trusting leaves out the rule that an answer during a correction carries
	// only what the request says it owns; in tests only.
	trusting bool
}

// brief is all that a heartbeat which changes nothing is compared with, in one place:
// in a large group whatever lies elsewhere would have to be fetched into the cache.
type brief struct {
	// key is that of the life; it begins with the member's name and ends with the
	// incarnation's.
	key          string
	epoch, acked protocol.Epoch
	// from and to are where the life's shards lie in held.list.
	from, to int32
	state    LifeState
	legacy   bool
	// busy is true while something is to be handed over from or to the life.
	busy bool
}

type byLife struct {
	start []int32
	list  []int32
}

func (b byLife) of(life int32) []int32 { return b.list[b.start[life]:b.start[life+1]] }

// NewView indexes a state.
func NewView(s *State) *View { return newView(s, call(s.Lives)) }

func newView(s *State, r roll) *View {
	v := &View{State: s, roll: r, briefs: make([]brief, len(s.Lives)), rows: make([]string, len(s.Lives))}
	for i := range s.Lives {
		l := &s.Lives[i]
		v.briefs[i] = brief{key: r.keys[i], epoch: l.Epoch, acked: l.Acked, state: l.State, legacy: l.Legacy}
	}
	v.held = index(len(s.Lives), s.Ledger.Holder)
	waiting := make([]int32, len(s.Target))
	for shard, t := range s.Target {
		waiting[shard] = t
		if t != None && s.Ledger.Holder[shard] == t && s.Ledger.Revoke[shard] == 0 {
			waiting[shard] = None
		}
	}
	v.pending = index(len(s.Lives), waiting)
	for i := range v.briefs {
		b := &v.briefs[i]
		b.from, b.to = v.held.start[i], v.held.start[i+1]
		b.busy = len(v.pending.of(int32(i))) > 0
	}
	for shard, e := range s.Ledger.Revoke {
		if holder := s.Ledger.Holder[shard]; e != 0 && holder != None {
			v.briefs[holder].busy = true
		}
	}
	return v
}

// index sorts shards by their life, by counting.
func index(lives int, column []int32) byLife {
	b := byLife{start: make([]int32, lives+1)}
	n := int32(0)
	for _, life := range column {
		if life != None {
			b.start[life+1]++
			n++
		}
	}
	for i := 1; i < len(b.start); i++ {
		b.start[i] += b.start[i-1]
	}
	b.list = make([]int32, n)
	next := slices.Clone(b.start)
	for shard, life := range column {
		if life != None {
			b.list[next[life]] = int32(shard)
			next[life]++
		}
	}
	return b
}

// Life finds an incarnation by its key.
func (v *View) Life(key string) (*Life, bool) {
	i, found := v.find(key)
	if !found {
		return nil, false
	}
	return &v.State.Lives[i], true
}

// Key returns the key of the life at a place of State.Lives.
func (v *View) Key(place int) string { return v.briefs[place].key }

// active finds the life that is the member now.
func (v *View) active(member string) (int32, bool) {
	for i := range v.livesOf(member) {
		if v.briefs[i].state == Active {
			return i, true
		}
	}
	return None, false
}

// Active finds the incarnation that is the member now.
func (v *View) Active(member string) (*Life, bool) {
	i, found := v.active(member)
	if !found {
		return nil, false
	}
	return &v.State.Lives[i], true
}

// Held returns the shards that a life holds, ascending; not to be changed.
func (v *View) Held(key string) []int32 {
	i, found := v.find(key)
	if !found {
		return nil
	}
	return v.held.of(i)
}

// Granted reports whether any shard is held by anyone.
func (v *View) Granted() bool { return len(v.held.list) > 0 }

// Answer is the answer OK for a life of the state: what it may read now, and
// what it will get.
func (v *View) Answer(q *protocol.Heartbeat, key string) protocol.HeartbeatResponse {
	life, _ := v.find(key)
	return v.answer(q, life)
}

func (v *View) answer(q *protocol.Heartbeat, life int32) protocol.HeartbeatResponse {
	l, s := &v.State.Lives[life], v.State
	r := protocol.NewHeartbeatResponse(q, protocol.StatusOK, "", s.Timings)
	stamp(&r, s)
	if l.State == Leaving {
		r.MemberEpoch = protocol.EpochLeave
		return r
	}
	r.MemberEpoch = l.Epoch
	held := v.held.of(life)
	r.Assignment.AssignedShards = make([]protocol.AssignedShard, 0, len(held))
	keep := v.kept(q)
	draining := false
	for _, shard := range held {
		switch {
		case s.Ledger.Revoke[shard] != 0:
			draining = true
		case keep == nil || keep[protocol.ShardIndex(shard)]:
			r.Assignment.AssignedShards = append(r.Assignment.AssignedShards,
				protocol.AssignedShard{Shard: protocol.ShardIndex(shard), Epoch: s.Ledger.Grant[shard]})
		}
	}
	pending := v.pending.of(life)
	r.Assignment.PendingShards = make(protocol.Shards, len(pending))
	for i, shard := range pending {
		r.Assignment.PendingShards[i] = protocol.ShardIndex(shard)
	}
	switch {
	case s.Correction == nil:
	case q.MetadataVersion != s.MetadataVersion && q.MemberEpoch != protocol.EpochJoin:
		r.Status = protocol.StatusSyncMetadata
	case draining || len(pending) > 0:
		r.Status = protocol.StatusRevokePending
	}
	if s.Correction != nil {
		r.Reason = "nothing is granted until a lease time has passed: " + s.Correction.Reason
	}
	return r
}

// kept are, during a correction, the shards that a request says it owns: an
// answer carries no others. nil means that there is no correction.
func (v *View) kept(q *protocol.Heartbeat) map[protocol.ShardIndex]bool {
	if v.State.Correction == nil || v.trusting {
		return nil
	}
	keep := make(map[protocol.ShardIndex]bool, len(q.OwnedShards))
	for _, shard := range q.OwnedShards {
		keep[shard] = true
	}
	return keep
}

// stamp puts the group's epochs and version on an answer.
func stamp(r *protocol.HeartbeatResponse, s *State) {
	r.GroupEpoch, r.AssignmentEpoch = s.GroupEpoch, s.AssignmentEpoch
	r.MetadataVersion, r.Assignment.MetadataVersion = s.MetadataVersion, s.MetadataVersion
}

// Steady answers a heartbeat that changes nothing, without an Apply: the member
// is at its present epoch and has acknowledged it, owns exactly what was granted
// to it, and has nothing revoked or pending. ok is false for every other
// request, which needs Apply. The caller must still renew the lease of the life
// at the revision of this state.
func (v *View) Steady(q *protocol.Heartbeat) (a Answer, ok bool) {
	life, found := v.active(q.MemberID)
	s := v.State
	if !found || s.Correction != nil || q.MetadataVersion > s.MetadataVersion || q.ProtocolVersion != protocol.Version || q.MemberEpoch <= protocol.EpochJoin || len(q.RevokingShards) > 0 {
		return Answer{}, false
	}
	b := &v.briefs[life]
	same := b.legacy == (q.Incarnation == "") && (b.legacy || b.key[len(q.MemberID)+1:] == q.Incarnation)
	if !same || b.busy || q.MemberEpoch != b.epoch || b.acked != b.epoch || (q.MemberName != "" && q.MemberName != s.Lives[life].Name) {
		return Answer{}, false
	}
	held := v.held.list[b.from:b.to]
	if len(held) != len(q.OwnedShards) {
		return Answer{}, false
	}
	for i, shard := range held {
		// Clients list their shards in order; one that does not takes the long way.
		if q.OwnedShards[i] != protocol.ShardIndex(shard) {
			return Answer{}, false
		}
	}
	for i := range q.ShardProgress {
		if p := int(q.ShardProgress[i].Shard); p < 0 || p >= len(s.Ledger.Holder) {
			return Answer{}, false
		}
	}
	r := protocol.NewHeartbeatResponse(q, protocol.StatusOK, "", s.Timings)
	stamp(&r, s)
	r.Assignment.AssignedShards = make([]protocol.AssignedShard, len(held))
	for i, shard := range held {
		r.Assignment.AssignedShards[i] = protocol.AssignedShard{Shard: protocol.ShardIndex(shard), Epoch: s.Ledger.Grant[shard]}
	}
	return Answer{HeartbeatResponse: r, Life: b.key, Place: int(life) + 1}, true
}

// Settled reports whether an answer tells its member nothing that the request
// did not show it to know, so that it may be held until something changes.
func Settled(q *protocol.Heartbeat, r *protocol.HeartbeatResponse) bool {
	return r.Status == protocol.StatusOK && q.MemberEpoch > protocol.EpochJoin && r.MemberEpoch == q.MemberEpoch &&
		len(q.RevokingShards) == 0 && reads(q.OwnedShards, r.Assignment.AssignedShards)
}

// reads reports whether a member owns exactly what it is assigned: one that has
// lost sight of a shard is to hear of it now.
func reads(owned protocol.Shards, assigned []protocol.AssignedShard) bool {
	if !slices.IsSorted(owned) {
		owned = slices.Sorted(slices.Values(owned))
	}
	return slices.EqualFunc(owned, assigned, func(s protocol.ShardIndex, a protocol.AssignedShard) bool { return s == a.Shard })
}

// answers makes the answers of a change from the state that it led to.
func (c *change) answers(v *View) []Answer {
	if len(c.asked) == 0 {
		return nil
	}
	v.trusting = !c.on(rules.CorrectionKeepsOwned)
	out := make([]Answer, len(c.asked))
	for i, a := range c.asked {
		out[i] = c.answer(v, a)
	}
	return out
}

func (c *change) answer(v *View, a asked) Answer {
	if a.status == protocol.StatusOK && a.incarnation != "" {
		key := LifeKey(a.q.MemberID, a.incarnation)
		if l, alive := v.Life(key); alive && l.State != Over {
			out := Answer{HeartbeatResponse: v.Answer(a.q, key)}
			if a.renews {
				out.Life = key
			}
			return out
		}
		// The same change ended this incarnation. One that has left has heard
		// what it wanted to hear.
		if why, _ := c.tombstone(a.q.MemberID, a.incarnation); why != EndLeft || a.q.MemberEpoch != protocol.EpochLeave {
			a.status, a.reason = protocol.StatusFencedEpoch, overReason(why)
		}
	}
	r := protocol.NewHeartbeatResponse(a.q, a.status, a.reason, v.State.Timings)
	switch a.status {
	case protocol.StatusInvalidRequest, protocol.StatusUnknownMember, protocol.StatusUnsupportedProtocol:
		// Old clients take the zeroes of a refusal over.
	default:
		stamp(&r, v.State)
	}
	return Answer{HeartbeatResponse: r}
}

// Revocation is a member epoch in which shards were taken from a life that has
// not let go of all of them.
type Revocation struct {
	Life  string
	Epoch protocol.Epoch
}

// Revocations returns the revocations that are pending, with the number of
// shards of each.
func (v *View) Revocations() map[Revocation]int {
	pending := map[Revocation]int{}
	for shard, r := range v.State.Ledger.Revoke {
		if r != 0 {
			pending[Revocation{v.briefs[v.State.Ledger.Holder[shard]].key, r}]++
		}
	}
	return pending
}
