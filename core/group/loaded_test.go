package group

import (
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// A command of an operator that meets another instance of the store than the state was
// saved in opens a correction: its save would hide from everybody that writes were lost.
func TestACommandNoticesAnotherInstance(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := New("orders", "billing", 4, 1, protocol.DefaultTimings(), now)
	longer := protocol.DefaultTimings()
	longer.Lease += time.Second
	for _, tc := range []struct {
		saved, answers string
		corrects       bool
	}{{"", "one", false}, {"one", "one", false}, {"one", "two", true}} {
		s.Instance = tc.saved
		next, r, _, err := Apply(s, Input{Now: now.Add(time.Minute), ID: "x"}, s.LoadedFrom(tc.answers, Retime{Timings: longer}))
		if err != nil || !r.Changed || next.Timings != longer {
			t.Fatalf("saved in %q, loaded from %q: %+v, %v", tc.saved, tc.answers, next.Timings, err)
		}
		if k := next.Correction; (k != nil) != tc.corrects || (k != nil && k.Reason != AnotherInstance) {
			t.Errorf("saved in %q, loaded from %q: correction %+v", tc.saved, tc.answers, k)
		}
	}
}
