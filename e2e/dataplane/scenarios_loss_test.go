package dataplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// resume is how soon reading goes on after groups or streams were lost.
const resume = 2 * time.Second

// plain is the scenario that the others are measured by.
func plain(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{})
	w.settle(w.join("a"), w.join("b"))
	f := w.newFeed("k", 100, nil)
	f.publish(t.Context(), size(5_000, 50_000))
	w.awaitDrained()
	found := w.find()
	if found.duplicated > 0 {
		t.Errorf("%d duplicates although nothing went wrong", found.duplicated)
	}
	return found
}

// loss is a way to lose groups or streams that were read to their end, so that
// whatever is handled again is handled in vain.
func loss(do func(t *testing.T, w *world), bound time.Duration, s setting) func(*testing.T, faultkit.Kind) finding {
	return func(t *testing.T, kind faultkit.Kind) finding {
		w := newWorld(t, kind, s)
		members := []*member{w.join("a"), w.join("b")}
		w.settle(members...)
		f := w.newFeed("k", 100, nil)
		f.publish(t.Context(), size(2_000, 10_000))
		w.awaitDrained()
		before, began := logged(members), time.Now()
		do(t, w)
		at := time.Now()
		f.start(200)
		took := w.recovery(at)
		f.halt()
		w.awaitDrained()
		expectQuiet(t, members, before, w.shards, began)
		w.lossy = true // what was there before the loss is not there any more
		found := w.find()
		found.recovery, found.bound = took, bound
		if found.duplicated > 0 {
			t.Errorf("%d records were handled again although none was in hand", found.duplicated)
		}
		if found.gone > 0 {
			t.Errorf("%d confirmed records vanished after the loss", found.gone)
		}
		return found
	}
}

func flushAll(_ *testing.T, w *world) { w.server.FlushAll() }

// restartEmpty restarts a server that keeps nothing.
func restartEmpty(_ *testing.T, w *world) {
	w.server.Kill()
	w.server.Restart()
}

func deleteStreams(t *testing.T, w *world) {
	t.Helper()
	for shard := range w.shards {
		if err := w.server.Client.Del(t.Context(), shardKey(shard)).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func unlinkStreams(t *testing.T, w *world) {
	t.Helper()
	for shard := range w.shards {
		if err := w.server.Client.Unlink(t.Context(), shardKey(shard)).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// evict makes the server throw everything away for want of memory.
func evict(t *testing.T, w *world) {
	t.Helper()
	for _, n := range w.server.Masters() {
		for _, setting := range [][2]string{{"maxmemory-policy", "allkeys-random"}, {"maxmemory", "1"}} {
			if err := n.Client.ConfigSet(t.Context(), setting[0], setting[1]).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	faultkit.Eventually(t, patience, "everything is evicted", func() bool {
		keys := int64(0)
		for _, n := range w.server.Masters() {
			keys += n.Client.DBSize(t.Context()).Val()
		}
		return keys == 0
	})
	for _, n := range w.server.Masters() {
		if err := n.Client.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func destroyGroups(t *testing.T, w *world) {
	t.Helper()
	for shard := range w.shards {
		if err := w.server.Client.XGroupDestroy(t.Context(), shardKey(shard), group).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// brokenStreams puts something else under the keys of the streams: an error that
// no waiting ends. It must cost little until it is mended.
func brokenStreams(t *testing.T, kind faultkit.Kind) finding {
	const (
		watched    = 4 * time.Second
		settling   = time.Second
		perSecond  = 20
		aCommand   = "somebody else's"
		fewRecords = 500
	)
	ctx := t.Context()
	w := newWorld(t, kind, setting{})
	members := []*member{w.join("a"), w.join("b")}
	w.settle(members...)
	f := w.newFeed("k", 100, nil)
	f.publish(ctx, fewRecords)
	w.awaitDrained()
	before := logged(members)
	at := time.Now()
	for shard := range w.shards {
		if err := w.server.Client.Set(ctx, shardKey(shard), aCommand, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(settling) // the bound holds from then on
	watching := time.Now()
	calls := sum(w.server.Calls())
	time.Sleep(watched) // this is what is measured
	calls = sum(w.server.Calls()) - calls
	expectQuiet(t, members, before, w.shards, at)
	rate := float64(calls) / time.Since(watching).Seconds() / float64(w.shards)
	if rate > perSecond {
		t.Errorf("%.1f commands a second for each shard, at most %d may be", rate, perSecond)
	}
	// Mended by hand: streams and groups are as they were at their creation.
	for shard := range w.shards {
		key := shardKey(shard)
		if err := w.server.Client.Del(ctx, key).Err(); err != nil {
			t.Fatal(err)
		}
		// The coordinator may be faster.
		_ = w.server.Client.XGroupCreateMkStream(ctx, key, group, "0").Err()
	}
	mended := time.Now()
	f.start(200)
	took := w.recovery(mended)
	f.halt()
	w.awaitDrained()
	w.lossy = true
	found := w.find()
	found.recovery = took
	found.note = fmt.Sprintf("%.1f commands/s per shard while broken", rate)
	return found
}

// serverAway takes the server away for a while.
func serverAway(t *testing.T, kind faultkit.Kind) finding {
	const away = 4 * time.Second
	w := newWorld(t, kind, setting{server: faultkit.Options{Durable: true}})
	members := []*member{w.join("a"), w.join("b")}
	w.settle(members...)
	f := w.newFeed("k", 100, nil)
	f.start(200)
	w.awaitMore(100)
	before, at := logged(members), time.Now()
	w.server.Kill()
	time.Sleep(away) // the event itself, nothing is waited for
	expectQuiet(t, members, before, w.shards, at)
	w.server.Restart()
	took := w.recovery(time.Now())
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = took, resume
	return found
}

// coordinatorKilled kills the coordinator and starts another in its place, on the
// same records: members and producers go on with what they have meanwhile.
func coordinatorKilled(t *testing.T, kind faultkit.Kind) finding {
	w := newWorld(t, kind, setting{metaThere: true})
	w.settle(w.join("a"), w.join("b"))
	f := w.newFeed("k", 100, nil)
	f.start(500)
	w.awaitMore(200)
	w.coordinator.Proc.Kill()
	w.awaitMore(200)
	w.coordinator.Restart()
	at := time.Now()
	w.awaitMore(200)
	late := w.join("late")
	w.settle(w.members["a"], w.members["b"], late)
	took := time.Since(at)
	f.halt()
	w.awaitDrained()
	found := w.find()
	found.recovery, found.bound = w.worstDelay(), resume
	found.note = fmt.Sprintf("recovery is the worst delay of a record; a new member had its shards %s after the restart", took.Round(time.Millisecond))
	if found.duplicated > 0 {
		t.Errorf("%d duplicates although no member lost its lease", found.duplicated)
	}
	return found
}

func sum(calls map[string]int) int {
	all := 0
	for name, n := range calls {
		switch name {
		case "info", "ping", "replconf": // ours, and the replicas'
		default:
			all += n
		}
	}
	return all
}

// logged counts the lines that each member has logged.
func logged(members []*member) []int {
	var lines []int
	for _, m := range members {
		lines = append(lines, m.lines())
	}
	return lines
}

// expectQuiet fails the test unless the members have logged no more than one line
// a second for each shard since then, and a few at the beginning.
func expectQuiet(t *testing.T, members []*member, before []int, shards int, since time.Time) {
	t.Helper()
	const beginning = 4
	seconds := time.Since(since).Seconds()
	lines := 0
	for i, m := range members {
		lines += m.lines() - before[i]
	}
	if most := int(float64(shards) * (seconds + beginning)); lines > most {
		t.Errorf("%d lines were logged in %.1f s by %d shards, at most %d may be", lines, seconds, shards, most)
	}
}
