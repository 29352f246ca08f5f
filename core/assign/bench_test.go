package assign

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// BenchmarkPlan times the events that a group goes through, from a balanced
// group whose shards lie scattered over its members, as after long churn.
// "underway" plans again while nothing of a tenth of new members' shards has
// been let go of yet.
func BenchmarkPlan(b *testing.B) {
	for _, size := range []struct{ shards, members int }{{1_000, 100}, {10_000, 1_000}, {100_000, 1_000}} {
		for _, e := range events(size.shards, size.members) {
			b.Run(fmt.Sprintf("%dx%d/%s", size.shards, size.members, e.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					Plan(e.held, e.previous, e.members)
				}
				b.ReportMetric(float64(MinMoves(e.held, e.previous, e.members)), "moves")
			})
		}
	}
}

// An event is what happened to a group, as the arguments of Plan.
type event struct {
	name           string
	held, previous []int32
	members        int
}

func events(shards, members int) []event {
	settled := func(name string, owner []int32, members int) event {
		return event{name, owner, owner, members}
	}
	base := scattered(shards, members)
	more := members + members/10
	return []event{
		settled("fresh", without(base, func(int32) bool { return true }), members),
		settled("stable", base, members),
		settled("join1", base, members+1),
		settled("leave1", without(base, func(m int32) bool { return m == int32(members-1) }), members-1),
		settled("join10pct", base, more),
		settled("leave10pct", without(base, func(m int32) bool { return int(m) >= members-members/10 }), members-members/10),
		settled("double", append(base[:shards:shards], nobody(shards)...), members),
		settled("half", base[:shards/2], members),
		{"underway", base, Plan(base, base, more), more},
	}
}

// scattered is a balanced assignment in random order, the same in every run.
func scattered(shards, members int) []int32 {
	owner := make([]int32, shards)
	for s := range owner {
		owner[s] = int32(s % members)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	rnd.Shuffle(shards, func(i, j int) { owner[i], owner[j] = owner[j], owner[i] })
	return owner
}

func nobody(shards int) []int32 {
	owner := make([]int32, shards)
	for s := range owner {
		owner[s] = None
	}
	return owner
}

// without is owner after the members that are gone have left.
func without(owner []int32, gone func(int32) bool) []int32 {
	rest := make([]int32, len(owner))
	for s, m := range owner {
		rest[s] = m
		if gone(m) {
			rest[s] = None
		}
	}
	return rest
}
