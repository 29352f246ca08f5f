package linear

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

const (
	writers      = 4
	writerTime   = 3 * time.Minute
	checkTimeout = 2 * time.Minute
	// faultEvery is how much the writers note between two faults, in bytes: of a few dozen
	// calls.
	faultEvery = 8 << 10
)

// TestWritersSeeOneOrder: several processes load, save, renew and delete the same
// few groups, while something happens to them, to their connections or to the
// servers. All they were told has one explanation.
func TestWritersSeeOneOrder(t *testing.T) {
	faultkit.Slow(t)
	for _, test := range []struct {
		name    string
		kind    faultkit.Kind
		options faultkit.Options
		// fault is done again and again while the writers run.
		fault func(t *testing.T, s *faultkit.Server)
		// kill ends one of the writers in the middle.
		kill bool
		// lenient: conflicts have other causes, too.
		lenient bool
		// unknown: there must be outcomes that nobody knows.
		unknown bool
		// pause lies between two calls of a writer, where the fault takes its time.
		pause time.Duration
	}{
		{name: "nothing happens", kind: faultkit.Redis7},
		{name: "connections break", kind: faultkit.Redis7, fault: breakConnections, unknown: true},
		{name: "replies are lost", kind: faultkit.Redis7, options: faultkit.Options{Proxied: true}, fault: loseReplies, unknown: true},
		{name: "scripts are forgotten and a writer is killed", kind: faultkit.Redis7, fault: forgetScripts, kill: true, unknown: true},
		{name: "a Cluster", kind: faultkit.Cluster, fault: breakConnections, unknown: true},
		{name: "slots of a Cluster move", kind: faultkit.Cluster, fault: moveSlots, lenient: true, pause: 15 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.kind.Start(t, test.options)
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			common := plan{Seed: seed, Pause: test.pause}
			if s.Kind.Clustered {
				common.Addrs = s.Addrs()
			} else {
				common.URL = "redis://" + s.Addrs()[0]
			}
			ops := runWriters(t, common, test.kill, func() {
				if test.fault != nil {
					test.fault(t, s)
				}
			})
			judge(t, ops, test.unknown, !test.lenient)
		})
	}
}

// judge looks for an order that explains what the writers were told. unknown says that
// there must be outcomes that nobody knows, strict that nothing but the conditions makes
// a conflict.
func judge(t *testing.T, ops []op, unknown, strict bool) {
	t.Helper()
	count := map[string]int{}
	for _, o := range ops {
		count[o.Kind+" "+o.Outcome]++
		count[o.Outcome]++
	}
	t.Logf("%d calls: %v", len(ops), count)
	for _, what := range []string{"load done", "save done", "renew done", "delete done", "save conflict", "renew conflict"} {
		if count[what] == 0 {
			t.Errorf("nothing was tried: no %s", what)
		}
	}
	if unknown && count[outcomeUnknown] == 0 {
		t.Error("nothing happened: the outcome of each call is known")
	}
	result, info := porcupine.CheckOperationsVerbose(model(strict), operations(ops), checkTimeout)
	if result != porcupine.Ok {
		show(t, info, model(strict))
		t.Errorf("%s: no order explains what the writers were told", result)
	}
}

// show writes the history to a file that a browser shows.
func show(t *testing.T, info porcupine.LinearizationInfo, m porcupine.Model) {
	t.Helper()
	file, err := os.CreateTemp("", "linear-*.html") //nolint:usetesting // it is to be looked at after the test
	if err != nil {
		t.Log(err)
		return
	}
	defer func() { _ = file.Close() }() // what is missing shows
	if err := porcupine.Visualize(m, info, file); err != nil {
		t.Log(err)
	}
	t.Logf("the history is in %s", file.Name())
}

// runWriters runs the writers to their end, and the fault beside them.
func runWriters(t *testing.T, common plan, kill bool, fault func()) []op {
	t.Helper()
	dir := t.TempDir()
	processes := make([]*faultkit.Process, writers)
	outs := make([]string, writers)
	for i := range writers {
		p := common
		p.Name, p.Out = fmt.Sprintf("w%d", i), filepath.Join(dir, fmt.Sprintf("w%d.jsonl", i))
		p.Seed += uint64(i)
		p.Workers, p.Calls, p.Keys = 3, 250, 4
		if kill && i == 0 {
			p.Calls = 1 << 20 // it does not come to its end by itself
		}
		outs[i] = p.Out
		processes[i] = faultkit.RunSelf(t, p.Name, p)
	}
	if kill {
		faultkit.Eventually(t, writerTime, "the first writer to be in the middle", func() bool {
			info, err := os.Stat(outs[0])
			return err == nil && info.Size() > 20_000
		})
		// Not between two calls: at least one is never answered.
		processes[0].Pause()
		for under := 0; under == 0; {
			for _, o := range readNotes(t, outs[0]) {
				if o.Outcome == outcomeUnknown {
					under++
				}
			}
			if under == 0 {
				processes[0].Resume()
				processes[0].Pause()
			}
		}
		processes[0].Kill()
	}
	deadline := time.Now().Add(writerTime)
	hurt := int64(0)
	for i, p := range processes {
		for p.Runs() {
			if time.Now().After(deadline) {
				t.Fatal("the writers do not come to an end")
			}
			// Not more often than the writers get on, however slow they are.
			if now := written(t, outs); now >= hurt+faultEvery {
				hurt = now
				fault()
			}
			select {
			case <-p.Ended():
			case <-time.After(20 * time.Millisecond):
			}
		}
		if code := p.Wait(writerTime); code != 0 && (!kill || i != 0) {
			t.Fatalf("%s ended with %d: %s", p.Name, code, p.Log())
		}
	}
	var ops []op
	for _, out := range outs {
		ops = append(ops, readNotes(t, out)...)
	}
	return ops
}

// written is how many bytes the writers have noted.
func written(t *testing.T, outs []string) (sum int64) {
	t.Helper()
	for _, out := range outs {
		info, err := os.Stat(out)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has not begun
		}
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

// breakConnections cuts all clients off from one of the nodes.
func breakConnections(t *testing.T, s *faultkit.Server) {
	t.Helper()
	for _, n := range s.Masters() {
		err := n.Client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err()
		if err != nil && !redis.HasErrorPrefix(err, "ERR") {
			t.Log(err) // its own connection may have been among them
		}
	}
}

// loseReplies loses the next answer to a script.
func loseReplies(_ *testing.T, s *faultkit.Server) {
	s.Proxies[0].Lose(faultkit.Loss{Command: "EVALSHA", Every: 1, Times: 1})
}

// moveSlots moves each slot to another master.
func moveSlots(t *testing.T, s *faultkit.Server) {
	t.Helper()
	if keys := s.MoveAll(); keys < 64 {
		t.Errorf("only %d keys were moved, fewer than there are besides the groups", keys)
	}
}

func forgetScripts(t *testing.T, s *faultkit.Server) {
	t.Helper()
	if err := s.Nodes[0].Client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}
