package main

import (
	"fmt"
	"math/rand/v2"

	"github.com/redis-stream-coordinator/rsc/core/assign"
)

// size is how large a group is before the event.
type size struct{ shards, members int }

func (s size) String() string { return fmt.Sprintf("%dx%d", s.shards, s.members) }

// sizes are the groups that are compared.
var sizes = []size{{1_000, 100}, {10_000, 1_000}, {100_000, 1_000}}

// group is what an assignor is asked about: who owns each shard, by the index
// of a live member or [assign.None], and how many members live. Nothing is in
// transit: what is held is what the previous target said.
type group struct {
	owner   []int32
	members int
}

// event is something that happens to a balanced group.
type event struct {
	name string
	// ratio is how many times faster than the peer we have to be.
	ratio float64
	// happen returns the group after the event.
	happen func(g group) group
}

// The ratios that are asked for.
const (
	ratioOfChange = 10 // events that place or move something in a good group
	ratioOfRest   = 5  // nothing to do, or half of the shards gone
)

// events are what is compared, in the order of the report.
var events = []event{
	{"fresh", ratioOfChange, func(g group) group { return g.keepMembers(0).joined(g.members) }},
	{"stable", ratioOfRest, func(g group) group { return g }},
	{"join1", ratioOfChange, func(g group) group { return g.joined(1) }},
	{"leave1", ratioOfChange, func(g group) group { return g.keepMembers(g.members - 1) }},
	{"join10pct", ratioOfChange, func(g group) group { return g.joined(g.members / 10) }},
	{"leave10pct", ratioOfChange, func(g group) group { return g.keepMembers(g.members - g.members/10) }},
	{"double", ratioOfChange, func(g group) group { return g.resized(2 * len(g.owner)) }},
	{"half", ratioOfRest, func(g group) group { return g.resized(len(g.owner) / 2) }},
}

// scattered returns a balanced group whose shards lie in random order, the same
// one in every run.
func scattered(s size) group {
	owner := make([]int32, s.shards)
	for i := range owner {
		owner[i] = int32(i % s.members)
	}
	rnd := rand.New(rand.NewPCG(uint64(s.shards), uint64(s.members)))
	rnd.Shuffle(len(owner), func(i, j int) { owner[i], owner[j] = owner[j], owner[i] })
	return group{owner: owner, members: s.members}
}

func (g group) joined(n int) group {
	return group{owner: g.owner, members: g.members + n}
}

// keepMembers returns g after all but the first n members have left.
func (g group) keepMembers(n int) group {
	owner := make([]int32, len(g.owner))
	for s, m := range g.owner {
		owner[s] = m
		if m >= int32(n) {
			owner[s] = assign.None
		}
	}
	return group{owner: owner, members: n}
}

func (g group) resized(shards int) group {
	owner := make([]int32, shards)
	for s := copy(owner, g.owner); s < shards; s++ {
		owner[s] = assign.None
	}
	return group{owner: owner, members: g.members}
}

// owned returns the shards of each member.
func (g group) owned() [][]int32 {
	owned := make([][]int32, g.members)
	for s, m := range g.owner {
		if m != assign.None {
			owned[m] = append(owned[m], int32(s))
		}
	}
	return owned
}

// outcome is what a plan does to a group.
type outcome struct {
	moves  int // shards taken from a live owner
	spread int // difference between the largest and the smallest load
}

// judge returns the outcome of target, or an error when it leaves a shard out.
func (g group) judge(target []int32) (outcome, error) {
	if len(target) != len(g.owner) {
		return outcome{}, fmt.Errorf("%d targets for %d shards", len(target), len(g.owner))
	}
	var o outcome
	load := make([]int, g.members)
	for s, m := range target {
		if m < 0 || int(m) >= g.members {
			return outcome{}, fmt.Errorf("shard %d goes to member %d of %d", s, m, g.members)
		}
		load[m]++
		if g.owner[s] != assign.None && g.owner[s] != m {
			o.moves++
		}
	}
	least, most := load[0], load[0]
	for _, n := range load {
		least, most = min(least, n), max(most, n)
	}
	o.spread = most - least
	return o, nil
}
