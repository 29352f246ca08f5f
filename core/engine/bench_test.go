package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// crowd is an engine with a stable group, and the next heartbeats of its members.
func crowd(b *testing.B, shards, members int) (*bench, []*protocol.Heartbeat) {
	b.Helper()
	s := group.New("orders", "billing", shards, 1, protocol.DefaultTimings(), epochTime)
	requests := make([]*protocol.Heartbeat, members)
	joins, acks := make(group.Batch, members), make(group.Batch, members)
	for i := range requests {
		requests[i] = heartbeat(fmt.Sprintf("member-%05d", i), fmt.Sprintf("m-0123456789abcdef%08d", i), 0)
		joins[i] = group.Beat{Request: requests[i]}
	}
	apply := func(id string, cmd group.Command) []group.Answer {
		next, r, _, err := group.Apply(s, group.Input{Now: epochTime, ID: id}, cmd)
		if err != nil {
			b.Fatal(err)
		}
		s = next
		return r.Answers
	}
	for i, a := range apply("joins", joins) {
		q := *requests[i]
		q.MemberEpoch, q.MetadataVersion = a.MemberEpoch, a.MetadataVersion
		for _, x := range a.Assignment.AssignedShards {
			q.OwnedShards = append(q.OwnedShards, x.Shard)
		}
		requests[i], acks[i] = &q, group.Beat{Request: &q}
	}
	apply("acks", acks)
	e := newBench()
	e.tell(0, Woke{})
	e.loaded(b, s)
	return e, requests
}

// BenchmarkHeartbeat measures what an engine does for heartbeats of a stable
// group, without the store: one at a time, and a thousand that wait together.
func BenchmarkHeartbeat(b *testing.B) {
	for _, together := range []int{1, 1000} {
		b.Run(fmt.Sprintf("S10000/M1000/together%d", together), func(b *testing.B) {
			e, requests := crowd(b, 10_000, 1_000)
			e.nextTick = time.Hour
			b.ReportAllocs()
			id := uint64(0)
			for b.Loop() {
				for i := range together {
					id++
					e.tell(time.Minute, Arrived{ID: id, Request: requests[i]})
				}
				// The first went alone, the others meanwhile.
				e.tell(time.Minute, Renewed{Outcome: Done})
				if together > 1 {
					e.tell(time.Minute, Renewed{Outcome: Done})
				}
				if len(e.answers) != together {
					b.Fatalf("%d of %d are answered", len(e.answers), together)
				}
				clear(e.answers)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*together), "ns/heartbeat")
		})
	}
}

// BenchmarkJoin measures one join and the leave that follows it: two changes of
// the whole group, encoded and indexed, without the store.
func BenchmarkJoin(b *testing.B) {
	b.Run("S10000/M1000", func(b *testing.B) {
		e, _ := crowd(b, 10_000, 1_000)
		e.nextTick = time.Hour
		b.ReportAllocs()
		revision := int64(1)
		for i := 0; b.Loop(); i++ {
			for _, epoch := range []protocol.Epoch{protocol.EpochJoin, protocol.EpochLeave} {
				e.open = nil
				e.tell(time.Minute, Arrived{ID: uint64(i), Request: heartbeat("new", fmt.Sprint("n", i), epoch)})
				save, saves := e.open.(Save)
				if !saves {
					b.Fatalf("%T instead of a save", e.open)
				}
				revision++
				e.tell(time.Minute, Saved{Outcome: Done, Version: Version{Instance: "i", Revision: revision, Nonce: save.Nonce}})
			}
			e.events = nil
		}
	})
}
