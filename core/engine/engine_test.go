package engine

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// bench is one engine that is stepped by hand.
type bench struct {
	*Engine
	steps   int
	answers map[uint64]protocol.HeartbeatResponse
	open    Effect
	events  []group.Event
	errs    []error
}

func newBench() *bench {
	return &bench{
		Engine:  New(Config{Stream: "orders", Group: "billing", TickInterval: time.Second, Timings: protocol.DefaultTimings()}),
		answers: map[uint64]protocol.HeartbeatResponse{},
	}
}

func (b *bench) tell(at time.Duration, what Happening) {
	b.steps++
	for _, x := range b.Step(Input{Mono: at, Now: epochTime.Add(at), ID: fmt.Sprint(b.steps)}, what) {
		switch x := x.(type) {
		case Answer:
			b.answers[x.ID] = x.Response
		case Load, Renew, Save, Ensure:
			b.open = x
		case Publish:
			b.events = append(b.events, x.Events...)
		case Complain:
			b.errs = append(b.errs, x.Err)
		}
	}
}

// loaded has the engine find s, with a stamp for each life.
func (b *bench) loaded(tb testing.TB, s group.State) {
	tb.Helper()
	stamps := map[string]string{}
	for i := range s.Lives {
		stamps[s.Lives[i].Key()] = "stamp"
	}
	b.found(tb, 0, s, stamps)
}

func (b *bench) found(tb testing.TB, at time.Duration, s group.State, stamps map[string]string) {
	tb.Helper()
	body, err := group.Encode(&s)
	if err != nil {
		tb.Fatal(err)
	}
	b.tell(at, Loaded{Version: Version{Instance: "i", Revision: 1, Nonce: "n"}, Body: body, Stamps: stamps})
}

func heartbeat(member, incarnation string, epoch protocol.Epoch) *protocol.Heartbeat {
	return &protocol.Heartbeat{ProtocolVersion: 1, RequestID: "q", MemberID: member, Incarnation: incarnation, MemberEpoch: epoch}
}

func emptyGroup() group.State {
	return group.New("orders", "billing", 2, 1, protocol.DefaultTimings(), epochTime)
}

func TestAnEngineWithoutAGroupIsIdle(t *testing.T) {
	b := newBench()
	if b.Idle() {
		t.Error("idle before anything is known of the group")
	}
	b.tell(0, Woke{})
	b.tell(0, Loaded{})
	if !b.Idle() || !b.Quiet() {
		t.Error("not idle although there is no group")
	}
	b.tell(0, Arrived{ID: 1, Request: heartbeat("a", "a1", 0)})
	if b.Idle() {
		t.Error("idle while a member joins")
	}
	b.loaded(t, emptyGroup())
	if b.Idle() {
		t.Error("idle although there is a group")
	}
}

// The runner reports each outcome once, but one that nobody waits for must do no
// harm: a runner may have given up on it.
func TestOutcomesThatNobodyWaitsForAreIgnored(t *testing.T) {
	b := newBench()
	b.tell(0, Woke{})
	b.loaded(t, emptyGroup())
	b.open = nil
	for _, h := range []Happening{Loaded{}, Renewed{}, Saved{}, Ensured{}} {
		b.tell(0, h)
		if b.open != nil || len(b.answers) > 0 || b.view == nil {
			t.Errorf("%T, which nobody waits for, is acted upon", h)
		}
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	b := newBench()
	b.tell(0, Woke{})
	for id := range uint64(maxQueue + 1) {
		b.tell(0, Arrived{ID: id, Request: heartbeat(fmt.Sprint(id), "x", 5)})
	}
	if len(b.answers) != 1 || b.answers[maxQueue].Status != protocol.StatusRetry {
		t.Fatalf("%d requests are answered, the last of %d with %s", len(b.answers), maxQueue+1, b.answers[maxQueue].Status)
	}
	b.loaded(t, emptyGroup())
	b.loaded(t, emptyGroup())
	if len(b.answers) != maxQueue+1 || !b.Quiet() {
		t.Errorf("%d of %d are answered", len(b.answers), maxQueue+1)
	}
}

// Names with a slash do not come through the wire. If one did, the state would
// contradict itself: the change is refused, and everybody asked to come again.
func TestAContradictionIsNotSaved(t *testing.T) {
	b := newBench()
	b.tell(0, Woke{})
	b.tell(0, Arrived{ID: 1, Request: heartbeat("a", "b/c", 0)})
	b.tell(0, Arrived{ID: 2, Request: heartbeat("a/b", "c", 0)})
	b.loaded(t, emptyGroup())
	b.tell(joinMax, Woke{})
	if _, saves := b.open.(Save); saves {
		t.Fatal("it is saved")
	}
	if len(b.errs) != 1 || len(b.answers) != 2 || b.answers[1].Status != protocol.StatusRetry || b.answers[2].Status != protocol.StatusRetry {
		t.Errorf("errors %v, answers %v", b.errs, b.answers)
	}
}

// Lives whose stamp is missing are marked at the next tick, in the write that is due
// then: beside a save, beside the renewal of others, or in a renewal of its own. A
// life that is heard in the same cycle needs no mark.
func TestLossesAreMarkedWithWhatIsDue(t *testing.T) {
	s := emptyGroup()
	for _, name := range []string{"a", "b"} {
		next, _, _, err := group.Apply(s, group.Input{Now: epochTime, ID: name}, group.Beat{Request: heartbeat(name, name+"1", 0)})
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	claim := heartbeat("a", "a1", s.Lives[0].Epoch)
	claim.OwnedShards = protocol.Shards{0, 1}
	for _, c := range []struct {
		name string
		q    *protocol.Heartbeat
		want map[string]bool // whether a mark is written, by life
		save bool
	}{
		{"nothing else", nil, map[string]bool{"a/a1": true, "b/b1": true}, false},
		{"a refusal", heartbeat("c", "c1", 5), map[string]bool{"a/a1": true, "b/b1": true}, false},
		{"a join", heartbeat("c", "c1", 0), map[string]bool{"a/a1": true, "b/b1": true, "c/c1": false}, true},
		{"a change of a's", claim, map[string]bool{"a/a1": false, "b/b1": true}, true},
		{"a's leave", &protocol.Heartbeat{ProtocolVersion: 1, RequestID: "q", MemberID: "a", Incarnation: "a1", MemberEpoch: protocol.EpochLeave}, map[string]bool{"b/b1": true}, true},
	} {
		b := newBench()
		b.tell(0, Woke{})
		if b.loaded(t, s); !b.Quiet() {
			t.Errorf("%s: something is open with all stamps there", c.name)
		}
		var what Happening = Woke{}
		if c.q != nil {
			what = Arrived{ID: 1, Request: c.q}
		}
		b.tell(2*time.Second, what)
		b.found(t, 2*time.Second, s, nil)
		var stamps []Stamp
		switch e := b.open.(type) {
		case Renew:
			stamps = e.Stamps
		case Save:
			stamps = e.Stamps
			if !c.save {
				t.Errorf("%s: is saved", c.name)
			}
		}
		got := map[string]bool{}
		for _, x := range stamps {
			_, heard := StampTime(x.Value)
			got[x.Life] = !heard
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: marks %v, want %v", c.name, got, c.want)
		}
	}
}

// What was odd about a report is told, also where there is nothing to save.
func TestOddRowsAreCounted(t *testing.T) {
	s, r, _, err := group.Apply(emptyGroup(), group.Input{Now: epochTime, ID: "x"}, group.Beat{Request: heartbeat("a", "a1", 0)})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench()
	b.tell(0, Woke{})
	b.loaded(t, s)
	for id := uint64(1); id <= 2; id++ {
		q := heartbeat("a", "a1", r.Answers[0].MemberEpoch)
		q.OwnedShards = protocol.Shards{0, 1}
		q.ShardProgress = []protocol.ShardProgress{{Shard: 99}}
		b.events = nil
		b.tell(0, Arrived{ID: id, Request: q})
		switch e := b.open.(type) {
		case Save:
			b.tell(0, Saved{Outcome: Done, Version: Version{Instance: "i", Revision: 2, Nonce: e.Nonce}})
		case Renew:
			b.tell(0, Renewed{Outcome: Done})
		}
		if len(b.events) != 1 || b.events[0] != (group.RowsIgnored{Member: "a", Rows: 1}) || b.answers[id].Status != protocol.StatusOK {
			t.Errorf("request %d: events %v, answer %+v", id, b.events, b.answers[id])
		}
	}
}

// Where nothing but joins waited, and none of them fits in, the cycle is over.
func TestAFullRecordMayHaveNothingElseToDo(t *testing.T) {
	b := newBench()
	b.tell(0, Woke{})
	b.loaded(t, emptyGroup())
	b.tell(0, Arrived{ID: 1, Request: heartbeat("a", "a1", 0)})
	b.tell(joinMax, Woke{})
	b.tell(joinMax, Saved{Outcome: Refused, Err: protocol.ErrTooLarge})
	if b.answers[1].Status != protocol.StatusInvalidRequest || !b.Quiet() || len(b.errs) > 0 {
		t.Errorf("answered %+v, quiet %v, errors %v", b.answers[1], b.Quiet(), b.errs)
	}
}

// A group that stays damaged is looked at with every tick; its operators are told
// once, and again when it is damaged in another way or after it was sound.
func TestDamageIsComplainedOfOnce(t *testing.T) {
	b := newBench()
	at := time.Duration(0)
	tick := func(body string) {
		at += 2 * time.Second
		b.tell(at, Woke{})
		b.tell(at, Loaded{Version: Version{Instance: "i", Revision: 1, Nonce: body}, Body: []byte(body)})
	}
	sound, err := group.Encode(ptr(emptyGroup()))
	if err != nil {
		t.Fatal(err)
	}
	tick("{")
	tick("{")
	tick("{")
	if len(b.errs) != 1 {
		t.Errorf("%d complaints of one damage", len(b.errs))
	}
	tick(`{"schemaVersion":9}`)
	tick(string(sound))
	tick(`{"schemaVersion":9}`)
	if len(b.errs) != 3 {
		t.Errorf("%d complaints of three damages: %v", len(b.errs), b.errs)
	}
}

func ptr[T any](v T) *T { return &v }
