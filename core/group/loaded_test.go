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

// A group that was just created takes members in and grants nothing before it is
// confirmed; a correction for another reason is not ended by that.
func TestAGroupIsConfirmed(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	apply := func(s State, cmd Command) State {
		t.Helper()
		next, _, _, err := Apply(s, Input{Now: now, ID: "x"}, cmd)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	join := Beat{&protocol.Heartbeat{ProtocolVersion: 1, RequestID: "q", MemberID: "a", Incarnation: "a1", Capacity: protocol.Capacity{MaxConcurrency: 1}}}
	s := apply(NewUnconfirmed("orders", "billing", protocol.DefaultTimings(), now), Adopt{ShardCount: 2, StreamVersion: 1})
	s = apply(s, join)
	if !s.Unconfirmed() || s.Ledger.Holder[0] != None || s.Ledger.Holder[1] != None {
		t.Fatalf("granted before it was confirmed: %+v", s)
	}
	if c := apply(s, Confirm{}); c.Correction != nil || c.Ledger.Holder[0] == None || c.Ledger.Holder[1] == None {
		t.Errorf("confirmed, and nothing is granted: %+v", c)
	}
	s = apply(s, Correct{Reason: "the store went backwards"})
	if c := apply(s, Confirm{}); s.Unconfirmed() || c.Correction == nil {
		t.Errorf("another correction is ended: %+v", c)
	}
}
