// Package spans holds sets of shard indexes, of which most are a few runs of
// neighbours.
package spans

import (
	"iter"
	"slices"
)

// Span is the run First ≤ i < End.
type Span struct {
	First int `json:"first"`
	End   int `json:"end"`
}

// Len is the number of indexes in the run.
func (s Span) Len() int { return max(0, s.End-s.First) }

// Set is a set of indexes: runs in ascending order that do not touch. The zero
// value is empty. A Set is never changed, so copies may share it.
type Set []Span

// Of returns the set of the given indexes, in any order.
func Of(indexes ...int) Set {
	var s Set
	for _, i := range slices.Sorted(slices.Values(indexes)) {
		switch last := len(s) - 1; {
		case last >= 0 && i < s[last].End:
		case last >= 0 && i == s[last].End:
			s[last].End++
		default:
			s = append(s, Span{i, i + 1})
		}
	}
	return s
}

// Contains reports whether i is in the set.
func (s Set) Contains(i int) bool {
	at, _ := slices.BinarySearchFunc(s, i, func(run Span, i int) int {
		if run.End <= i {
			return -1
		}
		return 1
	})
	return at < len(s) && s[at].First <= i
}

// With returns the set that has the given indexes as well.
func (s Set) With(indexes ...int) Set {
	return Of(append(slices.Collect(s.All()), indexes...)...)
}

// Within returns the part of the set from first up to end.
func (s Set) Within(first, end int) Set {
	var part Set
	for _, run := range s {
		if run = (Span{max(run.First, first), min(run.End, end)}); run.Len() > 0 {
			part = append(part, run)
		}
	}
	return part
}

// Without returns what of the run from first up to end is not in the set.
func (s Set) Without(first, end int) Set {
	var rest Set
	for _, run := range s.Within(first, end) {
		if first < run.First {
			rest = append(rest, Span{first, run.First})
		}
		first = run.End
	}
	if first < end {
		rest = append(rest, Span{first, end})
	}
	return rest
}

// Len is the number of indexes in the set.
func (s Set) Len() int {
	n := 0
	for _, run := range s {
		n += run.Len()
	}
	return n
}

// All walks over the indexes, ascending.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, run := range s {
			for i := run.First; i < run.End; i++ {
				if !yield(i) {
					return
				}
			}
		}
	}
}

// Proper reports whether the runs are a set: what was read from elsewhere may not be.
func (s Set) Proper() bool {
	last := -1
	for _, run := range s {
		if run.First <= last || run.Len() == 0 || run.First < 0 {
			return false
		}
		last = run.End
	}
	return true
}
