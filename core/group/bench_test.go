package group

import (
	"fmt"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// crowd is a stable group; the requests are its members' next heartbeats.
func crowd(tb testing.TB, shards, members int) (State, []*protocol.Heartbeat) {
	tb.Helper()
	requests := make([]*protocol.Heartbeat, members)
	for i := range requests {
		requests[i] = join(fmt.Sprintf("member-%05d", i), fmt.Sprintf("m-0123456789abcdef%08d", i))
	}
	s, r := must(tb, New("orders", "billing", shards, 1, protocol.DefaultTimings(), dawn), "joins", beats(requests...))
	for i := range requests {
		requests[i] = after(requests[i], &r.Answers[i].HeartbeatResponse)
	}
	s, _ = must(tb, s, "acks", beats(requests...))
	if s.Summary() != protocol.GroupStable {
		tb.Fatalf("the crowd is %s", s.Summary())
	}
	return s, requests
}

// after is the heartbeat of a member that has applied an answer: it owns what it
// was assigned and has let go of everything else.
func after(q *protocol.Heartbeat, r *protocol.HeartbeatResponse) *protocol.Heartbeat {
	next := *q
	next.StoppedIncarnation, next.RevokingShards, next.OwnedShards = "", nil, nil
	next.MemberEpoch, next.MetadataVersion = r.MemberEpoch, r.MetadataVersion
	for _, a := range r.Assignment.AssignedShards {
		next.OwnedShards = append(next.OwnedShards, a.Shard)
	}
	return &next
}

// with makes one request each from many.
func with(in []*protocol.Heartbeat, change func(*protocol.Heartbeat)) []*protocol.Heartbeat {
	out := make([]*protocol.Heartbeat, len(in))
	for i, q := range in {
		next := *q
		change(&next)
		out[i] = &next
	}
	return out
}

var sizes = []struct{ shards, members int }{{10_000, 1_000}, {65_536, 1_000}}

// BenchmarkApply measures one change of a group, without the store.
func BenchmarkApply(b *testing.B) {
	for _, size := range sizes {
		s, requests := crowd(b, size.shards, size.members)
		v := NewView(&s)
		joined, r := must(b, s, "join", beats(join("new", "n")))
		var ack *protocol.Heartbeat
		for _, q := range requests {
			// The member that loses a shard to the newcomer lets go of it.
			key := LifeKey(q.MemberID, q.Incarnation)
			if l, _ := r.View.Life(key); l.Epoch != q.MemberEpoch {
				a := r.View.Answer(q, key)
				ack = after(q, &a)
				break
			}
		}
		all := len(requests)
		for _, bm := range []struct {
			name  string
			state State
			view  *View
			cmd   Command
		}{
			{"tick", s, v, Tick{}},
			{"steady1", s, v, beats(requests[:1]...)},
			{"join1", s, v, beats(join("new", "n"))},
			{"ack1", joined, r.View, beats(ack)},
			{"leave1", s, v, beats(with(requests[:1], leaves)...)},
			{fmt.Sprintf("steady%d", all), s, v, beats(requests...)},
			{fmt.Sprintf("leave%d", all), s, v, beats(with(requests, leaves)...)},
			{fmt.Sprintf("rejoin%d", all), s, v, beats(with(requests, rejoins)...)},
		} {
			b.Run(fmt.Sprintf("S%d/M%d/%s", size.shards, size.members, bm.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, _, _, err := Apply(bm.state, Input{Now: dawn, ID: "b", View: bm.view}, bm.cmd); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func leaves(q *protocol.Heartbeat) { q.MemberEpoch, q.OwnedShards = protocol.EpochLeave, nil }

func rejoins(q *protocol.Heartbeat) {
	q.MemberEpoch, q.OwnedShards = protocol.EpochJoin, nil
	q.StoppedIncarnation, q.Incarnation = q.Incarnation, q.Incarnation+"x"
}

// BenchmarkSteady measures the answer to a heartbeat that changes nothing.
func BenchmarkSteady(b *testing.B) {
	for _, size := range sizes {
		s, requests := crowd(b, size.shards, size.members)
		v := NewView(&s)
		b.Run(fmt.Sprintf("S%d/M%d", size.shards, size.members), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := v.Steady(requests[i%len(requests)]); !ok {
					b.Fatal("not steady")
				}
			}
		})
	}
}

// BenchmarkState measures what each save and each load of another coordinator's
// save costs.
func BenchmarkState(b *testing.B) {
	for _, size := range sizes {
		s, _ := crowd(b, size.shards, size.members)
		body, err := Encode(&s)
		if err != nil {
			b.Fatal(err)
		}
		run := func(name string, do func() error) {
			b.Run(fmt.Sprintf("S%d/M%d/%s", size.shards, size.members, name), func(b *testing.B) {
				b.ReportAllocs()
				b.ReportMetric(float64(len(body)), "bytes")
				for b.Loop() {
					if err := do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("view", func() error { NewView(&s); return nil })
		run("check", s.Check)
		run("encode", func() error { _, err := Encode(&s); return err })
		run("decode", func() error { _, err := Decode(body); return err })
	}
}
