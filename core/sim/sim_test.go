package sim

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

var (
	seeds     = flag.Int("seeds", 0, "how many seeds to play; 0 plays a few hundred")
	first     = flag.Uint64("first", 1, "the first seed")
	oneSeed   = flag.Uint64("seed", 0, "play one seed and print its trace")
	onlyShape = flag.String("shape", "", "play only this shape")
)

const shortSeeds = 140

// TestSeeds plays seeds and demands that none of them shows a violation.
func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		r := Run(*oneSeed, Options{Shape: *onlyShape, TraceLines: 100_000})
		fmt.Println(r.Trace)
		fmt.Printf("sim: seed=%d shape=%s hash=%016x violation=%q %s\n", r.Seed, r.Shape, r.Hash, r.Violation, &r.Counts)
		if r.Violation != "" {
			t.Fail()
		}
		return
	}
	n := *seeds
	if n == 0 {
		n = shortSeeds
	}
	began := time.Now()
	results := play(n, *first, Options{Shape: *onlyShape})
	var total Counts
	violations := 0
	for _, r := range results {
		total.Add(r.Counts)
		if r.Violation == "" {
			continue
		}
		violations++
		if violations <= 3 {
			again := Run(r.Seed, Options{Shape: *onlyShape, TraceLines: 60})
			t.Errorf("seed %d (%s): %s\n%s\nreplay: make sim SEED=%d", r.Seed, r.Shape, r.Violation, again.Trace, r.Seed)
		} else {
			t.Errorf("seed %d (%s): %s", r.Seed, r.Shape, r.Violation)
		}
	}
	took := time.Since(began)
	fmt.Printf("sim: %s\n", &total)
	fmt.Printf("sim: seeds=%d violations=%d first=%d seconds=%.1f per_second=%.0f\n", n, violations, *first, took.Seconds(), float64(n)/took.Seconds())
}

// play runs seeds on all processors; each of them is single-threaded.
func play(n int, first uint64, o Options) []Result {
	results := make([]Result, n)
	var next int
	var mu sync.Mutex
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n {
					return
				}
				results[i] = Run(first+uint64(i), o)
			}
		})
	}
	workers.Wait()
	return results
}

// TestASeedReplays plays seeds twice and compares their traces.
func TestASeedReplays(t *testing.T) {
	for seed := uint64(1); seed <= 3*uint64(len(Shapes)); seed++ {
		a, b := Run(seed, Options{}), Run(seed, Options{TraceLines: 10})
		if a.Hash != b.Hash || a.Counts != b.Counts {
			t.Errorf("seed %d does not replay: %016x and %016x", seed, a.Hash, b.Hash)
		}
	}
}
