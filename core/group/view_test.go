package group

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// shared is a group whose two members have acknowledged two shards each.
func shared(t *testing.T) (State, *protocol.Heartbeat) {
	t.Helper()
	s, requests := crowd(t, 4, 2)
	return s, requests[0]
}

func TestSteadyTakesOnlyWhatChangesNothing(t *testing.T) {
	s, q := shared(t)
	if a, ok := NewView(&s).Steady(q); !ok || a.Life != LifeKey(q.MemberID, q.Incarnation) || len(a.Assignment.AssignedShards) != 2 {
		t.Fatalf("a steady heartbeat is not steady: %v %+v", ok, a)
	}
	for name, change := range map[string]func(*protocol.Heartbeat){
		"another protocol":       func(q *protocol.Heartbeat) { q.ProtocolVersion = 2 },
		"a join":                 func(q *protocol.Heartbeat) { q.MemberEpoch = protocol.EpochJoin },
		"a leave":                func(q *protocol.Heartbeat) { q.MemberEpoch = protocol.EpochLeave },
		"an older epoch":         func(q *protocol.Heartbeat) { q.MemberEpoch-- },
		"an epoch to come":       func(q *protocol.Heartbeat) { q.MemberEpoch++ },
		"a member that is not":   func(q *protocol.Heartbeat) { q.MemberID = "nobody" },
		"another incarnation":    func(q *protocol.Heartbeat) { q.Incarnation = "other" },
		"no incarnation":         func(q *protocol.Heartbeat) { q.Incarnation = "" },
		"a new name":             func(q *protocol.Heartbeat) { q.MemberName = "new" },
		"a shard less":           func(q *protocol.Heartbeat) { q.OwnedShards = q.OwnedShards[:1] },
		"a shard twice":          func(q *protocol.Heartbeat) { q.OwnedShards = protocol.Shards{q.OwnedShards[0], q.OwnedShards[0]} },
		"a shard more":           func(q *protocol.Heartbeat) { q.OwnedShards = append(slices.Clone(q.OwnedShards), 3) },
		"a shard of another":     func(q *protocol.Heartbeat) { q.OwnedShards = protocol.Shards{q.OwnedShards[0], 3} },
		"a shard below 0":        func(q *protocol.Heartbeat) { q.OwnedShards = protocol.Shards{-1, q.OwnedShards[1]} },
		"a revoke":               func(q *protocol.Heartbeat) { q.RevokingShards = []protocol.RevokingShard{{Shard: 0}} },
		"progress of no shard":   func(q *protocol.Heartbeat) { q.ShardProgress = []protocol.ShardProgress{{Shard: 4}} },
		"progress below shard 0": func(q *protocol.Heartbeat) { q.ShardProgress = []protocol.ShardProgress{{Shard: -1}} },
	} {
		changed := *q
		change(&changed)
		if a, ok := NewView(&s).Steady(&changed); ok {
			t.Errorf("%s is steady: %+v", name, a)
		}
	}
}

func TestSteadyServesOldClients(t *testing.T) {
	s, r := must(t, New("orders", "billing", 2, 1, protocol.DefaultTimings(), dawn), "1", beats(join("a", "")))
	q := after(join("a", ""), &r.Answers[0].HeartbeatResponse)
	if _, ok := NewView(&s).Steady(q); ok {
		t.Error("a heartbeat that acknowledges is steady")
	}
	s, _ = must(t, s, "2", beats(q))
	if a, ok := NewView(&s).Steady(q); !ok || a.Life != s.Lives[0].Key() {
		t.Errorf("the heartbeat of an old client is not steady: %+v", a)
	}
}

func TestSteadyStopsWhenSomethingIsPendingOrRevoked(t *testing.T) {
	s, q := shared(t)
	s, r := must(t, s, "more", beats(join("x", "x1"), join("y", "y1")))
	for i := range s.Lives {
		l := &s.Lives[i]
		next := &protocol.Heartbeat{ProtocolVersion: 1, MemberID: l.Member, Incarnation: l.Incarnation, MemberEpoch: l.Epoch}
		for _, a := range r.View.Answer(next, l.Key()).Assignment.AssignedShards {
			next.OwnedShards = append(next.OwnedShards, a.Shard)
		}
		l.Acked = l.Epoch
		if a, ok := NewView(&s).Steady(next); ok {
			t.Errorf("%s is steady while %v", l.Key(), a.Assignment)
		}
	}
	if _, ok := NewView(&s).Steady(q); ok {
		t.Error("the epoch before the rebalance is steady")
	}
}

func TestSettled(t *testing.T) {
	s, q := shared(t)
	v := NewView(&s)
	a, _ := v.Steady(q)
	for name, tc := range map[string]struct {
		change func(*protocol.Heartbeat, *protocol.HeartbeatResponse)
		want   bool
	}{
		"nothing new":      {func(*protocol.Heartbeat, *protocol.HeartbeatResponse) {}, true},
		"in another order": {func(q *protocol.Heartbeat, _ *protocol.HeartbeatResponse) { slices.Reverse(q.OwnedShards) }, true},
		"a refusal":        {func(_ *protocol.Heartbeat, r *protocol.HeartbeatResponse) { r.Status = protocol.StatusFencedEpoch }, false},
		"a join":           {func(q *protocol.Heartbeat, _ *protocol.HeartbeatResponse) { q.MemberEpoch = 0 }, false},
		"a leave":          {func(q *protocol.Heartbeat, r *protocol.HeartbeatResponse) { q.MemberEpoch, r.MemberEpoch = -1, -1 }, false},
		"a new epoch":      {func(_ *protocol.Heartbeat, r *protocol.HeartbeatResponse) { r.MemberEpoch++ }, false},
		"a revoke to settle": {func(q *protocol.Heartbeat, _ *protocol.HeartbeatResponse) {
			q.RevokingShards = []protocol.RevokingShard{{}}
		}, false},
		"a shard not read": {func(q *protocol.Heartbeat, _ *protocol.HeartbeatResponse) { q.OwnedShards = q.OwnedShards[1:] }, false},
		"one shard for another": {func(q *protocol.Heartbeat, _ *protocol.HeartbeatResponse) {
			q.OwnedShards = protocol.Shards{q.OwnedShards[0], 3}
		}, false},
	} {
		request, answer := *q, a.HeartbeatResponse
		request.OwnedShards = slices.Clone(q.OwnedShards)
		tc.change(&request, &answer)
		if got := Settled(&request, &answer); got != tc.want {
			t.Errorf("%s: settled is %v, want %v", name, got, tc.want)
		}
	}
}

func TestAViewFindsWhatTheStateHas(t *testing.T) {
	s := lively(t)
	v := NewView(&s)
	held, active := 0, map[string]string{}
	for i := range s.Lives {
		l := &s.Lives[i]
		if got, found := v.Life(l.Key()); !found || got != l {
			t.Errorf("Life(%s) = %+v, %v", l.Key(), got, found)
		}
		for _, shard := range v.Held(l.Key()) {
			held++
			if s.Ledger.Holder[shard] != int32(i) {
				t.Errorf("shard %d is not held by %s", shard, l.Key())
			}
		}
		if l.State == Active {
			active[l.Member] = l.Incarnation
		}
	}
	if held != len(s.Target) || !v.Granted() {
		t.Errorf("%d of %d shards are held", held, len(s.Target))
	}
	for member, incarnation := range active {
		if l, found := v.Active(member); !found || l.Incarnation != incarnation {
			t.Errorf("Active(%s) = %+v, %v", member, l, found)
		}
	}
	for _, nobody := range []string{"", "nobody", "nobody/n1", "a"} {
		if l, found := v.Life(nobody); found || v.Held(nobody) != nil {
			t.Errorf("Life(%q) = %+v", nobody, l)
		}
	}
	if l, found := v.Active("nobody"); found {
		t.Errorf("Active(nobody) = %+v", l)
	}
	want := map[Revocation]int{}
	for shard, epoch := range s.Ledger.Revoke {
		if epoch != 0 {
			want[Revocation{s.Lives[s.Ledger.Holder[shard]].Key(), epoch}]++
		}
	}
	if got := v.Revocations(); len(want) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("Revocations() = %v, want %v", got, want)
	}
	if empty := New("orders", "billing", 3, 1, protocol.DefaultTimings(), dawn); NewView(&empty).Granted() {
		t.Error("a group without members has granted something")
	}
	if members := slices.Sorted(maps.Keys(active)); !slices.Equal(members, []string{"b", "c", "d"}) {
		t.Errorf("active are %v", members)
	}
}

// What a view writes is what the state is, whatever it has taken over from the views
// before it.
func TestWhatAViewWritesIsItsState(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	s := New("orders", "billing", 20, 1, protocol.DefaultTimings(), dawn)
	v := NewView(&s)
	inherited := 0
	for step := range 2000 {
		member := fmt.Sprint(rng.IntN(40))
		q := join(member, fmt.Sprint(step))
		cmd := Command(Beat{q})
		in := Input{Now: dawn, ID: fmt.Sprint(step), View: v}
		if rng.IntN(3) == 0 && len(s.Lives) > 0 {
			in.Expired = map[string]bool{}
			for range 1 + rng.IntN(12) {
				in.Expired[s.Lives[rng.IntN(len(s.Lives))].Key()] = true
			}
			cmd = Tick{}
		}
		next, r, _, err := Apply(s, in, cmd)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Changed {
			continue
		}
		for _, row := range r.View.rows {
			if row != "" {
				inherited++
			}
		}
		want, err := Encode(&next)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.View.Encode()
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("step %d, %v: the view writes\n%s\nthe state\n%s", step, err, got, want)
		}
		s, v = next, r.View
	}
	if inherited < 1000 {
		t.Errorf("only %d lives were taken over", inherited)
	}
}
