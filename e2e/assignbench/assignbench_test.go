package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/assign"
)

var small = size{shards: 60, members: 7}

// The figures of small groups mean nothing, but everything else about them
// does: both plan, in balance, with the fewest moves.
func TestBothPlanEveryEvent(t *testing.T) {
	results, err := compare([]size{small}, settings{rounds: 3, sample: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) != len(events) {
		t.Fatalf("%d results for %d events", len(results), len(events))
	}
	for _, r := range results {
		if len(r.rounds) != 3 || r.ratio() <= 0 {
			t.Errorf("%s: no figures: %+v", r.event.name, r)
		}
		if r.ours.moves != r.minMoves || r.peer.moves != r.minMoves {
			t.Errorf("%s: we move %d, the peer %d, the minimum is %d", r.event.name, r.ours.moves, r.peer.moves, r.minMoves)
		}
		if r.ours.spread > 1 || r.peer.spread > 1 {
			t.Errorf("%s: loads lie %d apart with us, %d with the peer", r.event.name, r.ours.spread, r.peer.spread)
		}
		if r.ourAllocs > maxAllocs {
			t.Errorf("%s: %v allocations", r.event.name, r.ourAllocs)
		}
	}
}

// If the peer could not read the reports, every event would be a fresh start
// for it, and cheap.
func TestPeerKnowsWhoOwnsWhat(t *testing.T) {
	g := scattered(small)
	p := newPeer(g)
	answer, took, err := p.plan()
	if err != nil {
		t.Fatal(err)
	}
	target, err := p.target(answer)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(target, g.owner) {
		t.Errorf("the peer changed a stable group:\nwas %v\nis  %v", g.owner, target)
	}
	if took.balance <= 0 || took.path < took.balance {
		t.Errorf("the times do not fit together: %+v", took)
	}
}

func TestEvents(t *testing.T) {
	free := func(g group) (n int) {
		for _, m := range g.owner {
			if m == assign.None {
				n++
			}
		}
		return n
	}
	base := scattered(size{shards: 100, members: 20})
	for _, want := range []struct {
		name                  string
		shards, members, free int
	}{
		{"fresh", 100, 20, 100},
		{"stable", 100, 20, 0},
		{"join1", 100, 21, 0},
		{"leave1", 100, 19, 5},
		{"join10pct", 100, 22, 0},
		{"leave10pct", 100, 18, 10},
		{"double", 200, 20, 100},
		{"half", 50, 20, 0},
	} {
		i := slices.IndexFunc(events, func(e event) bool { return e.name == want.name })
		if i < 0 {
			t.Errorf("no event %s", want.name)
			continue
		}
		g := events[i].happen(base)
		if len(g.owner) != want.shards || g.members != want.members || free(g) != want.free {
			t.Errorf("%s: %d shards, %d members, %d free; want %d, %d, %d",
				want.name, len(g.owner), g.members, free(g), want.shards, want.members, want.free)
		}
		if slices.Max(g.owner) >= int32(g.members) {
			t.Errorf("%s: a shard belongs to a member that is gone", want.name)
		}
	}
}

func TestJudge(t *testing.T) {
	g := group{owner: []int32{0, 0, 1, assign.None}, members: 2}
	if o, err := g.judge([]int32{0, 1, 1, 1}); err != nil || o != (outcome{moves: 1, spread: 2}) {
		t.Errorf("got %+v, %v", o, err)
	}
	for _, bad := range [][]int32{{0, 1, 1}, {0, 1, 1, assign.None}, {0, 1, 1, 2}} {
		if _, err := g.judge(bad); err == nil {
			t.Errorf("%v passes for a plan", bad)
		}
	}
}

func TestComplaints(t *testing.T) {
	good := func() result {
		return result{
			event:     event{name: "join1", ratio: 10},
			ours:      outcome{moves: 9, spread: 1},
			minMoves:  9,
			ourAllocs: 2,
			// Ratios 12, 5 and 11.
			rounds: []times{{ours: 1, balance: 12}, {ours: 2, balance: 10}, {ours: 1, balance: 11}},
		}
	}
	for _, tc := range []struct {
		name  string
		spoil func(*result)
		want  []string
	}{
		{"good", func(*result) {}, nil},
		{"slow", func(r *result) { r.rounds[0].balance = 9 }, []string{"9.0 times faster"}},
		{"restless", func(r *result) { r.ours.moves++ }, []string{"+1 moves"}},
		{"uneven", func(r *result) { r.ours.spread = 2 }, []string{"loads 2 apart"}},
		{"wasteful", func(r *result) { r.ourAllocs = 3 }, []string{"3 allocations"}},
		{"all of it", func(r *result) {
			*r = result{event: r.event, ours: outcome{1, 3}, ourAllocs: 9, rounds: []times{{ours: 1, balance: 1}}}
		}, []string{"1.0 times", "+1 moves", "loads 3", "9 allocations"}},
	} {
		r := good()
		tc.spoil(&r)
		got := r.complaints()
		if len(got) != len(tc.want) {
			t.Errorf("%s: complaints %q, want %q", tc.name, got, tc.want)
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(got[i], want) {
				t.Errorf("%s: complaint %q, want %q in it", tc.name, got[i], want)
			}
		}
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	r := result{
		size: small, event: event{name: "join1", ratio: 10},
		ours: outcome{moves: 9}, peer: outcome{moves: 11}, minMoves: 9, ourAllocs: 2, peerAllocs: 77,
		rounds: []times{{ours: 1500, balance: 30_000, path: 60_000}},
	}
	if err := printReport(&out, []result{r}, settings{rounds: 1, sample: time.Millisecond}); err != nil {
		t.Fatal(err)
	}
	want := "60x7 join1 1.5 30.0 60.0 20.0 (40.0) 10 9 0 2 2 77"
	for line := range strings.Lines(out.String()) {
		if strings.Join(strings.Fields(line), " ") == want {
			return
		}
	}
	t.Errorf("no line %q in\n%s", want, out.String())
}

func TestParseRefusesBadSettings(t *testing.T) {
	for _, args := range [][]string{
		{"-rounds=0"}, {"-rounds=1001"}, {"-sample=0s"}, {"-sample=1h"}, {"-rounds=x"}, {"fast"},
	} {
		if s, err := parse(args); err == nil {
			t.Errorf("%q accepted as %+v", args, s)
		}
	}
	if s, err := parse([]string{"-rounds=3", "-sample=2ms"}); err != nil || s != (settings{3, 2 * time.Millisecond}) {
		t.Errorf("got %+v, %v", s, err)
	}
}
