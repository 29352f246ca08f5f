package assign

import (
	"slices"
	"testing"
)

// verify plans held and previous, checks everything that a plan promises
// whatever its input, and returns the plan.
func verify(t testing.TB, held, previous []int32, members int) []int32 {
	t.Helper()
	heldBefore, previousBefore := slices.Clone(held), slices.Clone(previous)
	target := Plan(held, previous, members)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
		t.Fatalf("members  %d\nheld     %v\nprevious %v\ntarget   %v", members, held, previous, target)
	}
	if !slices.Equal(held, heldBefore) || !slices.Equal(previous, previousBefore) {
		fail("Plan changed its arguments, which were\n%v\n%v", heldBefore, previousBefore)
	}
	if again := Plan(held, previous, members); !slices.Equal(again, target) {
		fail("planned again: %v", again)
	}
	if len(target) != len(held) {
		fail("%d targets for %d shards", len(target), len(held))
	}
	if members <= 0 {
		for s, m := range target {
			if m != None {
				fail("shard %d has a target without any member", s)
			}
		}
		return target
	}
	f := survey(held, previous, target, members)
	switch {
	case f.outOfRange >= 0:
		fail("shard %d goes to no member", f.outOfRange)
	case slices.Max(f.load)-slices.Min(f.load) > 1:
		fail("loads %v differ by more than one", f.load)
	case f.moves != MinMoves(held, previous, members):
		fail("%d moves, the minimum is %d", f.moves, MinMoves(held, previous, members))
	}
	quota := len(held) / members
	for m := range members {
		for n := range members {
			if f.load[m] > f.load[n] && f.rank(n, quota) < f.rank(m, quota) {
				fail("member %d has an extra shard, member %d should come first", m, n)
			}
		}
	}
	for s := range held {
		owner, to, got := f.owner[s], f.previous[s], target[s]
		if owner == None {
			continue
		}
		settled, revoked := f.held[s] == to, f.held[s] != None && f.held[s] != to
		switch {
		case revoked && to != None && got != to && f.outsiders[to] && (got != owner || f.diverted[owner]):
			fail("shard %d was on its way to %d, where another shard took its room", s, to)
		case revoked && got == owner && f.freeTaken[owner]:
			fail("shard %d, being revoked, stays with %d, which loses a free shard instead", s, owner)
		case !settled && got == owner && f.settledTaken[owner] < len(held):
			fail("shard %d stays with %d, which has to let go of a settled shard instead", s, owner)
		case settled && got == owner && s > f.settledTaken[owner]:
			fail("shard %d stays with %d, but the lower shard %d is taken", s, owner, f.settledTaken[owner])
		}
	}
	return target
}

// findings are the facts about one plan that verify judges.
type findings struct {
	held, previous, owner []int32 // cleaned: a live member or None
	load, owned, promised []int   // per member: by the plan, now, by the previous target
	moves                 int     // shards taken from their owner
	outOfRange            int     // a shard whose target is no member, or -1

	// Per member: does it get shards that it does not own and that were not on
	// their way to it; did it lose a shard to another member than the one that
	// shard was on its way to; did it lose a free shard; the lowest settled
	// shard taken from it, or the number of shards.
	outsiders, diverted, freeTaken []bool
	settledTaken                   []int
}

// rank orders the members by their claim to one shard above the quota.
func (f *findings) rank(m, quota int) int {
	rank := m
	if f.promised[m] <= quota {
		rank += len(f.load)
	}
	if f.owned[m] <= quota {
		rank += 2 * len(f.load)
	}
	return rank
}

func survey(held, previous, target []int32, members int) findings {
	f := findings{
		held: make([]int32, len(held)), previous: make([]int32, len(held)), owner: make([]int32, len(held)),
		load:  make([]int, members),
		owned: make([]int, members), promised: make([]int, members),
		outOfRange: -1,
		outsiders:  make([]bool, members), diverted: make([]bool, members),
		freeTaken: make([]bool, members), settledTaken: make([]int, members),
	}
	for m := range f.settledTaken {
		f.settledTaken[m] = len(held)
	}
	clean := func(m int32) int32 {
		if m < 0 || int(m) >= members {
			return None
		}
		return m
	}
	for s := range held {
		f.held[s], f.previous[s] = clean(held[s]), None
		if s < len(previous) {
			f.previous[s] = clean(previous[s])
		}
		f.owner[s] = f.held[s]
		if f.held[s] == None {
			f.owner[s] = f.previous[s]
		}
		got := clean(target[s])
		if got == None {
			f.outOfRange = s
			return f
		}
		f.load[got]++
		owner, to := f.owner[s], f.previous[s]
		if owner != None {
			f.owned[owner]++
		}
		if to != None {
			f.promised[to]++
		}
		if got != owner && got != to {
			f.outsiders[got] = true
		}
		if owner == None || got == owner {
			continue
		}
		f.moves++
		if got != to {
			f.diverted[owner] = true
		}
		if f.held[s] == None {
			f.freeTaken[owner] = true
		}
		if f.held[s] == to {
			f.settledTaken[owner] = min(f.settledTaken[owner], s)
		}
	}
	return f
}
