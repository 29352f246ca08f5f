package main

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/redis-stream-coordinator/rsc/core/assign"
)

// topic stands for the stream. One topic only: a group of ours has one stream.
const topic = "t"

// generation is what every member reports, so that none of their reports is
// taken for an outdated one.
const generation = 1

// peer is franz-go's sticky balancer, with the reports of a group's members
// lying ready.
type peer struct {
	balancer kgo.GroupBalancer
	members  []kmsg.JoinGroupResponseMember // sorted by id
	topics   map[string]int32
	index    map[string]int32 // of a member, by its id
	shards   int
}

func newPeer(g group) *peer {
	p := &peer{
		// CooperativeSticky would hold back the shards that move, and look
		// lighter than it is.
		balancer: kgo.StickyBalancer(),
		topics:   map[string]int32{topic: int32(len(g.owner))},
		index:    make(map[string]int32, g.members),
		shards:   len(g.owner),
	}
	for m, shards := range g.owned() {
		var current map[string][]int32
		if len(shards) > 0 {
			current = map[string][]int32{topic: shards}
		}
		member := kmsg.NewJoinGroupResponseMember()
		member.MemberID = fmt.Sprintf("member-%06d", m)
		member.ProtocolMetadata = p.balancer.JoinGroupMetadata([]string{topic}, current, generation)
		p.members = append(p.members, member)
		p.index[member.MemberID] = int32(m)
	}
	return p
}

// peerTime is what one call of the peer took.
type peerTime struct {
	balance time.Duration // BalanceOrError alone
	path    time.Duration // from the members' reports to their encoded assignments
}

// plan runs the peer once.
func (p *peer) plan() ([]kmsg.SyncGroupRequestGroupAssignment, peerTime, error) {
	start := time.Now()
	member, _, err := p.balancer.MemberBalancer(p.members)
	if err != nil {
		return nil, peerTime{}, fmt.Errorf("peer: decode the members: %w", err)
	}
	balancer, ok := member.(kgo.GroupMemberBalancerOrError)
	if !ok {
		return nil, peerTime{}, fmt.Errorf("peer: %T has no BalanceOrError: compare with the version in go.mod", member)
	}
	decoded := time.Now()
	plan, err := balancer.BalanceOrError(p.topics)
	balanced := time.Now()
	if err != nil {
		return nil, peerTime{}, fmt.Errorf("peer: balance: %w", err)
	}
	encoded := plan.IntoSyncAssignment()
	return encoded, peerTime{balance: balanced.Sub(decoded), path: time.Since(start)}, nil
}

// target reads the peer's answer as an array like ours.
func (p *peer) target(answer []kmsg.SyncGroupRequestGroupAssignment) ([]int32, error) {
	target := make([]int32, p.shards)
	for s := range target {
		target[s] = assign.None
	}
	for _, a := range answer {
		m, known := p.index[a.MemberID]
		if !known {
			return nil, fmt.Errorf("peer: assignment for %q, who is no member", a.MemberID)
		}
		topics, err := kgo.ParseConsumerSyncAssignment(a.MemberAssignment)
		if err != nil {
			return nil, fmt.Errorf("peer: read the assignment of %s: %w", a.MemberID, err)
		}
		for _, s := range topics[topic] {
			if int(s) >= len(target) || target[s] != assign.None {
				return nil, fmt.Errorf("peer: shard %d of %d is assigned twice or does not exist", s, len(target))
			}
			target[s] = m
		}
	}
	return target, nil
}
