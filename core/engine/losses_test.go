package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
)

// looked has the engine look at a group whose record has not moved, at a tick or
// because it was told of a change, and returns what it begins then.
func (b *bench) looked(t *testing.T, at time.Duration, why Happening, stamps map[string]string) Effect {
	t.Helper()
	b.open = nil
	b.tell(at, why)
	if _, loads := b.open.(Load); !loads {
		t.Fatalf("%T at %s instead of a look", b.open, at)
	}
	b.open = nil
	b.tell(at, Loaded{Version: b.known, Stamps: stamps})
	return b.open
}

// pair is a group with two members, which hold a shard each.
func pair(t *testing.T) group.State {
	t.Helper()
	s := emptyGroup()
	joins := group.Batch{group.Beat{Request: heartbeat("a", "a1", 0)}, group.Beat{Request: heartbeat("b", "b1", 0)}}
	s, _, _, err := group.Apply(s, group.Input{Now: epochTime, ID: "x"}, joins)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A stamp that is missing ends no lease, however long it is, while the mark in its
// place cannot be written: there may be renewals meanwhile, which are lost as well.
// Once it is, a lease counts from the mark, not from when the loss was seen.
func TestALossCountsFromItsMark(t *testing.T) {
	for _, way := range []string{"renewal", "save"} {
		s := pair(t)
		lease := s.Timings.Lease
		// A tick comes at least so often.
		const every = 1100 * time.Millisecond
		b := newBench()
		b.tell(0, Woke{})
		b.found(t, 0, s, nil)
		at := time.Duration(0)
		for ; at < 2*lease; at += every {
			if at > 0 {
				b.looked(t, at, Woke{}, nil)
			}
			if _, renews := b.open.(Renew); !renews {
				t.Fatalf("%s: %T at %s instead of marks", way, b.open, at)
			}
			b.tell(at, Renewed{Outcome: Unknown})
		}

		// Somebody joins in the tick in which the marks can be written, or nobody does.
		var why Happening = Woke{}
		if way == "save" {
			why = Arrived{ID: 1, Request: heartbeat("c", "c1", 0)}
		}
		written, stamps := at, map[string]string{}
		switch e := b.looked(t, at, why, nil).(type) {
		case Renew:
			for _, x := range e.Stamps {
				stamps[x.Life] = x.Value
			}
			b.tell(at, Renewed{Outcome: Done})
		case Save:
			for _, x := range e.Stamps {
				stamps[x.Life] = x.Value
			}
			b.tell(at, Saved{Outcome: Done, Version: Version{Instance: "i", Revision: 2, Nonce: e.Nonce}})
		default:
			t.Fatalf("%s: %T instead of the marks", way, e)
		}
		if _, joined := stamps["c/c1"]; joined != (way == "save") || stamps["a/a1"] == "" || stamps["b/b1"] == "" {
			t.Fatalf("%s: stamps %v are written", way, stamps)
		}
		for at += every; at < written+lease; at += every {
			if e := b.looked(t, at, Woke{}, stamps); e != nil {
				t.Fatalf("%s: %T at %s, the marks were written at %s", way, e, at, written)
			}
		}
		e, ends := b.looked(t, at, Woke{}, stamps).(Save)
		if !ends || !slices.Contains(e.Relied, Stamp{Life: "a/a1", Value: stamps["a/a1"]}) || !slices.Contains(e.Ended, "b/b1") {
			t.Errorf("%s: the leases do not end with the marks: %+v", way, b.open)
		}
	}
}

// Losses are told when they are marked: the first, and then once in a lease time.
func TestLossesAreTold(t *testing.T) {
	s := pair(t)
	lease := s.Timings.Lease
	b := newBench()
	b.tell(0, Woke{})
	b.loaded(t, s)
	var told []time.Duration
	for at := 1100 * time.Millisecond; at < 2*lease; at += 1100 * time.Millisecond {
		b.events = nil
		b.looked(t, at, Woke{}, nil)
		if len(b.events) > 0 {
			t.Fatalf("%v is told before it is marked", b.events)
		}
		b.tell(at, Renewed{Outcome: Done})
		if slices.Contains(b.events, group.Event(group.StampsLost{Lives: 2})) {
			told = append(told, at)
		}
	}
	if len(told) != 2 || told[0] != 1100*time.Millisecond || told[1] < told[0]+lease {
		t.Errorf("told at %v", told)
	}
}

// Heartbeats cost what they cost: only at a tick are the lives gone through for
// stamps that are missing.
func TestOnlyATickMarks(t *testing.T) {
	s := pair(t)
	b := newBench()
	b.tell(0, Woke{})
	b.loaded(t, s)
	b.tell(100*time.Millisecond, Changed{})
	acks := Arrived{ID: 1, Request: heartbeat("a", "a1", s.Lives[0].Epoch)}
	if e, saves := b.looked(t, 200*time.Millisecond, acks, nil).(Save); !saves || len(e.Stamps) != 1 {
		t.Fatalf("%+v instead of what a has heard, with its stamp", b.open)
	}
	b.tell(200*time.Millisecond, Saved{Outcome: Conflict})
	b.tell(200*time.Millisecond, Loaded{Err: errors.New("away")})
	e, renews := b.looked(t, 1100*time.Millisecond, Woke{}, nil).(Renew)
	if !renews || len(e.Stamps) != 2 {
		t.Errorf("%+v instead of marks at the tick", b.open)
	}
}
