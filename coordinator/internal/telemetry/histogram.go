package telemetry

import (
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// waitBounds are the upper bounds, in seconds, of how long shards wait for somebody:
// from a hand-over between two quick members to a rebalance timeout.
var waitBounds = [...]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120, 300}

// histogram counts durations between bounds. Its owner guards it.
type histogram struct {
	counts  [len(waitBounds) + 1]uint64
	seconds float64
}

func (h *histogram) observe(d time.Duration) {
	s := max(d, 0).Seconds()
	at, _ := slices.BinarySearch(waitBounds[:], s)
	h.counts[at]++
	h.seconds += s
}

// metric gives the counts as Prometheus wants them: each bucket with all below it.
func (h *histogram) metric() *dto.Histogram {
	sum, total := h.seconds, uint64(0)
	m := &dto.Histogram{SampleSum: &sum, Bucket: make([]*dto.Bucket, len(waitBounds))}
	for i := range waitBounds {
		total += h.counts[i]
		below := total
		m.Bucket[i] = &dto.Bucket{CumulativeCount: &below, UpperBound: &waitBounds[i]}
	}
	total += h.counts[len(waitBounds)]
	m.SampleCount = &total
	return m
}
