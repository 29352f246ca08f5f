package httpload

import (
	"math/bits"
	"time"
)

const (
	// subBits says how finely times are told apart: to one part in 2^subBits.
	subBits = 5
	sub     = 1 << subBits
	// maxBits says up to what size: 2^maxBits ns are 18 minutes.
	maxBits = 40
	buckets = (maxBits - subBits + 1) * sub
)

// Histogram counts times with an error of at most 3 %, those beyond 18 minutes as
// 18 minutes. The zero value is empty. It is not safe for concurrent use: give each goroutine one, and
// Add them.
type Histogram struct {
	counts [buckets]uint64
	n      uint64
	sum    time.Duration
	max    time.Duration
}

// Record counts one time; less than nothing counts as nothing.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(min(uint64(d), 1<<maxBits-1))]++
	h.n++
	h.sum += d
	h.max = max(h.max, d)
}

// Add counts what o has counted.
func (h *Histogram) Add(o *Histogram) {
	for i, c := range &o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// Count returns how many times were recorded.
func (h *Histogram) Count() uint64 { return h.n }

// Max returns the longest time, exactly; 0 when there is none.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean returns the average, 0 when there is none.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return h.sum / time.Duration(h.n)
}

// Quantile returns the time that a share q of all times does not exceed, 0 ≤ q ≤
// 1; 0 when there is none.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := min(uint64(q*float64(h.n)), h.n-1)
	var seen uint64
	for i, c := range &h.counts {
		if seen += c; seen > rank {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

// bucket returns where n is counted: as it is up to sub, and by its first subBits
// binary digits above.
func bucket(n uint64) int {
	if n < sub {
		return int(n)
	}
	shift := bits.Len64(n) - subBits - 1
	return (shift+1)*sub + int(n>>shift) - sub
}

// upper returns the largest time of a bucket.
func upper(i int) time.Duration {
	if i < sub {
		return time.Duration(i)
	}
	shift := i/sub - 1
	return time.Duration((uint64(sub+i%sub)+1)<<shift - 1)
}
