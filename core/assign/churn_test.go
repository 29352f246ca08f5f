package assign

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one and prints it")
	churnSteps = flag.Int("churn", 100_000, "steps of TestChurn")
)

const (
	churnShards  = 48
	churnMembers = 14
)

// TestChurn takes one group through joins, leaves, changes of the shard count
// and the partial execution of its plans, in any order.
func TestChurn(t *testing.T) {
	rnd, seed := newRand(t)
	g := newTestGroup(rnd)
	for step := range *churnSteps {
		before := slices.Clone(g.target)
		changed := true
		switch rnd.IntN(8) {
		case 0:
			g.join(1 + rnd.IntN(3))
		case 1:
			g.leave(1 + rnd.IntN(3))
		case 2:
			g.resize(rnd.IntN(churnShards + 1))
		case 3:
			changed = false
			g.restart()
		default:
			changed = false
			g.progress()
		}
		g.plan(t)
		if !changed && !slices.Equal(g.target, before) {
			t.Fatalf("step %d, seed %d: the target changed while it was carried out\nwas %v\nis  %v",
				step, seed, before, g.target)
		}
	}
}

// TestOneEventMovesEachShardOnce carries out one change of a settled group to
// the end, planning again after each small step: the plan stays, no shard has
// more than one new holder, and the moves are the minimum.
func TestOneEventMovesEachShardOnce(t *testing.T) {
	rnd, seed := newRand(t)
	for round := range 1000 {
		g := newTestGroup(rnd)
		g.resize(1 + rnd.IntN(churnShards))
		g.settle(t)
		holder := slices.Clone(g.holder)
		switch rnd.IntN(3) {
		case 0:
			g.join(1 + rnd.IntN(4))
		case 1:
			g.leave(1 + rnd.IntN(4))
		case 2:
			g.resize(1 + rnd.IntN(churnShards))
		}
		held, previous := g.arrays()
		want := MinMoves(held, previous, len(g.members))
		g.grants = make([]int, len(g.holder))
		plan := g.plan(t)
		g.settle(t)
		if !slices.Equal(g.target, plan) {
			t.Fatalf("round %d, seed %d: planned %v, ended with %v", round, seed, plan, g.target)
		}
		moves := 0
		for s, n := range g.grants {
			if n > 1 {
				t.Fatalf("round %d, seed %d: shard %d was granted %d times", round, seed, s, n)
			}
			if n == 1 && s < len(holder) && slices.Contains(g.members, holder[s]) {
				moves++
			}
		}
		if moves != want {
			t.Fatalf("round %d, seed %d: %d shards changed between live members, the minimum is %d",
				round, seed, moves, want)
		}
	}
}

// testGroup is a group as the ledger and the target know it, by member id;
// id 0 is nobody.
type testGroup struct {
	rnd            *rand.Rand
	members        []int // live, sorted
	holder, target []int
	grants         []int // per shard, how often it was granted
}

func newTestGroup(rnd *rand.Rand) *testGroup {
	g := &testGroup{rnd: rnd}
	g.join(1 + rnd.IntN(churnMembers))
	return g
}

// join adds up to n members whose ids lie anywhere among those of the others.
func (g *testGroup) join(n int) {
	for range n {
		if id := 1 + g.rnd.IntN(1_000_000); len(g.members) < churnMembers && !slices.Contains(g.members, id) {
			g.members = append(g.members, id)
		}
	}
	slices.Sort(g.members)
}

// leave removes up to n members. What they held stays in the ledger until
// progress frees it, as with a member whose lease has to run out.
func (g *testGroup) leave(n int) {
	for range min(n, len(g.members)) {
		at := g.rnd.IntN(len(g.members))
		g.members = slices.Delete(g.members, at, at+1)
	}
}

func (g *testGroup) resize(shards int) {
	for len(g.holder) < shards {
		g.holder, g.target, g.grants = append(g.holder, 0), append(g.target, 0), append(g.grants, 0)
	}
	g.holder, g.target, g.grants = g.holder[:shards], g.target[:shards], g.grants[:shards]
}

// progress carries the plan out a little: some holders that shall let go have
// done so, some free shards are granted to their target.
func (g *testGroup) progress() {
	share := g.rnd.IntN(4)
	for s, holder := range g.holder {
		if g.rnd.IntN(4) > share {
			continue
		}
		switch {
		case holder == 0 && g.target[s] != 0:
			g.holder[s] = g.target[s]
			g.grants[s]++
		case holder != g.target[s]:
			g.holder[s] = 0
		}
	}
}

// restart lets members lose shards that are to stay theirs, as when they stop
// and come back under their names.
func (g *testGroup) restart() {
	for s, holder := range g.holder {
		if holder == g.target[s] && g.rnd.IntN(4) == 0 {
			g.holder[s] = 0
		}
	}
}

// settle carries the plan out to the end.
func (g *testGroup) settle(t *testing.T) {
	t.Helper()
	g.plan(t)
	for range 1000 {
		if slices.Equal(g.holder, g.target) {
			return
		}
		g.progress()
		g.plan(t)
	}
	t.Fatalf("not settled: holders %v, target %v", g.holder, g.target)
}

// arrays returns the arguments of Plan for the group as it is.
func (g *testGroup) arrays() (held, previous []int32) {
	held, previous = make([]int32, len(g.holder)), make([]int32, len(g.holder))
	for s := range held {
		held[s], previous[s] = g.index(g.holder[s]), g.index(g.target[s])
	}
	return held, previous
}

func (g *testGroup) index(id int) int32 {
	if at, live := slices.BinarySearch(g.members, id); live {
		return int32(at)
	}
	return None
}

// plan sets and returns the target for the group as it is.
func (g *testGroup) plan(t *testing.T) []int {
	t.Helper()
	held, previous := g.arrays()
	for s, m := range verify(t, held, previous, len(g.members)) {
		g.target[s] = 0
		if m != None {
			g.target[s] = g.members[m]
		}
	}
	return slices.Clone(g.target)
}
