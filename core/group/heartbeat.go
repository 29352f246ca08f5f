package group

import (
	"fmt"
	"slices"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// asked is what was decided about a request; the answer is made from the state
// after the whole change.
type asked struct {
	q *protocol.Heartbeat
	// status is the verdict; with StatusOK the answer shows the assignment of
	// the life member/incarnation.
	status      protocol.Status
	reason      string
	incarnation string
	// renews is true when the request proves that the life is alive.
	renews bool
}

// verdict notes a refusal: nothing changes and nothing is renewed.
func (c *change) verdict(q *protocol.Heartbeat, status protocol.Status, format string, args ...any) {
	c.asked = append(c.asked, asked{q: q, status: status, reason: fmt.Sprintf(format, args...)})
}

// accept notes that the request of a life was taken.
func (c *change) accept(q *protocol.Heartbeat, life int32, renews bool) {
	if renews {
		c.renewed[life] = true
	}
	c.asked = append(c.asked, asked{
		q: q, status: protocol.StatusOK, incarnation: c.s.Lives[life].Incarnation, renews: renews,
	})
}

// beat decides one heartbeat.
func (c *change) beat(q *protocol.Heartbeat) {
	switch {
	case q.ProtocolVersion != protocol.Version:
		c.verdict(q, protocol.StatusUnsupportedProtocol, "protocol version %d is not spoken here, %d is", q.ProtocolVersion, protocol.Version)
		return
	case q.MemberID == "":
		c.verdict(q, protocol.StatusInvalidRequest, "memberId: must not be blank")
		return
	case q.MemberEpoch < protocol.EpochLeave:
		c.verdict(q, protocol.StatusInvalidRequest, "memberEpoch: is %d, must be -1, 0 or an epoch that was given", q.MemberEpoch)
		return
	}
	if why, ended := c.ended(q); ended {
		if q.MemberEpoch == protocol.EpochLeave && why == EndLeft {
			c.verdict(q, protocol.StatusUnknownMember, "the member has left")
			return
		}
		c.verdict(q, protocol.StatusFencedEpoch, "%s", overReason(why))
		return
	}
	switch q.MemberEpoch {
	case protocol.EpochJoin:
		c.join(q)
	case protocol.EpochLeave:
		c.leave(q)
	default:
		c.steady(q)
	}
}

// overReason tells a client what to do once its incarnation is over.
func overReason(why EndReason) string {
	return fmt.Sprintf("this incarnation is over (%s): stop reading and join as a new one", why)
}

// ended finds out whether the incarnation that a request comes from is over: by
// its tombstone, or by the life itself while that still holds something.
func (c *change) ended(q *protocol.Heartbeat) (EndReason, bool) {
	if q.Incarnation == "" || !c.on(rules.EndedStaysEnded) {
		return "", false
	}
	if why, over := c.tombstone(q.MemberID, q.Incarnation); over {
		return why, true
	}
	for i := range c.livesOf(q.MemberID) {
		l := &c.s.Lives[i]
		if l.same(q) && (l.State == Over || l.State == Leaving && q.MemberEpoch != protocol.EpochLeave) {
			return EndLeft, true
		}
	}
	return "", false
}

// active returns the life that is the member now.
func (c *change) active(member string) (int32, bool) { return c.find(member, Active) }

func (c *change) find(member string, state LifeState) (int32, bool) {
	for i := range c.livesOf(member) {
		if c.s.Lives[i].State == state {
			return i, true
		}
	}
	return None, false
}

// same reports whether a request speaks for a life.
func (l *Life) same(q *protocol.Heartbeat) bool {
	if q.Incarnation == "" {
		return l.Legacy
	}
	return !l.Legacy && l.Incarnation == q.Incarnation
}

// join decides epoch 0.
func (c *change) join(q *protocol.Heartbeat) {
	life, living := c.active(q.MemberID)
	stops := false
	if living {
		l := &c.s.Lives[life]
		stops = q.StoppedIncarnation != "" && q.StoppedIncarnation == l.Incarnation && !l.Legacy
		switch {
		case l.same(q) && (!l.Legacy || l.Acked == 0):
			// The join again, because its answer was lost: the same answer. Once
			// a later epoch was sent back it is only a late copy of the join.
			if l.Legacy && !l.Doubtful {
				l.Doubtful = true
				c.changed = true
			}
			c.accept(q, life, l.Acked == 0)
			return
		case q.StoppedIncarnation != "" && !stops && c.on(rules.RejoinNeverDisplaces):
			c.free(q)
			c.verdict(q, protocol.StatusRetry,
				"another process works under the member id %q: stop it, or give this one an id of its own", q.MemberID)
			return
		}
	}
	if !c.admits(q, living) {
		return
	}
	switch {
	case stops:
		c.stop(life)
	case living:
		c.replace(life)
	}
	c.free(q)
	c.accept(q, c.born(q, living && !stops), true)
}

// admits refuses a join that cannot become a life, before anything is taken
// from the life that it would follow.
func (c *change) admits(q *protocol.Heartbeat, living bool) bool {
	limit := protocol.MaxMembers
	if living {
		// It follows on a member that is counted already, and that may have to
		// be kept beside it until its lease is over.
		limit = maxLives
	}
	if len(c.s.Lives) >= limit {
		c.verdict(q, protocol.StatusInvalidRequest, "the group has %d members, more are not allowed", len(c.s.Lives))
		return false
	}
	for i := range c.livesOf(q.MemberID) {
		if l := &c.s.Lives[i]; l.Legacy && l.Incarnation == q.Incarnation {
			c.verdict(q, protocol.StatusFencedEpoch, "the incarnation id is taken: join with one that was never used")
			return false
		}
	}
	return true
}

// stop frees what a life held whose process says that it stopped it.
func (c *change) stop(life int32) {
	c.releaseAll(life, ByRestart, 0)
	c.end(life, EndStopped, "")
}

// replace ends a life whose name a fresh process takes over. Its process may
// still run, so its grants are held until its lease is over.
func (c *change) replace(life int32) {
	if !c.on(rules.RestartHoldsOldGrants) {
		c.releaseAll(life, ByRestart, 0)
	}
	c.end(life, EndReplaced, "another process joined under the same member id")
}

// free carries out stoppedIncarnation for a life that is over or leaving, and
// remembers the id even if it was never seen: its join may still be on its way.
func (c *change) free(q *protocol.Heartbeat) {
	if q.StoppedIncarnation == "" {
		return
	}
	for i := range c.livesOf(q.MemberID) {
		if l := &c.s.Lives[i]; l.Incarnation == q.StoppedIncarnation && !l.Legacy && l.State != Active {
			c.releaseAll(i, ByRestart, 0)
			if l.State == Leaving {
				c.end(i, EndStopped, "")
			}
		}
	}
	c.entomb(q.MemberID, q.StoppedIncarnation, EndStopped)
}

// born adds a life. The target of the life before it goes over to it, so that
// it gets its shards back.
func (c *change) born(q *protocol.Heartbeat, replaced bool) int32 {
	life := int32(len(c.s.Lives))
	l := Life{Member: q.MemberID, Name: q.MemberName, Incarnation: q.Incarnation, JoinedAt: c.in.Now}
	if l.Name == "" {
		l.Name = l.Member
	}
	if l.Incarnation == "" {
		l.Legacy = true
		l.Incarnation = fmt.Sprintf("legacy-%s-%d", c.in.ID, life)
	}
	l.JoinEpoch = c.draw()
	l.Epoch = l.JoinEpoch
	c.drawn[life] = true
	c.s.Lives = append(c.s.Lives, l)
	for before := range c.index().livesOf(l.Member) {
		c.heirs[before] = life
	}
	c.joined[l.Member] = append(c.joined[l.Member], life)
	c.membership = true
	c.emit(MemberJoined{Member: l.Member, Incarnation: l.Incarnation, Epoch: l.JoinEpoch, Replaced: replaced})
	return life
}

// leave decides epoch -1.
func (c *change) leave(q *protocol.Heartbeat) {
	life, found := None, false
	for i := range c.livesOf(q.MemberID) {
		if l := &c.s.Lives[i]; l.State != Over && l.same(q) {
			life, found = i, true
		}
	}
	if !found {
		if _, living := c.active(q.MemberID); living && q.Incarnation != "" {
			c.verdict(q, protocol.StatusFencedEpoch, "another incarnation works under this member id")
			return
		}
		c.verdict(q, protocol.StatusUnknownMember, "no such member")
		return
	}
	l := &c.s.Lives[life]
	first := l.State == Active
	if first {
		l.State = Leaving
		c.membership = true
		c.changed = true
		c.emit(MemberLeaving{Member: l.Member, Incarnation: l.Incarnation})
		c.revokeAll(life)
	}
	if !c.on(rules.LeaverIsNotFenced) && slices.ContainsFunc(q.OwnedShards, func(shard protocol.ShardIndex) bool {
		return !c.heldBy(int(shard), life)
	}) {
		c.end(life, EndFenced, "it claims what it does not hold")
		c.verdict(q, protocol.StatusFencedEpoch, "a shard is claimed that is not held")
		return
	}
	keep := map[int]bool{}
	for i := range q.RevokingShards {
		if r := &q.RevokingShards[i]; !r.Terminal() {
			keep[int(r.Shard)] = true
		}
	}
	undrained := len(keep) > 0
	switch {
	case l.Legacy && l.Doubtful && c.on(rules.LegacyLeaveHolds):
		// It may be the goodbye of another process: the lease decides.
	case l.Legacy && c.on(rules.LegacyLeaveHolds):
		// An old client lists as owned what it reports REVOKED in the same
		// request, so being owned keeps nothing here.
		c.releaseReported(q, life, keep)
	case c.on(rules.LeavingHolds):
		// Final: the client starts nothing after it, so what it does not list
		// it does not read.
		for _, s := range q.OwnedShards {
			keep[int(s)] = true
		}
		c.releaseUnlisted(life, keep)
	default:
		c.releaseAll(life, ByLeave, 0)
	}
	if !undrained && !c.holds(life) {
		c.end(life, EndLeft, "")
		c.asked = append(c.asked, asked{q: q, status: protocol.StatusOK})
		return
	}
	c.notice(q, life)
	// An old client that has adopted -1 repeats it for ever; it does not keep
	// what it held unless it reports work in flight.
	c.accept(q, life, first || !l.Legacy || undrained)
}

// revokeAll takes back what a life holds; it keeps it until it lets go.
func (c *change) revokeAll(life int32) {
	for _, shard := range c.mayHold(life) {
		if c.heldBy(int(shard), life) && c.s.Ledger.Revoke[shard] == 0 {
			epoch := c.newEpoch(life)
			c.ledger().Revoke[shard] = epoch
			c.emit(ShardRevoked{Shard: protocol.ShardIndex(shard), Member: c.s.Lives[life].Member, Epoch: epoch})
		}
	}
}

func (c *change) releaseUnlisted(life int32, keep map[int]bool) {
	for _, held := range c.mayHold(life) {
		if shard := int(held); c.heldBy(shard, life) && !keep[shard] {
			c.release(shard, ByLeave)
		}
	}
}

// releaseReported frees the shards that are reported REVOKED, unless the same
// request lists them otherwise as well.
func (c *change) releaseReported(q *protocol.Heartbeat, life int32, keep map[int]bool) {
	for i := range q.RevokingShards {
		r := &q.RevokingShards[i]
		shard := int(r.Shard)
		if !r.Terminal() || keep[shard] || !c.heldBy(shard, life) {
			continue
		}
		if q.MemberEpoch != protocol.EpochLeave && q.MemberEpoch < c.s.Ledger.Grant[shard] && c.on(rules.RevokedNeedsGrantEpoch) {
			// It speaks of an earlier grant of the same shard, and comes late.
			continue
		}
		c.release(shard, ByReport)
	}
}

func (c *change) heldBy(shard int, life int32) bool {
	return shard >= 0 && shard < len(c.s.Ledger.Holder) && c.s.Ledger.Holder[shard] == life
}

// steady decides a heartbeat with an epoch that was given.
func (c *change) steady(q *protocol.Heartbeat) {
	life, living := c.active(q.MemberID)
	if !living || !c.s.Lives[life].same(q) {
		c.stranger(q, living)
		return
	}
	l := &c.s.Lives[life]
	oldest := max(l.JoinEpoch, l.Acked)
	if !c.on(rules.OlderEpochIsValid) {
		oldest = l.Epoch
	}
	if q.MemberEpoch < oldest && (c.on(rules.StaleIsRefused) || !c.on(rules.OlderEpochIsValid)) {
		c.verdict(q, protocol.StatusFencedEpoch, "epoch %d is over, the member has acknowledged %d", q.MemberEpoch, oldest)
		return
	}
	if c.reported(q, life) {
		return
	}
	if q.MemberEpoch > l.Acked {
		l.Acked = q.MemberEpoch
		c.changed = true
	}
	if q.MemberName != "" && q.MemberName != l.Name {
		l.Name = q.MemberName
		c.changed = true
	}
	if shard, wrong := c.claims(q, life); wrong {
		c.end(life, EndFenced, fmt.Sprintf("it claims to own shard %d, which was not granted to it", shard))
		c.asked = append(c.asked, asked{q: q, status: protocol.StatusFencedEpoch,
			reason: fmt.Sprintf("shard %d is claimed as owned but was not granted: stop reading and join as a new incarnation", shard)})
		return
	}
	c.apply(q, life)
	c.notice(q, life)
	c.accept(q, life, true)
}

// stranger refuses a request for an incarnation that is not the member.
func (c *change) stranger(q *protocol.Heartbeat, living bool) {
	_, leaving := c.find(q.MemberID, Leaving)
	_, over := c.find(q.MemberID, Over)
	if living || leaving || over {
		c.verdict(q, protocol.StatusFencedEpoch, "another incarnation works under this member id: stop reading and join as a new one")
		return
	}
	c.verdict(q, protocol.StatusUnknownMember, "no such member: join with epoch 0")
}

// claims finds a shard that the member says it owns, at its present epoch,
// although it was never granted to it. At an older epoch it may own what was
// taken from it since.
func (c *change) claims(q *protocol.Heartbeat, life int32) (protocol.ShardIndex, bool) {
	if q.MemberEpoch != c.s.Lives[life].Epoch {
		return 0, false
	}
	for _, shard := range q.OwnedShards {
		if !c.heldBy(int(shard), life) {
			return shard, true
		}
	}
	return 0, false
}

// apply takes a report over: what the member has let go of is free.
func (c *change) apply(q *protocol.Heartbeat, life int32) {
	if odd := c.oddRows(q, life); odd > 0 {
		c.emit(RowsIgnored{Member: q.MemberID, Rows: odd})
	}
	if !c.mayRelease(q, life) {
		return
	}
	listed := make(map[int]bool, len(q.OwnedShards)+len(q.RevokingShards))
	for _, s := range q.OwnedShards {
		listed[int(s)] = true
	}
	for i := range q.RevokingShards {
		if r := &q.RevokingShards[i]; !r.Terminal() {
			listed[int(r.Shard)] = true
		}
	}
	c.releaseReported(q, life, listed)
	for _, held := range c.mayHold(life) {
		shard := int(held)
		if !c.heldBy(shard, life) || listed[shard] {
			continue
		}
		revoked := c.s.Ledger.Revoke[shard]
		switch {
		case revoked == 0:
			// Granted and not reported yet: the member may not have heard of
			// it, or it has just begun to read. It is held.
			if !c.on(rules.UnreportedIsHeld) {
				c.release(shard, ByOmission)
			}
		case q.MemberEpoch >= revoked || !c.on(rules.OmissionNeedsRevokeEpoch):
			// It has applied an assignment without the shard, and says nothing
			// of it: it does not read it.
			c.release(shard, ByOmission)
		}
	}
}

// mayRelease spares the look at what is held for a report that cannot free
// anything.
func (c *change) mayRelease(q *protocol.Heartbeat, life int32) bool {
	if len(q.RevokingShards) > 0 || !c.on(rules.UnreportedIsHeld) {
		return true
	}
	return slices.ContainsFunc(c.mayHold(life), func(shard int32) bool {
		return c.heldBy(int(shard), life) && c.s.Ledger.Revoke[shard] != 0
	})
}

// oddRows counts the rows of a report that speak of shards which the member
// cannot know anything about. They are ignored.
func (c *change) oddRows(q *protocol.Heartbeat, life int32) int {
	odd := 0
	for i := range q.RevokingShards {
		if r := &q.RevokingShards[i]; !r.Terminal() && !c.heldBy(int(r.Shard), life) {
			odd++
		}
	}
	for i := range q.ShardProgress {
		if s := int(q.ShardProgress[i].Shard); s < 0 || s >= len(c.s.Ledger.Holder) {
			odd++
		}
	}
	return odd
}
