package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// unacknowledged is the record of a group whose member a has not acknowledged its two
// shards yet; a full one is so large that no other member fits in.
func unacknowledged(t *testing.T, full bool) (body []byte, epoch protocol.Epoch) {
	t.Helper()
	s := group.New("orders", "billing", 2, 1, protocol.DefaultTimings(), epochTime)
	s, r, _, err := group.Apply(s, group.Input{Now: epochTime, ID: "x"}, group.Beat{Request: &protocol.Heartbeat{
		ProtocolVersion: 1, MemberID: "a", Incarnation: "a1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	size := func() int {
		if body, err = group.Encode(&s); err != nil {
			t.Fatal(err)
		}
		return len(body)
	}
	empty := size()
	if !full {
		return body, r.Answers[0].MemberEpoch
	}
	long := strings.Repeat("n", protocol.MaxNameBytes)
	s.Ended = append(s.Ended, group.Tombstone{Member: long, Incarnation: long, Reason: group.EndExpired, At: epochTime})
	each := size() - empty + 1
	// Room is left for an acknowledgement, but not for a member with long names.
	for range (protocol.MaxAggregateBytes-100-empty)/each - 1 {
		s.Ended = append(s.Ended, s.Ended[0])
	}
	size()
	return body, r.Answers[0].MemberEpoch
}

var stampOfA = map[string]string{group.LifeKey("a", "a1"): "stamp"}

// A group whose record has no room for another member goes on with those that it
// has, also when one that would join asks in the same moment.
func TestAFullRecordRefusesTheJoinAlone(t *testing.T) {
	name := func(c byte) string { return strings.Repeat(string(c), protocol.MaxNameBytes) }
	for _, limit := range []string{"of the record", "of the store"} {
		body, epoch := unacknowledged(t, limit == "of the record")
		e := New(Config{Stream: "orders", Group: "billing", TickInterval: time.Second, Timings: protocol.DefaultTimings()})
		id := 0
		step := func(what Happening) []Effect {
			id++
			return e.Step(Input{Mono: time.Second, Now: epochTime, ID: fmt.Sprint(id)}, what)
		}
		answers := map[uint64]protocol.HeartbeatResponse{}
		note := func(effects []Effect) (open Effect) {
			for _, x := range effects {
				switch x := x.(type) {
				case Answer:
					answers[x.ID] = x.Response
				case Load, Save:
					open = x
				case Complain:
					t.Errorf("%s: complains of %v", limit, x.Err)
				}
			}
			return open
		}
		note(step(Woke{}))
		step(Arrived{ID: 1, Request: &protocol.Heartbeat{ProtocolVersion: 1, MemberID: "a", Incarnation: "a1", MemberEpoch: epoch, OwnedShards: protocol.Shards{0, 1}}})
		for i, c := range []byte("xyz") {
			step(Arrived{ID: uint64(2 + i), Request: &protocol.Heartbeat{ProtocolVersion: 1, MemberID: name(c), MemberName: name(c), Incarnation: name(c)}})
		}
		open := note(step(Loaded{Version: Version{Instance: "i", Revision: 1, Nonce: "n"}, Body: body, Stamps: stampOfA}))
		for range 3 {
			save, saves := open.(Save)
			if !saves {
				break
			}
			if limit == "of the store" && strings.Contains(string(save.Body), name('x')) {
				open = note(step(Saved{Outcome: Refused, Err: errors.New("too large")}))
				continue
			}
			open = note(step(Saved{Outcome: Done, Version: Version{Instance: "i", Revision: 2, Nonce: save.Nonce}}))
		}
		if a := answers[1]; a.Status != protocol.StatusOK || len(a.Assignment.AssignedShards) != 2 {
			t.Errorf("%s: the member that is there is answered %s %s", limit, a.Status, a.Reason)
		}
		for id := uint64(2); id <= 4; id++ {
			if a := answers[id]; a.Status != protocol.StatusInvalidRequest || a.Reason == "" {
				t.Errorf("%s: a join for which there is no room is answered %s %s", limit, a.Status, a.Reason)
			}
		}
		if !e.Quiet() {
			t.Errorf("%s: something is open", limit)
		}
	}
}

// A change that is needed and finds no room stops the group, and says so.
func TestAFullRecordThatMustChangeIsComplainedOf(t *testing.T) {
	body, epoch := unacknowledged(t, true)
	e := New(Config{Stream: "orders", Group: "billing", TickInterval: time.Second, Timings: protocol.DefaultTimings()})
	in := Input{Mono: time.Second, Now: epochTime, ID: "1"}
	e.Step(in, Woke{})
	e.Step(in, Arrived{ID: 1, Request: &protocol.Heartbeat{
		ProtocolVersion: 1, MemberID: "a", Incarnation: "a1", MemberName: strings.Repeat("z", 10*protocol.MaxNameBytes), MemberEpoch: epoch,
	}})
	complained, retried := false, false
	for _, x := range e.Step(in, Loaded{Version: Version{Instance: "i", Revision: 1, Nonce: "n"}, Body: body, Stamps: stampOfA}) {
		switch x := x.(type) {
		case Complain:
			complained = errors.Is(x.Err, protocol.ErrTooLarge)
		case Answer:
			retried = x.Response.Status == protocol.StatusRetry && strings.Contains(x.Response.Reason, "use fewer")
		}
	}
	if !complained || !retried {
		t.Errorf("complained %v, told to retry with the reason %v", complained, retried)
	}
}
