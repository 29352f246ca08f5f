package group

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// FuzzDecode: whatever lies in the store is a sound state or a refusal, and a
// sound state can be worked with and written again.
func FuzzDecode(f *testing.F) {
	s := lively(f)
	body, err := Encode(&s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Add([]byte(`{"schemaVersion":2}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := Decode(body)
		if err != nil {
			if !errors.Is(err, protocol.ErrCorrupt) {
				t.Fatalf("Decode: %v, want %v", err, protocol.ErrCorrupt)
			}
			return
		}
		written, err := Encode(&s)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := Decode(written)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if rewritten, err := Encode(&again); err != nil || !bytes.Equal(written, rewritten) {
			t.Fatalf("the state changes in the store (%v):\n%s\n%s", err, written, rewritten)
		}
		if _, _, _, err := Apply(s, Input{Now: dawn, ID: "fuzz"}, Beat{join("a", "fuzz")}); err != nil && !errors.Is(err, ErrInvariant) {
			t.Fatal(err)
		}
	})
}

// FuzzApply reads bytes as commands. Nobody promises that these clients behave,
// so shards may have two readers; but the state never contradicts itself, nothing
// goes back, and no answer says what the ledger does not.
func FuzzApply(f *testing.F) {
	f.Add([]byte{})
	// One member joins, acknowledges, a second joins, the first lets go, leaves.
	f.Add([]byte{4, 0, 0x00, 0, 0, 0, 0x10, 1, 15, 0, 0x04, 0, 0, 0, 0x10, 1, 3, 12, 0x20, 0, 0, 15})
	// All of it in one change, with a tick.
	f.Add([]byte{4, 0, 0x80, 0, 0, 0, 0x90, 1, 15, 0, 0x84, 0, 0, 0, 0x90, 1, 3, 12, 0xb0, 255, 255})
	f.Fuzz(func(t *testing.T, in []byte) {
		z := commands{in: in}
		p := newSchedule(uint64(z.next()), 0, map[string]int{})
		defer func() {
			switch r := recover().(type) {
			case nil:
			case failure:
				t.Fatal(r)
			default:
				panic(r)
			}
		}()
		p.state = New("orders", "billing", int(z.next())%9, 1, protocol.DefaultTimings(), dawn)
		p.tokens = make([]grantOf, len(p.state.Target))
		for n := 0; len(z.in) > 0 && n < 200; n++ {
			z.change(p)
		}
	})
}

// commands reads bytes.
type commands struct{ in []byte }

func (z *commands) next() byte {
	if len(z.in) == 0 {
		return 0
	}
	b := z.in[0]
	z.in = z.in[1:]
	return b
}

// change reads one change and applies it.
func (z *commands) change(p *schedule) {
	var batch Batch
	in := Input{Now: dawn, ID: fmt.Sprint(len(z.in))}
	for more := true; more && len(z.in) > 0; {
		op := z.next()
		// The highest bit says that the next command belongs to the same change.
		more = op&0x80 != 0
		if op&0x60 == 0x60 {
			batch = append(batch, z.command(op, &p.state))
			in.Expired, in.Overdue = z.verdicts(&p.state)
			in.MayCorrect = op&0x10 != 0
			if k := p.state.Correction; k != nil && op&4 != 0 {
				in.Corrected = k.Jump
			}
			if op&8 != 0 {
				in.PromiseOver = p.state.TimingsEpoch
			}
			continue
		}
		batch = append(batch, Beat{z.request(op, &p.state)})
	}
	before := p.state
	next, r, _, err := Apply(before, in, batch)
	if err != nil {
		p.fail("%v", err)
	}
	if !r.Changed && len(r.Gone)+len(r.Relied) > 0 {
		p.fail("nothing is saved, but %v are gone and %v were relied on", r.Gone, r.Relied)
	}
	for more := len(next.Target) - len(p.tokens); more > 0; more-- {
		p.tokens = append(p.tokens, grantOf{})
	}
	p.checkGrowth(&before, &next)
	p.checkTarget(&next)
	p.checkAnswers(&next, r)
	p.reread(&next)
	p.state = next
}

// command reads what is not a heartbeat.
func (z *commands) command(op byte, s *State) Command {
	switch op & 3 {
	case 1:
		return Correct{Seen: s.Counter + protocol.Epoch(z.next()), SeenVersion: s.MetadataVersion + int64(z.next()), Reason: "fuzz"}
	case 2:
		a := Adopt{ShardCount: int(z.next()) % 12, StreamVersion: int64(z.next())}
		a.ReadCount = a.ShardCount + int(a.StreamVersion)%3
		if a.StreamVersion > 128 && a.ReadCount > a.ShardCount {
			a.Closed = spans.Of(a.ReadCount - 1)
		}
		return a
	case 3:
		t := protocol.DefaultTimings()
		t.Lease += time.Duration(int(z.next())%9-4) * time.Second
		return Retime{Timings: t}
	}
	return Tick{}
}

// request reads a heartbeat: who sends it, which epoch it names, and what it
// lists. op holds the kind in bits 5 and 6, the member in bits 2 and 3, its life
// in bits 0 and 1, and in bit 4 whether lists follow.
func (z *commands) request(op byte, s *State) *protocol.Heartbeat {
	q := join(string(rune('a'+op>>2&3)), "")
	if life := op & 3; life > 0 {
		q.Incarnation = string(rune('0' + life))
	}
	switch op & 0x60 {
	case 0x20:
		q.MemberEpoch = protocol.EpochLeave
	case 0x40:
		q.StoppedIncarnation = string(rune('0' + z.next()&7))
		if q.StoppedIncarnation == q.Incarnation {
			q.StoppedIncarnation = ""
		}
	}
	if op&0x10 == 0 {
		return q
	}
	if q.MemberEpoch == protocol.EpochJoin && q.StoppedIncarnation == "" {
		// An epoch near the present one, on either side.
		q.MemberEpoch = s.Counter + protocol.Epoch(z.next()%8) - 6
	}
	q.MetadataVersion = s.MetadataVersion
	owned, revoking := z.next(), z.next()
	if owned&revoking&0x80 != 0 {
		q.MetadataVersion += int64(z.next()) - 128
	}
	for i := range 8 {
		shard := protocol.ShardIndex(i)
		if i == 7 {
			shard = []protocol.ShardIndex{-1, 7, math.MaxInt32, math.MinInt64}[op&3]
		}
		if owned&(1<<i) != 0 {
			q.OwnedShards = append(q.OwnedShards, shard, shard)
			q.ShardProgress = append(q.ShardProgress, protocol.ShardProgress{Shard: shard})
		}
		if revoking&(1<<i) != 0 {
			state := protocol.RevokeRevoked
			if owned&(1<<((i+1)%8)) != 0 {
				state = protocol.RevokeDraining
			}
			q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: shard, State: state})
		}
	}
	return q
}

// verdicts reads which leases are over and which revocations are overdue.
func (z *commands) verdicts(s *State) (map[string]bool, map[string]protocol.Epoch) {
	over, late := z.next(), z.next()
	expired, overdue := map[string]bool{}, map[string]protocol.Epoch{}
	for i := range s.Lives {
		key := s.Lives[i].Key()
		if over&(1<<(i%8)) != 0 {
			expired[key] = true
		}
		if late&(1<<(i%8)) != 0 {
			overdue[key] = s.Counter - protocol.Epoch(late>>6)
		}
	}
	return expired, overdue
}
