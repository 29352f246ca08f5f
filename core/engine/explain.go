package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// missedHeartbeats is how many intervals without a heartbeat are worth a word: one
// may be late, and a held one comes after a third of the lease.
const missedHeartbeats = 3

// Explain says why a shard is as it is, at a time of the wall clock.
// Errors: protocol.ErrInvalidRequest for a shard that the group does not have.
func (p *Picture) Explain(shard protocol.ShardIndex, now time.Time) (protocol.Explanation, error) {
	s := &p.State
	if shard < 0 || int(shard) >= len(s.Ledger.Holder) {
		return protocol.Explanation{}, protocol.ErrInvalidRequest.With("shardIndex: is %d, group %q reads the shards 0 to %d of stream %q",
			shard, s.Group, len(s.Ledger.Holder)-1, s.Stream)
	}
	x := explaining{p: p, shard: int(shard), now: now, out: protocol.Explanation{
		StreamPrefix: s.Stream, ConsumerGroup: s.Group, ShardIndex: shard, StreamKey: routing.StreamKey(s.Stream, int(shard)),
	}}
	if h := s.Ledger.Holder[shard]; h != group.None {
		x.holder = &s.Lives[h]
		x.out.Holder = x.describeHolder()
	}
	if t := s.Target[shard]; t != group.None {
		l := &s.Lives[t]
		x.target = l
		x.out.Target = &protocol.ShardTarget{MemberID: l.Member, MemberName: l.Name, State: memberState(l)}
	}
	x.judge()
	x.removal()
	x.out.Settled = x.out.Cause == protocol.CauseNone
	return x.out, nil
}

// removal adds what is to be said of a shard that the stream is to have no more.
func (x *explaining) removal() {
	s := &x.p.State
	switch {
	case x.shard < s.ShardCount:
	case x.shard >= s.ReadCount || s.Closed.Contains(x.shard):
		if x.holder != nil {
			x.out.Summary += "; the shard is empty, and removed from the stream once nobody may read it"
		} else {
			x.say(protocol.CauseRemoved, "the shard was removed from the stream, or is empty and about to be, and nobody may read it any more", "")
		}
	default:
		x.out.Summary += "; the shard is being removed from the stream and is read until it is empty"
	}
}

// explaining is one explanation in the making.
type explaining struct {
	p              *Picture
	shard          int
	now            time.Time
	holder, target *group.Life
	out            protocol.Explanation
}

func (x *explaining) describeHolder() *protocol.ShardHolder {
	l := x.holder
	h := &protocol.ShardHolder{
		MemberID: l.Member, MemberName: l.Name, Incarnation: l.Incarnation, State: memberState(l),
		GrantEpoch: x.p.State.Ledger.Grant[x.shard], RevokeEpoch: x.p.State.Ledger.Revoke[x.shard],
	}
	report := x.p.Reports[l.Key()]
	h.SaysItReads = slices.Contains(report.Owned, protocol.ShardIndex(x.shard))
	for _, r := range report.Revoking {
		if int(r.Shard) == x.shard {
			h.InFlight = r.InFlight
		}
	}
	if at, known := StampTime(x.p.Stamps[l.Key()]); known {
		until := at.Add(x.p.State.LongestLease())
		h.LastHeartbeatAt, h.MemberLeaseExpiresAt = &at, &until
	}
	return h
}

// say sets what was found out.
func (x *explaining) say(cause protocol.Cause, summary, endsWhen string) {
	x.out.Cause, x.out.Summary, x.out.EndsWhen = cause, summary, endsWhen
}

// since sets the time at which an epoch was drawn.
func (x *explaining) since(e protocol.Epoch) {
	if at, exact := x.p.State.DrawnAt(e); !at.IsZero() {
		x.out.Since, x.out.SinceExact = &at, exact
	}
}

func (x *explaining) sinceTime(at *time.Time) {
	x.out.Since, x.out.SinceExact = at, at != nil
}

// leaseEnd is when the holder's lease ends unless it is heard of again, by the clock
// of the coordinator that it spoke to last; nil where nothing was heard of it.
func (x *explaining) leaseEnd() *time.Time { return x.out.Holder.MemberLeaseExpiresAt }

// judge finds the cause.
func (x *explaining) judge() {
	switch {
	case x.holder == nil:
		x.unheld()
	case x.holder.State == group.Over:
		x.sinceTime(x.out.Holder.LastHeartbeatAt)
		x.say(protocol.CauseOldIncarnation,
			fmt.Sprintf("an incarnation of member %q that is over may still read it%s", x.holder.Member, x.waits()),
			"its lease ends, or the same process joins again and says that it has stopped reading")
		x.out.EndsBy = x.leaseEnd()
	case x.holder.State == group.Leaving:
		x.since(x.p.State.Ledger.Revoke[x.shard])
		x.say(protocol.CauseLeaving,
			fmt.Sprintf("member %q leaves and still works on it%s", x.holder.Member, x.waits()),
			"it reports the shard as let go, or its lease ends")
		x.out.EndsBy = x.leaseEnd()
	case x.p.State.Ledger.Revoke[x.shard] != 0:
		x.revoking()
	case x.silentFor() > 0:
		x.sinceTime(x.out.Holder.LastHeartbeatAt)
		x.say(protocol.CauseSilent,
			fmt.Sprintf("member %q holds it and has not been heard of for %s", x.holder.Member, x.silentFor().Truncate(time.Second)),
			"it is heard of again, or its lease ends and the shard goes to another member")
		x.out.EndsBy = x.leaseEnd()
	case x.out.Holder.LastHeartbeatAt == nil:
		x.say(protocol.CauseSilent,
			fmt.Sprintf("member %q holds it; when it was last heard of is not known, since the proof of it was lost", x.holder.Member),
			"it is heard of again, or its lease ends and the shard goes to another member")
	case !x.out.Holder.SaysItReads:
		x.since(x.out.Holder.GrantEpoch)
		x.say(protocol.CauseNotReported,
			fmt.Sprintf("it was granted to member %q, which has not said yet that it reads it", x.holder.Member),
			"its next heartbeat, or the end of its lease")
		x.out.EndsBy = x.leaseEnd()
	default:
		x.since(x.out.Holder.GrantEpoch)
		x.say(protocol.CauseNone, fmt.Sprintf("member %q reads it, as it should", x.holder.Member), "")
	}
}

// waits names who waits for the shard.
func (x *explaining) waits() string {
	if x.target == nil || x.target == x.holder {
		return ""
	}
	return fmt.Sprintf("; member %q waits for it", x.target.Member)
}

// unheld explains a shard that nobody may read.
func (x *explaining) unheld() {
	s := &x.p.State
	x.since(s.GroupEpoch)
	switch {
	case s.Correction != nil:
		x.sinceTime(&s.Correction.OpenedAt)
		x.say(protocol.CauseCorrection,
			"nobody reads it, and nothing is granted now: "+s.Correction.Reason,
			"every live member has sent a heartbeat since, and one lease time has passed")
		if !x.silentMembers() {
			by := s.Correction.OpenedAt.Add(s.LongestLease())
			x.out.EndsBy = &by
		}
	case x.target != nil:
		x.say(protocol.CauseToBeGranted, fmt.Sprintf("nobody reads it; it is meant for member %q", x.target.Member), "the next change of the group grants it")
	case s.HasActive():
		x.say(protocol.CauseAllDraining, "nobody reads it: every live member of the group is drained", "a member joins, or an operator ends a drain")
	default:
		x.say(protocol.CauseNoMember, "nobody reads it: the group has no live member", "a member joins")
	}
}

// silentMembers reports whether a live member has not answered a correction yet.
func (x *explaining) silentMembers() bool {
	return slices.ContainsFunc(x.p.State.Lives, func(l group.Life) bool { return l.State != group.Over && !l.InSync })
}

// revoking explains a shard that its holder is to let go.
func (x *explaining) revoking() {
	s, h := &x.p.State, x.out.Holder
	x.since(h.RevokeEpoch)
	doing := "has not said anything of it yet"
	switch {
	case x.holder.Acked < h.RevokeEpoch && h.SaysItReads:
		doing = "has not heard of it yet"
	case h.InFlight > 0:
		doing = fmt.Sprintf("works on %d records of it", h.InFlight)
	}
	x.say(protocol.CauseRevoking,
		fmt.Sprintf("member %q was asked to let it go and %s%s", x.holder.Member, doing, x.waits()),
		"it reports the shard as let go; at the latest the rebalance timeout, which fences it, or the end of its lease")
	if x.out.Since != nil {
		by := x.out.Since.Add(max(s.Timings.RebalanceTimeout, s.LongestLease()))
		x.out.EndsBy = &by
	}
}

// silentFor is how long nothing was heard of the holder, 0 while that is ordinary.
func (x *explaining) silentFor() time.Duration {
	at := x.out.Holder.LastHeartbeatAt
	if at == nil {
		return 0
	}
	t := x.p.State.Timings
	silent := x.now.Sub(*at)
	if silent <= max(missedHeartbeats*t.HeartbeatInterval, t.Lease/2) {
		return 0
	}
	return silent
}
