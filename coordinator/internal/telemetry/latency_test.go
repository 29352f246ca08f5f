package telemetry

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// The quantiles are compared with those of the sorted durations themselves.
func TestQuantilesAreNearTheTruth(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, spread := range []float64{0.1, 1, 3} {
		l := new(latency)
		all := make([]time.Duration, 10_000)
		var sum time.Duration
		for i := range all {
			all[i] = time.Duration(math.Exp(draw.NormFloat64()*spread) * float64(3*time.Millisecond))
			all[i] = min(max(all[i], 2*time.Microsecond), 100*time.Second)
			sum += all[i]
			l.observe(time.Second, all[i])
		}
		slices.Sort(all)
		r := l.report(2 * time.Second)
		for i, q := range quantiles {
			want := all[int(math.Ceil(q*float64(len(all))))-1].Seconds()
			if off := math.Abs(r.quantiles[i]-want) / want; off > 1.0/(2*parts)+1e-9 {
				t.Errorf("spread %g: quantile %g is %g, want %g: %.1f %% off", spread, q, r.quantiles[i], want, 100*off)
			}
		}
		if r.count != uint64(len(all)) || math.Abs(r.seconds-sum.Seconds()) > 0.01 || r.longest != all[len(all)-1].Seconds() {
			t.Errorf("spread %g: %+v, want the sum %g and the longest %g", spread, r, sum.Seconds(), all[len(all)-1].Seconds())
		}
	}
}

func TestEveryDurationHasABucket(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, 1023, 1024, 1025, 2047, 2048, time.Second, time.Hour, math.MaxInt64} {
		if b := bucketOf(d); b < 0 || b >= bucketCount {
			t.Errorf("%d is in bucket %d of %d", d, b, bucketCount)
		}
	}
	for b := range bucketCount {
		if got := bucketOf(middle(b)); got != b {
			t.Errorf("the middle of bucket %d is in bucket %d", b, got)
		}
	}
}

// What is older than two minutes counts for the sum alone.
func TestOldDurationsAreForgotten(t *testing.T) {
	l := new(latency)
	l.observe(10*time.Second, time.Minute)
	l.observe(70*time.Second, time.Millisecond)
	if r := l.report(80 * time.Second); r.longest != 60 || r.quantiles[1] < 50 {
		t.Errorf("a minute later: %+v", r)
	}
	l.observe(130*time.Second, time.Millisecond)
	if r := l.report(140 * time.Second); r.longest != 0.001 || r.quantiles[2] > 0.0011 || r.count != 3 {
		t.Errorf("two minutes later: %+v", r)
	}
	r := l.report(time.Hour)
	if r.longest != 0 || !math.IsNaN(r.quantiles[0]) || r.count != 3 || math.Abs(r.seconds-60.002) > 1e-9 {
		t.Errorf("an hour later: %+v", r)
	}
}

func TestObservingAllocatesNothing(t *testing.T) {
	l := new(latency)
	now := time.Duration(0)
	if n := testing.AllocsPerRun(1000, func() {
		now += time.Second
		l.observe(now, time.Millisecond)
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

func TestNothingIsLostAmongMany(t *testing.T) {
	const each, many = 2000, 8
	l := new(latency)
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			for i := range each {
				l.observe(time.Duration(i)*100*time.Millisecond, time.Duration(i)*time.Microsecond)
				l.report(time.Duration(i) * 100 * time.Millisecond)
			}
		})
	}
	all.Wait()
	if n := l.count.Load(); n != each*many {
		t.Errorf("%d of %d are counted", n, each*many)
	}
}
