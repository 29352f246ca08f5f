package telemetry

import (
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// latency sums durations up and keeps their distribution of the last one to two
// minutes. Adding to it takes no lock and allocates nothing, since every heartbeat
// does.
type latency struct {
	count atomic.Uint64
	// micros is the sum. In microseconds it is good for a hundred years of ten
	// thousand requests at once that wait all the time.
	micros  atomic.Uint64
	turning sync.Mutex
	recent  [2]distribution
}

// distributionSpan is what one distribution covers.
const distributionSpan = time.Minute

// distribution counts the durations of one span of time in buckets: each power of
// two nanoseconds is cut into parts of equal width, so that a bucket's middle is within
// 1/(2·parts) of all that it counts.
type distribution struct {
	// span is the number of the span of time, plus one; 0 is none.
	span    atomic.Int64
	longest atomic.Int64
	counts  [bucketCount]atomic.Uint32
}

const (
	partsBits = 4
	parts     = 1 << partsBits
	// shortestBits and longestBits bound what is told apart: about 1 µs to 137 s.
	shortestBits = 10
	longestBits  = 37
	bucketCount  = (longestBits - shortestBits) * parts
)

// bucketOf is the bucket of a duration.
func bucketOf(d time.Duration) int {
	n := uint64(max(d, 1<<shortestBits))
	power := bits.Len64(n) - 1
	if power >= longestBits {
		return bucketCount - 1
	}
	part := int(n>>(power-partsBits)) & (parts - 1)
	return (power-shortestBits)*parts + part
}

// middle is the middle of a bucket.
func middle(bucket int) time.Duration {
	power, part := bucket/parts+shortestBits, bucket%parts
	low := time.Duration(parts+part) << (power - partsBits)
	return low + time.Duration(1)<<(power-partsBits)/2
}

// observe adds a duration; now is the time on the clock that report is asked by.
func (l *latency) observe(now, d time.Duration) {
	d = max(d, 0)
	l.count.Add(1)
	l.micros.Add(uint64((d + time.Microsecond/2) / time.Microsecond))
	w := l.at(now)
	w.counts[bucketOf(d)].Add(1)
	raise(&w.longest, int64(d))
}

// raise makes n at least v.
func raise(n *atomic.Int64, v int64) {
	for {
		seen := n.Load()
		if v <= seen || n.CompareAndSwap(seen, v) {
			return
		}
	}
}

// at returns the distribution of the present span, emptied when a new one begins.
// Whoever still adds to the one before at that moment may be lost to the quantiles.
func (l *latency) at(now time.Duration) *distribution {
	span := int64(now/distributionSpan) + 1
	w := &l.recent[span%2]
	if w.span.Load() == span {
		return w
	}
	l.turning.Lock()
	defer l.turning.Unlock()
	if w.span.Load() < span {
		for i := range w.counts {
			w.counts[i].Store(0)
		}
		w.longest.Store(0)
		w.span.Store(span)
	}
	return w
}

// latencyReport is what a latency has seen: since the start, and lately.
type latencyReport struct {
	count   uint64
	seconds float64
	// longest and quantiles are of the last one to two minutes; quantiles are not
	// numbers, and longest is 0, when nothing happened then.
	longest   float64
	quantiles [len(quantiles)]float64
}

// quantiles are those that are reported.
var quantiles = [...]float64{0.5, 0.95, 0.99}

func (l *latency) report(now time.Duration) latencyReport {
	r := latencyReport{count: l.count.Load(), seconds: float64(l.micros.Load()) / 1e6}
	var merged [bucketCount]uint64
	total := uint64(0)
	span := int64(now/distributionSpan) + 1
	for i := range l.recent {
		w := &l.recent[i]
		if seen := w.span.Load(); seen != span && seen != span-1 {
			continue
		}
		r.longest = max(r.longest, time.Duration(w.longest.Load()).Seconds())
		for b := range w.counts {
			n := uint64(w.counts[b].Load())
			merged[b] += n
			total += n
		}
	}
	for i, q := range quantiles {
		r.quantiles[i] = quantile(&merged, total, q)
	}
	return r
}

// quantile is the middle of the bucket in which the rank lies.
func quantile(counts *[bucketCount]uint64, total uint64, q float64) float64 {
	if total == 0 {
		return math.NaN()
	}
	rank := uint64(math.Ceil(q * float64(total)))
	seen := uint64(0)
	for b, n := range counts {
		if seen += n; seen >= rank && n > 0 {
			return middle(b).Seconds()
		}
	}
	return math.NaN()
}
