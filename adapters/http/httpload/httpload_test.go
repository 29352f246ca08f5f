package httpload_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
)

func TestHistogramAgreesWithSortedTimes(t *testing.T) {
	const seed = 7
	random := rand.New(rand.NewPCG(seed, seed))
	var whole, parts httpload.Histogram
	var times []time.Duration
	for range 20 {
		var part httpload.Histogram
		for range 500 {
			d := time.Duration(random.ExpFloat64() * float64(time.Millisecond))
			times = append(times, d)
			whole.Record(d)
			part.Record(d)
		}
		parts.Add(&part)
	}
	if whole != parts {
		t.Error("the sum of the parts is not the whole")
	}
	slices.Sort(times)
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := times[min(int(q*float64(len(times))), len(times)-1)]
		if got := whole.Quantile(q); got < want || float64(got) > 1.04*float64(want)+1 {
			t.Errorf("quantile %g is %s, want %s or up to 4 %% more", q, got, want)
		}
	}
	if whole.Max() != times[len(times)-1] || whole.Count() != uint64(len(times)) {
		t.Errorf("max %s of %d times, want %s of %d", whole.Max(), whole.Count(), times[len(times)-1], len(times))
	}
}

func TestHistogramTakesAnyTime(t *testing.T) {
	var h httpload.Histogram
	if h.Quantile(0.5) != 0 || h.Mean() != 0 {
		t.Error("an empty histogram has no times")
	}
	for _, d := range []time.Duration{-time.Second, 0, 1, time.Hour, 1<<63 - 1} {
		h.Record(d)
	}
	if h.Quantile(0) != 0 || h.Max() != 1<<63-1 {
		t.Errorf("from %s to %s", h.Quantile(0), h.Max())
	}
}
