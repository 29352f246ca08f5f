package group

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// lively is a state with everything in it: members that are active, leaving and
// over, an old client, shards that are held, revoked and free, tombstones.
func lively(tb testing.TB) State {
	tb.Helper()
	s := New("orders", "billing", 6, 7, protocol.DefaultTimings(), dawn)
	s, _ = must(tb, s, "1", beats(join("a", "a1"), join("b", ""), join("c", "c1")))
	s, _ = must(tb, s, "2", beats(join("c", "c2")))
	leave := join("a", "a1")
	leave.MemberEpoch = protocol.EpochLeave
	leave.RevokingShards = []protocol.RevokingShard{{Shard: s.shardOf(tb, "a/a1"), State: protocol.RevokeDraining, InFlight: 1}}
	s, _ = must(tb, s, "3", beats(leave))
	s, _ = must(tb, s, "4", beats(join("d", "d1")))
	return s
}

func (s *State) shardOf(tb testing.TB, life string) protocol.ShardIndex {
	tb.Helper()
	held := NewView(s).Held(life)
	if len(held) == 0 {
		tb.Fatalf("%s holds nothing", life)
	}
	return protocol.ShardIndex(held[0])
}

func TestAStateSurvivesTheStore(t *testing.T) {
	s := lively(t)
	states := map[LifeState]bool{}
	for i := range s.Lives {
		states[s.Lives[i].State] = true
	}
	if len(states) != 3 || len(s.Ended) == 0 {
		t.Fatalf("the state has not everything in it: %+v", s)
	}
	got := reread(t, s)
	if len(got.Ended) != len(s.Ended) || got.Ended[0] != s.Ended[0] || !got.CreatedAt.Equal(s.CreatedAt) || got.StreamVersion != 7 {
		t.Errorf("the state changes in the store:\n%+v\n%+v", s, got)
	}
}

func TestTheRingAndACorrectionSurviveTheStore(t *testing.T) {
	s := lively(t)
	for n := range int64(RingSize + 10) {
		s.Saving(Save{Revision: n + 1, Nonce: fmt.Sprint("n", n)}, "instance")
	}
	s, _ = must(t, s, "5", Correct{Seen: s.Counter + 7, Reason: "a test"})
	got := reread(t, s)
	if got.Instance != "instance" || len(got.Ring) != RingSize || got.Ring[0].Nonce != "n10" || !got.Remembers(Save{RingSize + 10, "n73"}) || got.Remembers(Save{RingSize + 10, "other"}) {
		t.Errorf("instance %s, ring of %d from %v", got.Instance, len(got.Ring), got.Ring[0])
	}
	if !got.Remembers(Save{3, "forgotten"}) {
		t.Error("a save that is too old to be in the ring counts as lost")
	}
	if got.Correction == nil || got.Correction.Jump != s.Correction.Jump || got.Correction.Reason != "a test" || !got.Correction.OpenedAt.Equal(dawn) {
		t.Errorf("the correction is %+v, want %+v", got.Correction, s.Correction)
	}
}

// set returns a decoded record with one field changed; the path goes through
// objects by name and through lists by index.
func set(t *testing.T, r, value any, path ...any) any {
	t.Helper()
	if len(path) == 0 {
		return value
	}
	switch inside := r.(type) {
	case map[string]any:
		name, _ := path[0].(string)
		inside[name] = set(t, inside[name], value, path[1:]...)
	case []any:
		i, _ := path[0].(int)
		inside[i] = set(t, inside[i], value, path[1:]...)
	default:
		t.Fatalf("there is nothing at %v", path)
	}
	return r
}

func TestDamagedRecordsAreRefused(t *testing.T) {
	s := lively(t)
	body, err := Encode(&s)
	if err != nil {
		t.Fatal(err)
	}
	revoked, held := -1, -1
	for shard, r := range s.Ledger.Revoke {
		if r != 0 {
			revoked = shard
		} else if s.Ledger.Holder[shard] != None {
			held = shard
		}
	}
	list := func(n int) []any { return make([]any, n) }
	for _, tc := range []struct {
		name  string
		value any
		path  []any
	}{
		{"an older schema", 0, []any{"schemaVersion"}},
		{"a newer schema", 3, []any{"schemaVersion"}},
		{"a wrong type", "six", []any{"shardCount"}},
		{"fewer shards than rows", 5, []any{"shardCount"}},
		{"more shards than are allowed", protocol.MaxShards + 1, []any{"shardCount"}},
		{"fewer shards than none", -1, []any{"shardCount"}},
		{"a short holder column", []any{-1}, []any{"ledger", "holder"}},
		{"no grant column", nil, []any{"ledger", "grant"}},
		{"a huge grant column", list(protocol.MaxShards + 1), []any{"ledger", "grant"}},
		{"a short target", []any{}, []any{"target"}},
		{"a revocation of no shard", []any{[]any{6, 1}}, []any{"ledger", "revoke"}},
		{"a revocation below shard 0", []any{[]any{-1, 1}}, []any{"ledger", "revoke"}},
		{"a revocation of a free shard", -1, []any{"ledger", "holder", revoked}},
		{"a revocation before the grant", []any{[]any{revoked, -5}}, []any{"ledger", "revoke"}},
		{"a revocation in the future", []any{[]any{revoked, 1 << 30}}, []any{"ledger", "revoke"}},
		{"a holder that is nobody", 99, []any{"ledger", "holder", held}},
		{"a holder below nobody", -2, []any{"ledger", "holder", held}},
		{"a held shard without an epoch", 0, []any{"ledger", "grant", held}},
		{"a grant in the future", 1 << 30, []any{"ledger", "grant", held}},
		{"a grant before its holder joined", -5, []any{"ledger", "grant", held}},
		{"a base that shifts every grant", -1 << 62, []any{"ledger", "base"}},
		{"a shard meant for nobody", -1, []any{"target", held}},
		{"a shard meant for a life that is not there", 99, []any{"target", held}},
		{"a shard meant for a leaving member", 0, []any{"target", held}},
		{"a state of a member that is not known", "sleeping", []any{"lives", 0, "state"}},
		{"a member without a name", "", []any{"lives", 0, "member"}},
		{"a life without an id", "", []any{"lives", 0, "incarnation"}},
		{"a life that is there twice", life{Member: "c", Incarnation: "c1", State: "over", JoinEpoch: s.Counter, Epoch: s.Counter}, []any{"lives", 0}},
		{"a member with two living incarnations", "active", []any{"lives", 2, "state"}},
		{"a life that never joined", 0, []any{"lives", 0, "joinEpoch"}},
		{"a life that joined after its epoch", s.Counter, []any{"lives", 1, "joinEpoch"}},
		{"a life that is ahead of the counter", s.Counter + 1, []any{"lives", 0, "epoch"}},
		{"a life that acknowledged what it was not given", s.Counter + 1, []any{"lives", 0, "acked"}},
		{"a life that acknowledged less than nothing", -1, []any{"lives", 0, "acked"}},
		{"too many lives", list(maxLives + 1), []any{"lives"}},
		{"a counter behind the group", 1, []any{"counter"}},
		{"a target for another epoch", s.AssignmentEpoch - 1, []any{"assignmentEpoch"}},
		{"a time after the last year", "9999-12-31T23:59:59-01:00", []any{"updatedAt"}},
		{"a join before the first year", "0000-01-01T00:00:00+01:00", []any{"lives", 0, "joinedAt"}},
		{"no lease", 0, []any{"timings", "memberLeaseTtlMs"}},
		{"a lease beyond all time", int64(1) << 62, []any{"timings", "memberLeaseTtlMs"}},
		{"a rebalance timeout below the lease", 1, []any{"timings", "rebalanceTimeoutMs"}},
		{"an interval of nothing", -3, []any{"timings", "heartbeatIntervalMs"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r any
			if err := json.Unmarshal(body, &r); err != nil {
				t.Fatal(err)
			}
			damaged, err := json.Marshal(set(t, r, tc.value, tc.path...))
			if err != nil {
				t.Fatal(err)
			}
			_, err = Decode(damaged)
			refusal := new(protocol.Error)
			if !errors.Is(err, protocol.ErrCorrupt) || !errors.As(err, &refusal) {
				t.Fatalf("Decode: %v, want %v", err, protocol.ErrCorrupt)
			}
			if !strings.Contains(refusal.Message, "orders/billing") {
				t.Errorf("the refusal does not say which record it speaks of: %s", refusal.Message)
			}
		})
	}
}

func TestACutRecordIsRefused(t *testing.T) {
	s := lively(t)
	body, err := Encode(&s)
	if err != nil {
		t.Fatal(err)
	}
	for n := range body {
		if _, err := Decode(body[:n]); !errors.Is(err, protocol.ErrCorrupt) {
			t.Fatalf("the first %d of %d bytes: %v, want %v", n, len(body), err, protocol.ErrCorrupt)
		}
	}
	if _, err := Decode(append(body, '}')); !errors.Is(err, protocol.ErrCorrupt) {
		t.Errorf("a byte too many: %v", err)
	}
}

func TestAnUnknownFieldIsNoDamage(t *testing.T) {
	s := lively(t)
	body, err := Encode(&s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode([]byte(strings.Replace(string(body), "{", `{"later":[1],`, 1))); err != nil {
		t.Error(err)
	}
}

func TestAStateThatIsTooLargeIsRefused(t *testing.T) {
	s := New("orders", "billing", 1, 1, protocol.DefaultTimings(), dawn)
	long := strings.Repeat("x", protocol.MaxNameBytes-5)
	for i := range 2 * protocol.MaxMembers {
		s.Ended = append(s.Ended, Tombstone{Member: fmt.Sprintf("%s%05d", long, i), Incarnation: fmt.Sprintf("%s%05d", long, i), Reason: EndLeft, At: dawn})
	}
	if _, err := Encode(&s); !errors.Is(err, protocol.ErrTooLarge) {
		t.Errorf("Encode: %v, want %v", err, protocol.ErrTooLarge)
	}
}

func TestATimeThatCannotBeWrittenIsAnError(t *testing.T) {
	s := New("orders", "billing", 1, 1, protocol.DefaultTimings(), dawn)
	s.UpdatedAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, err := Encode(&s); err == nil {
		t.Error("Encode wrote a time that Decode cannot read")
	}
}

func TestApplyRefusesAStateThatContradictsItself(t *testing.T) {
	s := lively(t)
	s.ShardCount++
	next, r, events, err := Apply(s, Input{Now: dawn, ID: "x"}, Beat{join("z", "z1")})
	if !errors.Is(err, ErrInvariant) || len(r.Answers)+len(events) > 0 || next.Counter != s.Counter {
		t.Errorf("Apply: %v, want %v", err, ErrInvariant)
	}
}
