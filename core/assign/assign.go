package assign

import "slices"

// None marks a shard without an owner.
const None int32 = -1

// Plan computes the target owner of every shard, as an index into the members
// 0 to members-1, which are the live members sorted by id.
//
// held[s] is the member whose grant for shard s is in the ledger now, also
// when it is being revoked; None when the shard is free or its holder is not
// among the live members. previous[s] is the previous target of shard s; None
// when it had none or that member is not live. Values outside 0 to members-1
// count as None. There are len(held) shards; a shorter previous reads as None
// for the rest, as after a scale-out, and a longer one is cut, as after a
// scale-in.
//
// The result has len(held) entries, belongs to the caller, and is None
// throughout when members is 0 or less. The arguments are neither changed nor
// kept. The same input gives the same result, and while the same members carry
// a plan out (let go of shards, are granted shards), it stays the plan.
//
// Plan takes O(shards + members) time and two allocations: the result, and two
// int32 per member.
func Plan(held, previous []int32, members int) []int32 {
	target := slices.Clone(held)
	if members <= 0 {
		for s := range target {
			target[s] = None
		}
		return target
	}
	p := planner{held: held, previous: cut(previous, len(held)), target: target}
	scratch := make([]int32, 2*members)
	owned, drift := scratch[:members], scratch[members:]
	p.keepAll(owned, drift)
	p.setRoom(owned, drift)
	p.handOver()
	p.takeLoose()
	p.takeSettled()
	p.fill()
	return target
}

// MinMoves returns the smallest number of shards that any plan with loads that
// differ by at most one has to take from the live members that own them now.
// The arguments are those of [Plan], which takes exactly this many.
//
// With q = shards div members, r = shards mod members and o(m) shards that
// member m owns now, it is Σ max(0, o(m)-q) - min(r, #{m: o(m) > q}): whatever
// a member owns above q has to go, but r members may keep one more.
func MinMoves(held, previous []int32, members int) int {
	if members <= 0 {
		return 0
	}
	owned := make([]int, members)
	for s, h := range held {
		owner := live(h, members)
		if owner == None {
			owner = live(at(previous, s), members)
		}
		if owner != None {
			owned[owner]++
		}
	}
	quota, extras := len(held)/members, len(held)%members
	above, moves := 0, 0
	for _, n := range owned {
		if n > quota {
			above++
			moves += n - quota
		}
	}
	return moves - min(extras, above)
}

// live returns m if it is one of the members, else None.
func live(m int32, members int) int32 {
	if uint32(m) >= uint32(members) {
		return None
	}
	return m
}

// at returns previous[s], or None past its end.
func at(previous []int32, s int) int32 {
	if s < len(previous) {
		return previous[s]
	}
	return None
}

// cut drops what previous says about shards that are no more.
func cut(previous []int32, shards int) []int32 {
	return previous[:min(len(previous), shards)]
}
