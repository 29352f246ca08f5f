package spans

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A set of runs is compared with a plain set of indexes.
func TestASetIsASet(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		plain := map[int]bool{}
		for range draw.IntN(30) {
			plain[draw.IntN(40)] = true
		}
		var indexes []int
		for i := range plain {
			indexes = append(indexes, i, i)
		}
		s := Of(indexes...)
		if !s.Proper() {
			t.Fatalf("%v is no proper set", s)
		}
		if s.Len() != len(plain) || len(slices.Collect(s.All())) != len(plain) {
			t.Fatalf("%v has %d indexes, want %d", s, s.Len(), len(plain))
		}
		first, end := draw.IntN(42), draw.IntN(42)
		within, without, with := s.Within(first, end), s.Without(first, end), s.With(first, end)
		if !within.Proper() || !without.Proper() || !with.Proper() {
			t.Fatalf("of %v: %v, %v and %v are no proper sets", s, within, without, with)
		}
		for i := -1; i < 45; i++ {
			inside := first <= i && i < end
			if s.Contains(i) != plain[i] || within.Contains(i) != (plain[i] && inside) ||
				without.Contains(i) != (!plain[i] && inside) || with.Contains(i) != (plain[i] || i == first || i == end) {
				t.Fatalf("%d, with %v, from %d to %d: %v, %v, %v", i, s, first, end, within, without, with)
			}
		}
	}
}

func TestWhatIsNoSet(t *testing.T) {
	for name, s := range map[string]Set{
		"an empty run":   {{3, 3}},
		"a run backward": {{4, 3}},
		"out of order":   {{4, 5}, {1, 2}},
		"overlapping":    {{1, 4}, {3, 6}},
		"touching":       {{1, 3}, {3, 6}},
		"below nothing":  {{-1, 2}},
	} {
		if s.Proper() {
			t.Errorf("%s: %v passes for a set", name, s)
		}
	}
}

func TestAWalkMayEndEarly(t *testing.T) {
	n := 0
	for range Of(1, 2, 3, 7).All() {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d steps, want 2", n)
	}
}
