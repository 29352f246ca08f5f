package dataplane

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// trimmed lets records flow while the owners of the shards trim: the streams stay
// short, except where another group has not read yet.
func trimmed(t *testing.T, kind faultkit.Kind) finding {
	const (
		perSecond = 1_000
		interval  = 200 * time.Millisecond
		// A stream is cut in whole blocks, of 100 entries by default, and some are under
		// way between two looks.
		most  = 1_500
		other = "audit"
	)
	ctx := t.Context()
	w := newWorld(t, kind, setting{defaults: plan{Trim: true, TrimInterval: interval}})
	w.settle(w.join("a"), w.join("b"))
	// The other group never reads its one shard.
	if err := w.server.Client.XGroupCreate(ctx, shardKey(0), other, "0").Err(); err != nil {
		t.Fatal(err)
	}
	f := w.newFeed("k", 200, nil)
	f.start(perSecond)
	until := time.Now().Add(time.Duration(size(6, 120)) * time.Second)
	var looks []int64
	kept := int64(0)
	for time.Now().Before(until) {
		sum := int64(0)
		for shard := range w.shards {
			n, err := w.server.Client.XLen(ctx, shardKey(shard)).Result()
			if err != nil {
				t.Fatal(err)
			}
			if shard == 0 {
				kept = n
			} else {
				sum += n
			}
		}
		looks = append(looks, sum)
		time.Sleep(20 * time.Millisecond) // between two looks
	}
	f.halt()
	w.awaitDrained()
	found := w.find()
	confirmed := int64(0)
	for _, s := range f.outcomes() {
		if s.outcome == stored && s.shard == 0 {
			confirmed++
		}
	}
	last, err := w.server.Client.XLen(ctx, shardKey(0)).Result()
	if err != nil || last < confirmed {
		t.Errorf("the shard that another group has not read holds %d of %d records (%v)", last, confirmed, err)
	}
	if int64(found.produced) < 2*most {
		t.Logf("only %d records were published, so that the bound of %d says little", found.produced, most)
	}
	slices.Sort(looks)
	longest, middle := looks[len(looks)-1], looks[len(looks)/2]
	// Where the machine stands still they grow meanwhile, and are short again after it.
	if held := map[bool]int64{true: longest, false: middle}[long()]; held > most {
		t.Errorf("three trimmed shards held %d records, at most %d may be", held, most)
	}
	faultkit.Eventually(t, patience, "the trimmed shards are short in the end", func() bool {
		sum := int64(0)
		for shard := 1; shard < w.shards; shard++ {
			sum += w.server.Client.XLen(ctx, shardKey(shard)).Val()
		}
		return sum <= most
	})
	found.note = fmt.Sprintf("three shards held %d records at most, %d at half of the looks, the one that another group has not read %d", longest, middle, kept)
	return found
}

// largeRecords hands a member far more than it may hold.
func largeRecords(t *testing.T, kind faultkit.Kind) finding {
	const (
		megabyte = 1 << 20
		overhead = 64 * megabyte
		// The runtime does not count the program itself.
		program = 20 * megabyte
	)
	shards, each, bytes := size(16, 64), size(256<<10, megabyte), int64(size(16, 64))*megabyte
	w := newWorld(t, kind, setting{shards: shards})
	f := w.newFeed("k", 10*shards, nil)
	f.padding, f.batch = each-100, 8
	f.publish(t.Context(), 8*shards)
	m := w.start("m", func(p *plan) {
		p.MaxInFlightBytes, p.Hold, p.Concurrency = bytes, 5*time.Millisecond, 4
		// Without a limit the runtime lets as much garbage gather as there is in use.
		p.MemoryLimit = bytes + overhead - program
	})
	w.awaitDone(8 * shards)
	peak := residentPeak(t, m.proc.PID())
	w.awaitDrained()
	found := w.find()
	found.note = fmt.Sprintf("%d records of %d KiB in %d shards; MaxInFlightBytes %d MiB, resident memory %d MiB at its peak",
		8*shards, each>>10, shards, bytes/megabyte, peak/megabyte)
	if peak > bytes+overhead && !raceDetector {
		t.Errorf("the member took %d MiB, at most %d MiB may be", peak/megabyte, (bytes+overhead)/megabyte)
	}
	return found
}

// residentPeak returns the most memory that a process has had.
func residentPeak(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Skipf("SKIPPED: the memory of a process cannot be seen here: %v", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	t.Fatal("no VmHWM in the status of the process")
	return 0
}
