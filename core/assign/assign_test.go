package assign

import (
	"slices"
	"testing"
)

// Shorthand for the tables: members a to d, o is nobody.
const (
	a, b, c, d = int32(0), int32(1), int32(2), int32(3)
	o          = None
)

func TestPlan(t *testing.T) {
	for _, tc := range []struct {
		name           string
		members        int
		held, previous []int32
		want           []int32
	}{
		{
			"fresh: quotas in order, the extra to the first",
			3, shards(o, o, o, o, o, o, o), shards(o, o, o, o, o, o, o), shards(a, a, a, b, b, c, c),
		},
		{
			"stable: nothing moves",
			2, shards(b, a, b, a), shards(b, a, b, a), shards(b, a, b, a),
		},
		{
			"stable: the extras stay where they are, not with the lowest index",
			4, shards(a, a, b, b, c, c, c, d, d, d), shards(a, a, b, b, c, c, c, d, d, d),
			shards(a, a, b, b, c, c, c, d, d, d),
		},
		{
			"join: each owner gives its highest shards",
			3, shards(a, a, a, b, b, b), shards(a, a, a, b, b, b), shards(a, a, c, b, b, c),
		},
		{
			"leave: the others keep theirs",
			2, shards(a, a, o, o, b, b), shards(a, a, o, o, b, b), shards(a, a, a, b, b, b),
		},
		{
			"more shards: only the new ones are placed",
			2, shards(a, b, o, o), shards(a, b, o, o), shards(a, b, a, b),
		},
		{
			"fewer shards: balance is restored",
			2, shards(a, a, a, a), shards(a, a, a, a), shards(a, a, b, b),
		},
		{
			"more members than shards: one each, the others idle",
			4, shards(d, o), shards(d, o), shards(d, a),
		},
		{
			"under way: held by the old owner, meant for the new one",
			2, shards(a, a, a, a), shards(b, a, b, a), shards(b, a, b, a),
		},
		{
			"under way: partly let go, partly granted",
			2, shards(b, a, o, a), shards(b, a, b, a), shards(b, a, b, a),
		},
		{
			"under way: the extra stays promised to b",
			2, shards(o, o, o), shards(a, b, b), shards(a, b, b),
		},
		{
			"the extra goes to who owns more, whatever was promised",
			2, shards(a, a, o), shards(a, a, b), shards(a, a, b),
		},
		{
			"owners above the quota with an earlier promise come first",
			3, shards(a, a, b, b), shards(a, c, b, b), shards(a, c, b, b),
		},
		{
			"the new owner left: the shard stays with who holds it",
			2, shards(a, a, b, b), shards(a, o, b, b), shards(a, a, b, b),
		},
		{
			"the new owner's room is gone: another member gets the shard",
			3, shards(a, a, a, b, o, o), shards(a, a, b, b, b, c), shards(a, a, c, b, b, c),
		},
		{
			"free shards are taken before shards that are being read",
			3, shards(o, a, o, a, b, b), shards(a, a, a, a, b, b), shards(c, a, c, a, b, b),
		},
		{
			"revoked shards are taken before free ones: they have to be let go of anyway",
			3, shards(b, a, b, o), shards(a, c, b, b), shards(c, a, b, b),
		},
		{
			"values outside the members are nobody",
			2, []int32{2, -5, 1 << 30, -1 << 31, 2, -7}, []int32{1, 2, -2, 0, 2, -7}, shards(b, a, a, a, b, b),
		},
		{
			"a short previous is nobody for the rest",
			2, shards(a, o, o, b), shards(a, b), shards(a, b, a, b),
		},
		{
			"a long previous is cut",
			2, shards(a, o), shards(a, b, b, b), shards(a, b),
		},
		{"no shards", 3, nil, nil, nil},
		{"no members", 0, shards(a, o), shards(b, a), shards(o, o)},
		{"negative members", -1, shards(a), shards(a), shards(o)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := verify(t, tc.held, tc.previous, tc.members); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestMinMoves(t *testing.T) {
	for _, tc := range []struct {
		name           string
		members        int
		held, previous []int32
		want           int
	}{
		{"balanced", 2, shards(a, b, a), nil, 0},
		{"nobody owns anything", 3, shards(o, o, o), nil, 0},
		{"one member of two owns everything", 2, shards(a, a, a, a, a), nil, 2},
		{"a join takes S div (M+1)", 3, shards(a, a, a, b, b, b, b), nil, 2},
		{"one may keep the extra", 3, shards(a, a, b, b), nil, 1},
		{"a free shard belongs to its previous target", 2, shards(a, o, o), shards(b, a, a), 1},
		{"a revoked shard belongs to its holder", 2, shards(a, a), shards(a, b), 1},
		{"no members", 0, shards(a, b), shards(a, b), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := MinMoves(tc.held, tc.previous, tc.members); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	for _, e := range events(1_000, 100) {
		if got := testing.AllocsPerRun(20, func() { Plan(e.held, e.previous, e.members) }); got > 2 {
			t.Errorf("%s: %v allocations, want at most the result and one scratch", e.name, got)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte{1, 2, 1, 2}, []byte{1, 2, 1, 2}, 2)
	f.Add([]byte{1, 1, 1, 1}, []byte{2, 1, 2, 1}, 2)
	f.Add([]byte{0, 0, 0}, []byte{1}, 3)
	f.Add([]byte{9, 200, 0}, []byte{1, 1, 1, 1}, 4)
	f.Add([]byte{9, 9, 200}, []byte{9, 9, 200}, 2)
	f.Add([]byte{1}, []byte{1}, -3)
	f.Fuzz(func(t *testing.T, held, previous []byte, members int) {
		decode := func(raw []byte) []int32 {
			out := make([]int32, len(raw))
			for s, code := range raw {
				out[s] = int32(int8(code)) - 1
			}
			return out
		}
		verify(t, decode(held), decode(previous), members%64)
	})
}

// shards lists an owner per shard.
func shards(owner ...int32) []int32 { return owner }
