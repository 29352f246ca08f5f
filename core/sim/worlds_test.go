package sim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
)

var worlds = flag.Int("worlds", 0, "visit small worlds until so many distinct states were seen; 0 visits some ten thousand")

// TestSmallWorlds visits every state of some small worlds, up to a depth or a
// number of states.
func TestSmallWorlds(t *testing.T) {
	limit := *worlds
	if limit == 0 {
		limit = 40_000
	}
	began := time.Now()
	states, violations := 0, 0
	for _, b := range []WorldBounds{
		{Members: 2, Shards: 2, Coordinators: 1, Faults: 1},
		{Members: 2, Shards: 1, Coordinators: 2, Faults: 1, Twins: true},
		{Members: 2, Shards: 2, Coordinators: 2, Faults: 1},
		{Members: 3, Shards: 3, Coordinators: 2, Faults: 2},
	} {
		b.Depth, b.MaxStates = 100, limit/4
		r := Explore(b)
		states += r.States
		if r.Violation != "" {
			violations++
			t.Errorf("%d members, %d shards: %s\n%s", b.Members, b.Shards, r.Violation, strings.Join(r.Path, "\n"))
		}
		fmt.Printf("worlds: members=%d shards=%d coordinators=%d faults=%d depth=%d complete=%v states=%d steps=%d\n",
			b.Members, b.Shards, b.Coordinators, b.Faults, r.Depth, r.Complete, r.States, r.Steps)
	}
	took := time.Since(began)
	fmt.Printf("worlds: states=%d violations=%d seconds=%.1f\n", states, violations, took.Seconds())
}

// TestSmallWorldsNoticeABrokenRule shows that the search can fail.
func TestSmallWorldsNoticeABrokenRule(t *testing.T) {
	for off, b := range map[rules.Rule]WorldBounds{
		rules.NewEpochPerChange:     {Members: 2, Shards: 2, Coordinators: 1, Faults: 1},
		rules.MatchAnswer:           {Members: 2, Shards: 2, Coordinators: 1, Faults: 1},
		rules.RestartHoldsOldGrants: {Members: 2, Shards: 1, Coordinators: 1, Faults: 1, Twins: true},
	} {
		b.Depth, b.MaxStates, b.Rules = 40, 200_000, rules.Without(off)
		r := Explore(b)
		if r.Violation == "" {
			t.Errorf("rule %d: not noticed within %d states, depth %d", off, r.States, r.Depth)
			continue
		}
		fmt.Printf("worlds: rule %d off: %s, after %d states, in %d steps\n", off, r.Violation, r.States, len(r.Path))
	}
}
