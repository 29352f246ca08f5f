package assign

import "slices"

// planner carries one call of Plan through its steps.
type planner struct {
	held, previous []int32
	// target starts as the present owners. The steps that take shards set them
	// to their next owner or to None, and fill places what is None.
	target []int32
	// room has an entry per member: how many shards it may still be given or,
	// below zero, how many have to be taken from it.
	room []int32
	// surplus is what is still to be taken, over all members; loose the number
	// of shards with an owner that is not settled (see takeLoose).
	surplus, loose int
}

// keepAll finds the present owner of every shard; target comes in as a copy of
// held. It counts, per member, the shards owned now, and in drift by how many
// more the previous target had.
func (p *planner) keepAll(owned, drift []int32) {
	settled, untouched := countSettled(p.held, p.previous, owned)
	if settled+untouched == len(p.held) {
		return // whenever no plan is under way
	}
	members := len(owned)
	for s, h := range p.held {
		v := at(p.previous, s)
		if h == v && uint32(h+1) <= uint32(members) {
			continue // counted, or None and None
		}
		h, v = live(h, members), live(v, members)
		owner := h
		if owner == None {
			owner = v
		}
		p.target[s] = owner
		if owner == None {
			continue
		}
		owned[owner]++
		if h != v {
			p.loose++
		}
		if v != owner {
			drift[owner]--
			if v != None {
				drift[v]++
			}
		}
	}
}

// countSettled counts the shards whose holder is their previous target too, in
// all and per member, and those that have neither. Nearly all shards are one or
// the other, so this loop is a good part of the whole work; inlined into Plan
// it runs out of registers.
//
//go:noinline
func countSettled(held, previous, owned []int32) (settled, untouched int) {
	held = held[:len(previous)]
	for s, v := range previous {
		h := held[s]
		if h != v {
			continue
		}
		if m := uint(uint32(h)); m < uint(len(owned)) {
			owned[m]++
			settled++
		} else if h == None {
			untouched++
		}
	}
	return settled, untouched
}

// setRoom decides how many shards each member shall have, and turns owned into
// the room that this leaves. Every member gets the quota, shards div members,
// and the remainder goes out as extras of one.
//
// The fewest shards move when the extras go to members that own more than the
// quota, as long as there are such. Where that leaves a choice, who had an
// extra in the previous target has it again: shards may be on their way there.
// The last tie goes to the lower index.
func (p *planner) setRoom(owned, drift []int32) {
	quota, extras := int32(len(p.held)/len(owned)), len(p.held)%len(owned)
	tier := func(m int) int {
		t := 0
		if owned[m] <= quota {
			t += 2
		}
		if owned[m]+drift[m] <= quota {
			t++
		}
		return t
	}
	var extrasOf [4]int // by tier
	for m := range owned {
		extrasOf[tier(m)]++
	}
	for t, wanted := range extrasOf {
		extrasOf[t] = min(wanted, extras)
		extras -= extrasOf[t]
	}
	for m, n := range owned {
		room := quota - n
		if t := tier(m); extrasOf[t] > 0 {
			extrasOf[t]--
			room++
		}
		owned[m] = room
		p.surplus -= int(min(room, 0))
	}
	p.room = owned
}

// handOver takes shards that are being revoked in favour of another live
// member, where the owner has a surplus and that member has room. This comes
// first: a plan on its way is finished rather than changed.
func (p *planner) handOver() {
	if p.loose == 0 {
		return
	}
	for s := len(p.target) - 1; s >= 0 && p.surplus > 0; s-- {
		owner, to := p.target[s], live(at(p.previous, s), len(p.room))
		if owner == to || owner == None || to == None {
			continue
		}
		if p.room[owner] < 0 && p.room[to] > 0 {
			p.room[owner]++
			p.room[to]--
			p.surplus--
			p.target[s] = to
		}
	}
}

// takeLoose takes, from owners that still have a surplus, shards that nobody
// has to be told to stop reading. First those that are being revoked but have
// lost the member they were meant for, or its room: their owner would have to
// let go of them even if it got them back. Then free ones.
func (p *planner) takeLoose() {
	if p.loose == 0 {
		return
	}
	p.takeIf(func(holder, previous int32) bool { return holder != None && holder != previous })
	p.takeIf(func(holder, _ int32) bool { return holder == None })
}

// takeIf takes surplus shards that are loose in the way that loose asks for.
func (p *planner) takeIf(loose func(holder, previous int32) bool) {
	members := len(p.room)
	for s := len(p.target) - 1; s >= 0 && p.surplus > 0; s-- {
		owner := p.target[s]
		if owner == None || p.room[owner] >= 0 {
			continue
		}
		if loose(live(p.held[s], members), live(at(p.previous, s), members)) {
			p.take(s, owner)
		}
	}
}

// takeSettled takes the rest of the surplus, so that members keep the lowest
// of their shards.
func (p *planner) takeSettled() {
	for s := len(p.target) - 1; s >= 0 && p.surplus > 0; s-- {
		if owner := p.target[s]; owner != None && p.room[owner] < 0 {
			p.take(s, owner)
		}
	}
}

// take leaves shard s, one of owner's surplus, without a target.
func (p *planner) take(s int, owner int32) {
	p.target[s] = None
	p.room[owner]++
	p.surplus--
}

// fill gives the shards without a target to the members with room, in order.
// Quotas add up to the number of shards, so room and shards end together. Not
// inlined for the same reason as countSettled. Every shard on the way is stored
// again, with its owner or its new one: that is cheaper than a branch where the
// shards of those who left lie scattered.
//
//go:noinline
func (p *planner) fill() {
	target := p.target
	s := slices.Index(target, None)
	for m, room := range p.room {
		for room > 0 {
			owner := target[s]
			next := owner
			if owner == None {
				next = int32(m)
			}
			if next != owner {
				room--
			}
			target[s] = next
			s++
		}
	}
}
