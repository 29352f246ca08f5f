package engine

import (
	"slices"
	"testing"
	"time"
)

// Of a life whose stamp was lost nobody knows when it was heard of, before and after
// the mark.
func TestLookAtLosses(t *testing.T) {
	s := pair(t)
	b := newBench()
	b.tell(0, Woke{})
	b.loaded(t, s)
	if l := b.Look(time.Second); !slices.Equal(l.Lost, []bool{false, false}) {
		t.Errorf("lost %v with all stamps there", l.Lost)
	}
	marks, renews := b.looked(t, 2*time.Second, Woke{}, map[string]string{"a/a1": "stamp"}).(Renew)
	if l := b.Look(2 * time.Second); !renews || !slices.Equal(l.Lost, []bool{false, true}) {
		t.Errorf("lost %v, the stamp of b is missing", l.Lost)
	}
	b.tell(2*time.Second, Renewed{Outcome: Done})
	if l := b.Look(3 * time.Second); !slices.Equal(l.Lost, []bool{false, true}) {
		t.Errorf("lost %v, b is marked with %v", l.Lost, marks.Stamps)
	}
}
