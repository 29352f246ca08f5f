package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
)

// small sizes play every scene in no time.
var small = sizes{
	members: 12, shards: 40,
	smallMembers: 3, largeMembers: 9, shardsEach: 2,
	groupMembers: 3, groupShards: 20, cycles: 1,
	stormMembers: 8, stormShards: 30,
	memoryMembers: 20, memoryShards: 64,
	handOvers: 8,
}

// mostOf is by how much a figure that is to be 0 may be above it here. Members that start
// together are given all at once by when they come, and on a machine that stands still they
// come one after the other.
var mostOf = map[string]float64{
	"revocations": oneByOne(small.stormShards, small.stormMembers),
	"detours":     float64(small.cycles) * oneByOne(small.groupShards, small.groupMembers),
}

// oneByOne is how many shards move when members join one after the other: each is given
// its share of what the others have.
func oneByOne(shards, members int) float64 {
	moved := 0
	for n := 2; n <= members; n++ {
		moved += (shards + n - 1) / n
	}
	return float64(moved)
}

// The figures of small groups mean nothing, but everything else about the scenes
// does: all of them can be played, no heartbeat fails in any, each figure is taken,
// and what must never happen does not.
func TestEveryScene(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is not on the PATH, and CI must not go without these tests")
		}
		t.Skip("SKIPPED, and much is untested without it: redis-server is not on the PATH")
	}
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		t.Skip("needs a redis-server: left out of the fast tests")
	}
	s, err := parse([]string{"-rounds=1", "-sample=150ms", "-connections=4"})
	if err != nil {
		t.Fatal(err)
	}
	server, err := startRedis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.close(); err != nil {
			t.Error(err)
		}
	}()
	b := &bench{settings: s, sizes: small, redis: server}
	for _, one := range scenes(s) {
		t.Run(one.name, func(t *testing.T) {
			if one.name == "memory" && os.Getenv("GOWORK") == "off" {
				t.Skip("builds the command, which the workspace knows")
			}
			results, err := b.play(t.Context(), []scene{one}, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			r := &results[0]
			for _, target := range r.targets {
				for _, figure := range []string{target.figure, target.peer} {
					if _, taken := r.rounds[0][figure]; figure != "" && !taken {
						t.Errorf("nothing was measured as %q", figure)
					}
				}
				if value, most := r.value(target), mostOf[target.figure]; target.atMost && target.limit == 0 && value > most {
					t.Errorf("%s: %g, must be %g at most", target.what, value, most)
				}
			}
			for _, n := range r.notes {
				if _, taken := r.rounds[0][n.figure]; !taken {
					t.Errorf("nothing was measured as %q", n.figure)
				}
			}
			if disorder := r.rounds[0]["records out of order"]; disorder != 0 {
				t.Errorf("%g records out of order", disorder)
			}
		})
	}
}

// TestStoresScene is the same for the stores that are installed here.
func TestStoresScene(t *testing.T) {
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		t.Skip("needs servers: left out of the fast tests")
	}
	s, err := parse([]string{"-rounds=1", "-sample=150ms", "-connections=4", "-stores=all"})
	if err != nil {
		t.Fatal(err)
	}
	server, err := startRedis(t.Context())
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("SKIPPED: %v", err)
	}
	defer func() {
		if err := server.close(); err != nil {
			t.Error(err)
		}
	}()
	results, err := (&bench{settings: s, sizes: small, redis: server}).play(t.Context(), []scene{storesScene(s.stores)}, t.Output())
	switch {
	case errors.Is(err, sqltest.ErrMissing) && os.Getenv("CI") == "":
		t.Skipf("SKIPPED: %v", err)
	case err != nil:
		t.Fatal(err)
	}
	for _, name := range storeNames {
		for _, figure := range []string{" keepalives", " join storm"} {
			if results[0].rounds[0][name+figure] <= 0 {
				t.Errorf("nothing was measured as %q", name+figure)
			}
		}
	}
}

func TestReportSaysWhatWasMissed(t *testing.T) {
	r := result{scene: scene{name: "one", targets: []target{
		{what: "fast", figure: "ours", peer: "theirs", unit: perSecond, limit: 1},
		{what: "seldom", figure: "bad", unit: count, atMost: true, limit: 0},
		{what: "soon", figure: "time", unit: millis, atMost: true, limit: 5},
	}, notes: []note{{"size", megabytes}}}}
	r.rounds = []measured{
		{"ours": 200, "theirs": 100, "bad": 0, "time": 1, "size": 3},
		{"ours": 90, "theirs": 100, "bad": 1, "time": 900, "size": 4},
		{"ours": 110, "theirs": 100, "bad": 0, "time": 4, "size": 5},
	}
	var out bytes.Buffer
	if err := printReport(&out, []result{r}, settings{rounds: 3}, "7"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"110 /s", "1.10", "≥ 1 ", // the middle one of the ratios
		"(0 to 1)", // once is once too often
		"4.0 ms", "size 4.0 MB",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "MISSED"); n != 1 {
		t.Errorf("%d targets are missed, want 1:\n%s", n, out.String())
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"-rounds=0"}, {"-sample=1ms"}, {"-connections=0"}, {"-only=("}, {"-stores=oracle"}, {"what"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
