package stream

import (
	"testing"
	"time"
)

// A group goes once nothing takes its deletion back. What is unwanted beside it is what
// the stream does not know.
func TestGoes(t *testing.T) {
	s, _, _, err := Apply(State{}, Input{Now: time.Unix(1, 0)}, Create{Prefix: "orders", ShardCount: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after          string
		cmd            Command
		goes, unwanted bool
	}{
		{"a stream without it", nil, false, true},
		{"its creation", EnsureGroup{Name: "g"}, false, false},
		{"a deletion that may be taken back", DeleteGroup{Name: "g"}, false, false},
		{"a deletion that is final", DeleteFinally{"g"}, true, true},
		{"its end", GroupDeleted{Name: "g"}, false, true},
		{"its creation anew", EnsureGroup{Name: "g", New: true}, false, false},
		{"a deletion by force", DeleteGroup{Name: "g", Force: true}, true, true},
	} {
		if step.cmd != nil {
			if s, _, _, err = Apply(s, Input{Now: time.Unix(2, 0)}, step.cmd); err != nil {
				t.Fatalf("%s: %v", step.after, err)
			}
		}
		if goes, unwanted := s.Goes("g"), s.Unwanted("g"); goes != step.goes || unwanted != step.unwanted {
			t.Errorf("after %s: goes %v, unwanted %v", step.after, goes, unwanted)
		}
	}
}
