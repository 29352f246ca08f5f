package dataplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// noCeremony is a cluster without hash tags: one command a shard, and nobody is
// sent elsewhere once all know who has what.
func noCeremony(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{shards: 16})
	w.settle(w.join("a"), w.join("b"))
	f := w.newFeed("k", 200, nil)
	f.start(500)
	w.awaitMore(500)
	before := redirections(w)
	w.awaitMore(size(500, 5_000))
	sent := redirections(w) - before
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.note = fmt.Sprintf("%d redirections in the steady state", sent)
	if sent > 0 {
		t.Errorf("%d commands went to the wrong node", sent)
	}
	return found
}

// redirections counts the MOVED and ASK answers of all masters. This test's own
// client learns too, and asks rightly by then.
func redirections(w *world) int {
	w.t.Helper()
	sum := 0
	for _, n := range w.server.Masters() {
		info, err := n.Client.Info(w.t.Context(), "errorstats").Result()
		if err != nil {
			w.t.Fatal(err)
		}
		for line := range strings.SplitSeq(info, "\r\n") {
			for _, kind := range []string{"errorstat_MOVED:count=", "errorstat_ASK:count="} {
				var count int
				if rest, found := strings.CutPrefix(line, kind); found {
					if _, err := fmt.Sscan(rest, &count); err != nil {
						w.t.Fatal(err)
					}
					sum += count
				}
			}
		}
	}
	return sum
}

// slotsMove moves all slots of a cluster to other masters while records flow: no
// group is lost by that, and nobody may think so.
func slotsMove(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{shards: 16})
	members := []*member{w.join("a"), w.join("b")}
	w.settle(members...)
	f := w.newFeed("k", 200, nil)
	f.start(500)
	w.awaitMore(200)
	began := time.Now()
	moved := w.server.MoveAll()
	took := time.Since(began)
	recovered := w.recovery(time.Now())
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = w.worstDelay(), 2*time.Second
	found.note = fmt.Sprintf("%d keys moved in %s; recovery is the worst delay of a record; all shards flow %s after", moved, took.Round(time.Millisecond), recovered.Round(time.Millisecond))
	forbidLog(t, members, "the group was gone", "does not exist")
	return found
}

// failovers changes the master of every shard in order, and then kills one.
func failovers(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{shards: 16})
	members := []*member{w.join("a"), w.join("b")}
	w.settle(members...)
	f := w.newFeed("k", 200, nil)
	f.start(500)
	w.awaitMore(200)
	for _, master := range w.server.Masters() {
		w.server.Failover(master)
	}
	graceful := w.recovery(time.Now())
	// What the killed one had confirmed and not passed on is lost with it.
	w.lossy = true
	began := time.Now()
	victim := w.server.Masters()[0]
	w.server.KillMaster(victim)
	failedOver := time.Since(began)
	took := w.recovery(began)
	victim.Start()
	w.awaitMore(200)
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = took, failedOver+2*time.Second
	found.note = fmt.Sprintf("3 failovers in order, records flow %s after; the kill took %s to fail over", graceful.Round(time.Millisecond), failedOver.Round(time.Millisecond))
	return found
}

// oldReplica fails over to a replica that has missed the last records: streams and
// groups go back, and what is handed out again is handled again.
func oldReplica(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{shards: 6, server: faultkit.Options{Durable: true}})
	w.settle(w.join("a"), w.join("b"))
	f := w.newFeed("k", 200, nil)
	f.start(500)
	w.awaitMore(300)
	master := w.server.Owner(shardKey(0))
	replica := w.server.Replica(master)
	// Not frozen: it would find what it missed in its socket.
	replica.Kill()
	w.awaitMore(300)
	f.halt()
	w.awaitDrained()
	before := len(w.contents())
	w.lossy = true
	began := time.Now()
	master.Kill()
	replica.Start()
	f.start(500)
	took := w.recovery(began)
	f.halt()
	w.awaitDrained()
	found := w.find()
	missed := found.produced - len(w.contents())
	if missed == 0 {
		t.Error("the replica has missed nothing, so that nothing was shown")
	}
	found.recovery = took
	found.note = fmt.Sprintf("the replica had missed %d of the last records, of %d; they had been handled", missed, before)
	return found
}

// forbidLog fails the test if a member says one of the texts.
func forbidLog(t *testing.T, members []*member, texts ...string) {
	t.Helper()
	for _, m := range members {
		for _, text := range texts {
			if strings.Contains(m.log(), text) {
				t.Errorf("%s says %q", m.id, text)
			}
		}
	}
}
