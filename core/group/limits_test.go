package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

var dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// join is the first request of a life.
func join(member, incarnation string) *protocol.Heartbeat {
	return &protocol.Heartbeat{ProtocolVersion: 1, RequestID: "q", MemberID: member, Incarnation: incarnation}
}

func beats(requests ...*protocol.Heartbeat) Batch {
	b := make(Batch, len(requests))
	for i, q := range requests {
		b[i] = Beat{q}
	}
	return b
}

// must applies a command that has to work.
func must(tb testing.TB, s State, id string, cmd Command) (State, Response) {
	tb.Helper()
	next, r, _, err := Apply(s, Input{Now: dawn, ID: id}, cmd)
	if err != nil {
		tb.Fatal(err)
	}
	return next, r
}

// full is a group that has as many members as are allowed.
func full(t *testing.T) State {
	t.Helper()
	joins := make([]*protocol.Heartbeat, protocol.MaxMembers)
	for i := range joins {
		joins[i] = join(fmt.Sprintf("m%05d", i), "1")
	}
	s, _ := must(t, New("orders", "billing", 2, 1, protocol.DefaultTimings(), dawn), "full", beats(joins...))
	if len(s.Lives) != protocol.MaxMembers {
		t.Fatalf("%d members", len(s.Lives))
	}
	return s
}

func TestAFullGroupRefusesNewMembers(t *testing.T) {
	s := full(t)
	next, r := must(t, s, "new", beats(join("new", "1")))
	if a := r.Answers[0]; a.Status != protocol.StatusInvalidRequest || a.Reason == "" || r.Changed || len(next.Lives) != len(s.Lives) {
		t.Errorf("member %d: %+v", len(s.Lives)+1, a)
	}
}

// A full group must not lose a member to its own restart.
func TestAMemberOfAFullGroupMayStartAnew(t *testing.T) {
	s := full(t)
	for _, q := range []*protocol.Heartbeat{
		{ProtocolVersion: 1, RequestID: "q", MemberID: "m00000", Incarnation: "2"},
		{ProtocolVersion: 1, RequestID: "q", MemberID: "m00000", Incarnation: "2", StoppedIncarnation: "1"},
	} {
		next, r := must(t, s, "again", beats(q))
		if a := r.Answers[0]; a.Status != protocol.StatusOK {
			t.Errorf("stopped %q: %s %s", q.StoppedIncarnation, a.Status, a.Reason)
		}
		if reread(t, next); len(next.Lives) > maxLives {
			t.Errorf("%d lives", len(next.Lives))
		}
	}
}

// Lives that were replaced and may still be reading are kept beside those that
// work; there is an end to that too, and to what one batch can pile up.
func TestRestartsDoNotGrowTheGroupForEver(t *testing.T) {
	s := New("orders", "billing", 1, 1, protocol.DefaultTimings(), dawn)
	restarts := make([]*protocol.Heartbeat, maxLives+5)
	for i := range restarts {
		restarts[i] = join("a", fmt.Sprint(i))
	}
	next, r := must(t, s, "restarts", beats(restarts...))
	for i, a := range r.Answers {
		want := protocol.StatusFencedEpoch
		if i == maxLives-1 {
			want = protocol.StatusOK
		} else if i >= maxLives {
			want = protocol.StatusInvalidRequest
		}
		if a.Status != want {
			t.Fatalf("restart %d: %s %s, want %s", i, a.Status, a.Reason, want)
		}
	}
	if len(next.Lives) != 1 || len(next.Ended) > minTombstones+tombstonesPerLife*maxLives {
		t.Errorf("%d lives, %d tombstones", len(next.Lives), len(next.Ended))
	}
	reread(t, next)
}

// The id that is drawn for an old client is shown to operators; whoever sends it
// must not bring the group to a stop.
func TestTheIDOfAnOldClientCannotBeTaken(t *testing.T) {
	s, _ := must(t, New("orders", "billing", 2, 1, protocol.DefaultTimings(), dawn), "1", beats(join("a", "")))
	s, _ = must(t, s, "2", beats(join("b", "b1")))
	theirs := s.Lives[0].Incarnation
	for _, q := range []*protocol.Heartbeat{
		join("a", theirs),
		{ProtocolVersion: 1, RequestID: "q", MemberID: "a", Incarnation: theirs, MemberEpoch: s.Lives[0].Epoch},
		{ProtocolVersion: 1, RequestID: "q", MemberID: "a", Incarnation: theirs, MemberEpoch: protocol.EpochLeave},
	} {
		if _, r := must(t, s, "3", beats(q)); r.Changed || r.Answers[0].Status != protocol.StatusFencedEpoch {
			t.Errorf("epoch %d: changed %v, %s %s", q.MemberEpoch, r.Changed, r.Answers[0].Status, r.Answers[0].Reason)
		}
	}
	q := join("a", "a1")
	q.StoppedIncarnation = theirs
	if next, r := must(t, s, "4", beats(q)); r.Answers[0].Status != protocol.StatusRetry || next.Lives[0].State != Active {
		t.Errorf("an old client was stopped by its id: %s %s", r.Answers[0].Status, r.Answers[0].Reason)
	}
}

// Old incarnations are remembered by number: many while the group is large, and
// not all at once forgotten when it shrinks.
func TestTombstonesArePruned(t *testing.T) {
	const members = 400
	s, requests := crowd(t, 4, members)
	s, _ = must(t, s, "leave", beats(with(requests, leaves)...))
	if len(s.Lives) != 0 || len(s.Ended) != members {
		t.Fatalf("%d lives, %d tombstones after %d leaves", len(s.Lives), len(s.Ended), members)
	}
	for n := range members {
		s, _ = must(t, s, "life", beats(join("a", fmt.Sprint(n))))
		before := len(s.Ended)
		s, _ = must(t, s, "death", beats(with([]*protocol.Heartbeat{join("a", fmt.Sprint(n))}, leaves)...))
		if forgotten := before + 1 - len(s.Ended); forgotten > prunedPerNew {
			t.Fatalf("%d incarnations are forgotten at once", forgotten)
		}
	}
	if len(s.Ended) != minTombstones {
		t.Errorf("%d tombstones are kept, want %d", len(s.Ended), minTombstones)
	}
	if _, r := must(t, s, "late", beats(join("a", fmt.Sprint(members-1)))); r.Answers[0].Status != protocol.StatusFencedEpoch {
		t.Errorf("the last incarnation comes back: %s", r.Answers[0].Status)
	}
}
