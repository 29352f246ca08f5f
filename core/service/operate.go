package service

import (
	"context"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// DrainMember takes a member out of work, or with undo puts it back; it returns the
// member as it is then. Repeated, it changes nothing.
// Errors: protocol.ErrInvalidRequest, ErrGroupNotFound, ErrMemberNotFound.
func (c *Coordinator) DrainMember(ctx context.Context, prefix, name, member string, undo bool, r protocol.Order) (protocol.Member, error) {
	if err := c.open(protocol.ValidateName("memberId", member), r.Validate()); err != nil {
		return protocol.Member{}, err
	}
	key := port.GroupKey{Stream: prefix, Group: name}
	if err := c.changeGroup(ctx, key, group.Drain{Member: member, Undo: undo}); err != nil {
		return protocol.Member{}, err
	}
	p, err := c.picture(ctx, key)
	if err != nil {
		return protocol.Member{}, err
	}
	for _, m := range p.Members(c.input().Now) {
		// One that leaves, or whose older life holds something still, is none.
		if m.MemberID == member && (m.State == protocol.MemberActive || m.State == protocol.MemberDraining) {
			return m, nil
		}
	}
	return protocol.Member{}, protocol.ErrMemberNotFound.With("group %q of stream %q has no live member %q: list its members", name, prefix, member)
}

// Timings tells what a group lives by.
// Errors: protocol.ErrGroupNotFound, ErrStoreUnavailable.
func (c *Coordinator) Timings(ctx context.Context, prefix, name string) (protocol.GroupTimings, error) {
	s, err := c.groupState(ctx, port.GroupKey{Stream: prefix, Group: name})
	if err != nil {
		return protocol.GroupTimings{}, err
	}
	return protocol.GroupTimings{
		StreamPrefix: prefix, ConsumerGroup: name,
		HeartbeatIntervalMs: s.Timings.HeartbeatInterval.Milliseconds(), MemberLeaseTTLMs: s.Timings.Lease.Milliseconds(),
		RebalanceTimeoutMs: s.Timings.RebalanceTimeout.Milliseconds(), LongestLeaseMs: s.LongestLease().Milliseconds(),
	}, nil
}

// ChangeTimings changes some of the timings of a group while it lives, see
// SetTimings.
func (c *Coordinator) ChangeTimings(ctx context.Context, prefix, name string, r protocol.SetTimings) (protocol.GroupTimings, error) {
	if err := c.open(r.Validate()); err != nil {
		return protocol.GroupTimings{}, err
	}
	s, err := c.groupState(ctx, port.GroupKey{Stream: prefix, Group: name})
	if err != nil {
		return protocol.GroupTimings{}, err
	}
	if _, err := c.SetTimings(ctx, prefix, name, r.Apply(s.Timings)); err != nil {
		return protocol.GroupTimings{}, err
	}
	return c.Timings(ctx, prefix, name)
}
