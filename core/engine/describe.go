package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Picture is a group as it was stored at one moment, for display. A state that
// contradicts itself has none: it is refused when it is read.
type Picture struct {
	State   group.State
	Stamps  map[string]string
	Reports map[string]MemberReport
}

// Describe sums the group up.
func (p *Picture) Describe() protocol.Group {
	s := &p.State
	g := protocol.Group{
		StreamPrefix: s.Stream, ConsumerGroup: s.Group, State: s.Summary(),
		GroupEpoch: s.GroupEpoch, AssignmentEpoch: s.AssignmentEpoch, MetadataVersion: s.MetadataVersion,
		ShardCount:               s.ShardCount,
		TargetAssignmentSummary:  map[string]int{},
		CurrentAssignmentSummary: map[string]int{},
	}
	for i := range s.Lives {
		l := &s.Lives[i]
		if l.State == group.Active {
			g.TargetAssignmentSummary[l.Member] = 0
		}
		if n := len(p.owned(l)); n > 0 && l.State != group.Over {
			g.CurrentAssignmentSummary[l.Member] += n
		}
	}
	for _, t := range s.Target {
		if t != group.None {
			g.TargetAssignmentSummary[s.Lives[t].Member]++
		}
	}
	return g
}

// owned are the shards that a life says it reads.
func (p *Picture) owned(l *group.Life) protocol.Shards {
	owned := slices.Clone(p.Reports[l.Key()].Owned)
	slices.Sort(owned)
	if owned == nil {
		owned = protocol.Shards{}
	}
	return owned
}

// Members describes the members, by id. Those that ended since the given time
// are among them.
func (p *Picture) Members(since time.Time) []protocol.Member {
	v := group.NewView(&p.State)
	out := make([]protocol.Member, 0, len(p.State.Lives))
	present := map[string]bool{}
	for i := range p.State.Lives {
		l := &p.State.Lives[i]
		present[l.Member] = true
		out = append(out, p.member(v, l))
	}
	for _, t := range slices.Backward(p.State.Ended) {
		if present[t.Member] || t.At.Before(since) || (t.Reason != group.EndExpired && t.Reason != group.EndFenced) {
			continue
		}
		present[t.Member] = true
		m := emptyMember(t.Member, t.Incarnation, protocol.MemberFenced)
		if t.Reason == group.EndExpired {
			m.State = protocol.MemberExpired
		}
		m.RebalanceTimeoutMs = p.State.Timings.RebalanceTimeout.Milliseconds()
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b protocol.Member) int { return strings.Compare(a.MemberID, b.MemberID) })
	return out
}

func emptyMember(id, incarnation string, state protocol.MemberState) protocol.Member {
	return protocol.Member{
		MemberID: id, MemberName: id, Incarnation: incarnation, State: state,
		CurrentAssignment: protocol.Shards{}, GrantedAssignment: protocol.Shards{}, Revoking: protocol.Shards{},
		ShardProgress: []protocol.ShardProgress{},
	}
}

func (p *Picture) member(v *group.View, l *group.Life) protocol.Member {
	key, t := l.Key(), p.State.Timings
	m := emptyMember(l.Member, l.Incarnation, memberState(l))
	m.MemberName, m.MemberEpoch, m.AckedEpoch = l.Name, l.Epoch, l.Acked
	m.RebalanceTimeoutMs = t.RebalanceTimeout.Milliseconds()
	if report, said := p.Reports[key]; said {
		m.MetadataVersion = report.MetadataVersion
		m.RuntimeMaxConcurrency = report.Capacity.MaxConcurrency
		m.ActiveConsumerWorkers = max(0, report.Capacity.MaxConcurrency-report.Capacity.AvailableConcurrency)
		m.CurrentAssignment = p.owned(l)
		if report.Progress != nil {
			m.ShardProgress = report.Progress
		}
	}
	if at, known := StampTime(p.Stamps[key]); known {
		until := at.Add(t.Lease)
		m.LastHeartbeatAt, m.MemberLeaseExpiresAt = &at, &until
	}
	for _, shard := range v.Held(key) {
		if p.State.Ledger.Revoke[shard] != 0 {
			m.Revoking = append(m.Revoking, protocol.ShardIndex(shard))
		} else {
			m.GrantedAssignment = append(m.GrantedAssignment, protocol.ShardIndex(shard))
		}
	}
	return m
}

func memberState(l *group.Life) protocol.MemberState {
	switch {
	case l.State == group.Leaving:
		return protocol.MemberLeaving
	case l.State == group.Over:
		return protocol.MemberFenced
	case l.Draining:
		return protocol.MemberDraining
	default:
		return protocol.MemberActive
	}
}

// Assignments tells who should hold what, who says that it holds what, and what
// is being let go.
func (p *Picture) Assignments() protocol.Assignments {
	s := &p.State
	a := protocol.Assignments{
		TargetAssignment: map[string]protocol.Shards{}, CurrentAssignments: map[string]protocol.Shards{},
		RevokeProgress: map[string]protocol.Shards{}, InvariantViolations: []string{},
	}
	for i := range s.Lives {
		l := &s.Lives[i]
		if l.State == group.Active {
			a.TargetAssignment[l.Member] = protocol.Shards{}
		}
		if l.State != group.Over {
			a.CurrentAssignments[l.Member] = append(a.CurrentAssignments[l.Member], p.owned(l)...)
		}
	}
	for shard, t := range s.Target {
		if t != group.None {
			m := s.Lives[t].Member
			a.TargetAssignment[m] = append(a.TargetAssignment[m], protocol.ShardIndex(shard))
		}
		if s.Ledger.Revoke[shard] != 0 {
			m := s.Lives[s.Ledger.Holder[shard]].Member
			a.RevokeProgress[m] = append(a.RevokeProgress[m], protocol.ShardIndex(shard))
		}
	}
	return a
}
