package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// stable is an engine with so many settled members, and their keepalives.
func stable(t *testing.T, members int) (*bench, []*protocol.Heartbeat) {
	t.Helper()
	s := group.New("orders", "billing", members, 1, protocol.DefaultTimings(), epochTime)
	requests := make([]*protocol.Heartbeat, members)
	apply := func(id string) {
		cmd := make(group.Batch, members)
		for i, q := range requests {
			cmd[i] = group.Beat{Request: q}
		}
		next, r, _, err := group.Apply(s, group.Input{Now: epochTime, ID: id}, cmd)
		if err != nil {
			t.Fatal(err)
		}
		s = next
		for i, a := range r.Answers {
			q := *requests[i]
			q.MemberEpoch, q.MetadataVersion, q.OwnedShards = a.MemberEpoch, a.MetadataVersion, nil
			for _, x := range a.Assignment.AssignedShards {
				q.OwnedShards = append(q.OwnedShards, x.Shard)
			}
			requests[i] = &q
		}
	}
	for i := range requests {
		requests[i] = heartbeat(fmt.Sprintf("m%03d", i), fmt.Sprintf("i%03d", i), 0)
	}
	apply("joins")
	apply("acks")
	b := newBench()
	b.tell(0, Woke{})
	b.loaded(t, s)
	b.open = nil
	return b, requests
}

// serve has heartbeats served, the first one alone and the others together after it.
func (b *bench) serve(t *testing.T, requests []*protocol.Heartbeat, at time.Duration) {
	t.Helper()
	for i, q := range requests {
		b.tell(at, Arrived{ID: uint64(i + 1), Request: q})
	}
	for len(b.answers) < len(requests) {
		if _, renews := b.open.(Renew); !renews {
			t.Fatalf("%T is open, with %d of %d answered", b.open, len(b.answers), len(requests))
		}
		b.open = nil
		b.tell(at, Renewed{Outcome: Done})
	}
	clear(b.answers)
}

func TestALoneHeartbeatNeverWaits(t *testing.T) {
	b, requests := stable(t, gatherFrom)
	b.serve(t, requests, time.Millisecond) // one alone, then the others: just too few
	b.tell(time.Millisecond, Arrived{ID: 100, Request: requests[0]})
	if _, renews := b.open.(Renew); !renews {
		t.Errorf("%T is open after a cycle of %d", b.open, gatherFrom-1)
	}
}

func TestAtLoadHeartbeatsWaitForEachOther(t *testing.T) {
	b, requests := stable(t, gatherMax+20)
	crowd := gatherFrom + 1
	const now = 5 * time.Millisecond
	b.serve(t, requests[:crowd], now)
	for i := range gatherFrom - 1 {
		if b.tell(now, Arrived{ID: uint64(100 + i), Request: requests[i]}); b.open != nil {
			t.Fatalf("%T is open with %d of %d there", b.open, i+1, gatherFrom)
		}
	}
	b.tell(now, Arrived{ID: 200, Request: requests[gatherFrom]})
	if renew, ok := b.open.(Renew); !ok || len(renew.Stamps) != gatherFrom {
		t.Errorf("%T is open with as many there as before", b.open)
	}
	b.open = nil
	b.tell(now, Renewed{Outcome: Done})
	clear(b.answers)

	// Fewer than before are not waited for any longer than gatherTime.
	b.tell(now, Arrived{ID: 300, Request: requests[0]})
	if b.open != nil || b.wake != now+gatherTime {
		t.Fatalf("%T is open, and the next wake is at %s", b.open, b.wake)
	}
	b.tell(now+gatherTime, Woke{})
	if renew, ok := b.open.(Renew); !ok || len(renew.Stamps) != 1 {
		t.Errorf("%T is open after %s", b.open, gatherTime)
	}
	b.open = nil
	b.tell(now+gatherTime, Renewed{Outcome: Done})
	clear(b.answers)

	// And no more than gatherMax, however many there were.
	b.serve(t, requests, now+gatherTime)
	for i := range gatherMax {
		b.tell(now+gatherTime, Arrived{ID: uint64(400 + i), Request: requests[i]})
	}
	if renew, ok := b.open.(Renew); !ok || len(renew.Stamps) != gatherMax {
		t.Errorf("%T is open with %d there", b.open, gatherMax)
	}
}

// What waits to be gathered is answered by a shutdown, and is not kept from the look
// at the leases.
func TestGatheringEndsWithTheRest(t *testing.T) {
	b, requests := stable(t, gatherFrom+1)
	b.serve(t, requests, time.Millisecond)
	b.tell(time.Millisecond, Arrived{ID: 100, Request: requests[0]})
	b.tell(time.Millisecond, Closing{})
	if b.answers[100].Status != protocol.StatusRetry || !b.Quiet() {
		t.Errorf("a shutdown answers %+v", b.answers[100])
	}
}

func TestAReportThatSaysTheSameIsWrittenSeldom(t *testing.T) {
	b, requests := stable(t, 1)
	q := requests[0]
	writes := func(at time.Duration, q *protocol.Heartbeat) bool {
		b.tell(at, Arrived{ID: uint64(at), Request: q})
		renew, ok := b.open.(Renew)
		if !ok {
			t.Fatalf("%T is open", b.open)
		}
		b.open = nil
		b.tell(at, Renewed{Outcome: Done})
		return len(renew.Reports) > 0
	}
	other := *q
	other.Capacity.MaxConcurrency++
	moved := *q
	moved.ShardProgress = []protocol.ShardProgress{{Shard: 0, LastDeliveredID: "1-0"}}
	b.nextTick = time.Hour
	start := time.Minute
	for _, step := range []struct {
		after time.Duration
		q     *protocol.Heartbeat
		want  bool
	}{
		{0, q, true}, // never written before
		{reportEvery / 2, q, false},
		{2 * reportEvery, q, false},
		{2 * reportEvery, &other, true},
		{2*reportEvery + 1, q, false}, // different, but too soon
		{3 * reportEvery, q, true},
		{3*reportEvery + repeatEvery - 1, q, false},
		{3*reportEvery + repeatEvery, q, true},
		{4*reportEvery + repeatEvery, &moved, true},
		{4*reportEvery + repeatEvery + 1, &moved, false},
		{5*reportEvery + repeatEvery, &moved, true},
	} {
		if got := writes(start+step.after, step.q); got != step.want {
			t.Errorf("after %s: written is %v", step.after, got)
		}
	}
}
