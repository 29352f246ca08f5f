package linear

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// record is the state of a group's record.
type record struct {
	at
	stamp string
}

// holds reports whether the conditions of a write hold.
func (r record) holds(o op) bool {
	return o.Expected == r.at && (!o.Relies || o.Relied == r.stamp)
}

// after is the record after a write whose conditions hold.
func (r record) after(o op) record {
	switch o.Kind {
	case callDelete:
		return record{}
	case callSave:
		if r.Revision == 0 {
			r.stamp = "" // what lies beside a group that was not there is not its own
		}
		r.at = at{r.Revision + 1, o.Nonce}
	}
	if o.Stamp != "" {
		r.stamp = o.Stamp
	}
	return r
}

// step returns the states that a call with its outcome can lead to, none if it
// cannot be. strict says that nothing but the conditions makes a conflict: on a
// Cluster, a record that has moved to another server is one too.
func step(r record, o op, strict bool) []any {
	possible := func(yes bool, next record) []any {
		if yes {
			return []any{next}
		}
		return nil
	}
	switch {
	case o.Kind == callLoad:
		return possible(o.Seen == r.at && o.SeenStamp == r.stamp && o.Body == r.Nonce, r)
	case o.Outcome == outcomeConflict:
		return possible(!strict || !r.holds(o), r)
	case o.Outcome == outcomeDone:
		return possible(r.holds(o), r.after(o))
	case r.holds(o):
		return []any{r, r.after(o)}
	default:
		return []any{r}
	}
}

func model(strict bool) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			parts := map[int][]porcupine.Operation{}
			for _, o := range history {
				call, ok := o.Input.(op)
				if !ok {
					panic("an operation of something else")
				}
				parts[call.Key] = append(parts[call.Key], o)
			}
			var list [][]porcupine.Operation
			for _, part := range parts {
				list = append(list, part)
			}
			return list
		},
		Init: func() []any { return []any{record{}} },
		Step: func(state, input, _ any) []any {
			r, ok1 := state.(record)
			call, ok2 := input.(op)
			if !ok1 || !ok2 {
				return nil
			}
			return step(r, call, strict)
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
	}
	return nondeterministic.ToModel()
}

// operations turns what was noted into what is checked. A write whose outcome is
// unknown may take place until the end of time; a load that was not answered says
// nothing.
func operations(ops []op) []porcupine.Operation {
	var history []porcupine.Operation
	for i, o := range ops {
		end := o.Return
		if o.Outcome == outcomeUnknown {
			if o.Kind == callLoad {
				continue
			}
			end = math.MaxInt64
		}
		history = append(history, porcupine.Operation{ClientId: i, Input: o, Call: o.Call, Return: end})
	}
	return history
}

// TestTheModelTellsRightFromWrong: histories that must be accepted, and such as
// defects would make, which must not.
func TestTheModelTellsRightFromWrong(t *testing.T) {
	one, two, three := at{1, "n1"}, at{2, "n2"}, at{2, "n3"}
	create := op{Kind: callSave, Outcome: outcomeDone, Nonce: "n1", Stamp: "s1"}
	second := op{Kind: callSave, Outcome: outcomeDone, Expected: one, Nonce: "n2"}
	third := op{Kind: callSave, Outcome: outcomeDone, Expected: one, Nonce: "n3"}
	with := func(o op, change func(*op)) op {
		change(&o)
		return o
	}
	unknown := with(second, func(o *op) { o.Outcome = outcomeUnknown })
	refused := with(second, func(o *op) { o.Outcome = outcomeConflict })
	relies := with(third, func(o *op) { o.Relies, o.Relied = true, "s1" })
	renew := op{Kind: callRenew, Outcome: outcomeDone, Expected: one, Stamp: "s2"}
	sees := func(v at, stamp string) op {
		return op{Kind: callLoad, Outcome: outcomeDone, Seen: v, SeenStamp: stamp, Body: v.Nonce}
	}
	for _, test := range []struct {
		name    string
		ops     []op
		correct bool
	}{
		{"one after the other", []op{create, sees(one, "s1"), second, sees(two, "s1")}, true},
		{"two saves of one version", []op{create, second, third}, false},
		{"a lost update", []op{create, second, sees(one, "s1")}, false},
		{"a conflict that wrote", []op{create, refused, sees(two, "s1")}, false},
		{"a conflict without a cause", []op{create, refused, sees(one, "s1")}, false},
		{"a lost reply, carried out", []op{create, unknown, sees(two, "s1")}, true},
		{"a lost reply, not carried out", []op{create, unknown, sees(one, "s1"), third, sees(three, "s1")}, true},
		{"a lost reply, carried out twice", []op{create, unknown, sees(two, "s1"), sees(one, "s1")}, false},
		{"a lost reply, carried out late", []op{create, unknown, sees(one, "s1"), sees(two, "s1")}, true},
		{"an expiry beside a renewal", []op{create, renew, relies}, false},
		{"an expiry before a renewal", []op{create, relies, renew}, false},
		{"a renewal and a save", []op{create, renew, third, sees(three, "s2")}, true},
		{"a stamp of before", []op{create, renew, sees(one, "s1")}, false},
		{"a body of another save", []op{create, with(sees(one, "s1"), func(o *op) { o.Body = "n2" })}, false},
		{"deleted and made again", []op{
			create,
			{Kind: callDelete, Outcome: outcomeDone, Expected: one},
			sees(at{}, ""),
			with(create, func(o *op) { o.Nonce, o.Stamp = "n9", "" }),
			sees(at{1, "n9"}, ""),
		}, true},
	} {
		for i := range test.ops {
			test.ops[i].Call, test.ops[i].Return = int64(2*i), int64(2*i+1)
		}
		if got := porcupine.CheckOperations(model(true), operations(test.ops)); got != test.correct {
			t.Errorf("%s: correct %t, want %t", test.name, got, test.correct)
		}
	}
	if !porcupine.CheckOperations(model(false), operations(slices.Clone([]op{
		with(create, func(o *op) { o.Call, o.Return = 0, 1 }), with(refused, func(o *op) { o.Call, o.Return = 2, 3 }),
	}))) {
		t.Error("a conflict after a move is refused")
	}
}
