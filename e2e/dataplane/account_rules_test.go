package dataplane

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// The account is trusted because it notices what it is there for.
func TestTheAccountNotices(t *testing.T) {
	e := func(kind byte, member string, token int64, key string, seq int, id string) event {
		return event{kind: kind, at: time.Unix(1, 0), shard: 0, id: id, token: token, deliveries: 1, member: member, key: key, seq: seq}
	}
	tests := []struct {
		name                                       string
		events                                     []event
		disorder, doubles, duplicates, old, undone int
	}{
		{name: "all is well", events: []event{
			e(began, "a", 1, "k", 0, "1-0"), e(finished, "a", 1, "k", 0, "1-0"), e(began, "a", 1, "k", 1, "2-0"), e(finished, "a", 1, "k", 1, "2-0"),
		}},
		{name: "keys side by side", events: []event{
			e(began, "a", 1, "k", 0, "2-0"), e(began, "a", 1, "l", 0, "1-0"), e(finished, "a", 1, "k", 0, "2-0"), e(finished, "a", 1, "l", 0, "1-0"),
		}},
		{name: "a failure and another attempt", events: []event{
			e(began, "a", 1, "k", 0, "1-0"), e(failed, "a", 1, "k", 0, "1-0"), e(began, "a", 1, "k", 0, "1-0"), e(finished, "a", 1, "k", 0, "1-0"),
		}},
		{name: "handled again by a new owner", duplicates: 1, events: []event{
			e(began, "a", 1, "k", 0, "1-0"), e(finished, "a", 1, "k", 0, "1-0"), e(began, "b", 2, "k", 0, "1-0"), e(finished, "b", 2, "k", 0, "1-0"),
		}},
		{name: "the later one first", disorder: 1, events: []event{
			e(began, "a", 1, "k", 1, "2-0"), e(finished, "a", 1, "k", 1, "2-0"), e(began, "a", 1, "k", 0, "1-0"), e(finished, "a", 1, "k", 0, "1-0"),
		}},
		{name: "ids are numbers", events: []event{
			e(began, "a", 1, "k", 0, "9-0"), e(finished, "a", 1, "k", 0, "9-0"), e(began, "a", 1, "k", 1, "10-0"), e(finished, "a", 1, "k", 1, "10-0"),
		}},
		{name: "begun before the one before it ended", disorder: 1, undone: 0, events: []event{
			e(began, "a", 1, "k", 0, "1-0"), e(began, "a", 1, "k", 1, "2-0"), e(finished, "a", 1, "k", 0, "1-0"), e(finished, "a", 1, "k", 1, "2-0"),
		}},
		{name: "begun although the one before it failed", disorder: 1, undone: 1, events: []event{
			e(began, "a", 1, "k", 0, "1-0"), e(failed, "a", 1, "k", 0, "1-0"), e(began, "a", 1, "k", 1, "2-0"), e(finished, "a", 1, "k", 1, "2-0"),
		}},
		{name: "twice at a time under one token", disorder: 1, doubles: 1, duplicates: 0, events: []event{
			e(began, "a", 1, "k", 0, "1-0"), e(began, "b", 1, "k", 0, "1-0"), e(finished, "a", 1, "k", 0, "1-0"), e(finished, "b", 1, "k", 0, "1-0"),
		}},
		{name: "twice at a time under two tokens", doubles: 1, events: []event{
			e(began, "a", 1, "k", 0, "1-0"), e(began, "b", 2, "k", 0, "1-0"), e(finished, "b", 2, "k", 0, "1-0"), e(finished, "a", 1, "k", 0, "1-0"),
		}},
		{name: "work under an old token proves nothing", old: 1, undone: 1, events: []event{
			e(began, "b", 2, "l", 0, "1-0"), e(finished, "b", 2, "l", 0, "1-0"), e(began, "a", 1, "k", 0, "2-0"), e(finished, "a", 1, "k", 0, "2-0"),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAccount()
			names := map[name]bool{}
			for _, e := range tt.events {
				a.add(e)
				names[name{e.key, e.seq}] = true
			}
			undone := 0
			for n := range names {
				if !a.done(n) {
					undone++
				}
			}
			got := [...]int{len(a.violations(nil)), len(a.doubles), a.duplicates, a.oldTokens, undone}
			want := [...]int{tt.disorder, tt.doubles, tt.duplicates, tt.old, tt.undone}
			if got != want {
				t.Errorf("disorder, doubles, duplicates, old tokens, undone: %v, want %v (%q)", got, want, a.violations(nil))
			}
		})
	}
}

func TestADeadLetterMayBePassed(t *testing.T) {
	a := newAccount()
	for _, e := range []event{
		{kind: began, id: "1-0", key: "k", seq: 0}, {kind: failed, id: "1-0", key: "k", seq: 0}, {kind: began, id: "2-0", key: "k", seq: 1},
	} {
		a.add(e)
	}
	if got := a.violations(map[name]bool{{"k", 0}: true}); len(got) != 0 {
		t.Errorf("a dead letter was passed, which is no violation: %q", got)
	}
}

func TestAKilledMemberRunsNothing(t *testing.T) {
	a := newAccount()
	a.add(event{kind: began, id: "1-0", member: "a", token: 1, key: "k"})
	a.forget("a")
	a.add(event{kind: began, id: "1-0", member: "b", token: 2, key: "k"})
	if len(a.doubles) != 0 {
		t.Errorf("a killed member counts as running: %q", a.doubles)
	}
}

func TestTheJournalReadsWhatWasWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	w, err := faultkit.OpenJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	r := faultkit.ReadJournal(t, path)
	want := event{kind: failed, at: time.Unix(3, 7), shard: 5, id: "12-3", token: 1234567890123456, deliveries: 2, member: "m-1", key: "key-9", seq: 42}
	for round := range 3 {
		journal{w}.note(want)
		var got []event
		takeEvents(r, func(e event) { got = append(got, e) })
		if len(got) != 1 || got[0] != want {
			t.Errorf("round %d: %v, want one %v", round, got, want)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAPayloadIsReadAsItWasWritten(t *testing.T) {
	want := order{what: "stumble", times: 2, hold: 3 * time.Second}
	seq, got, err := parsePayload(string(payload(17, want, 100)))
	if err != nil || seq != 17 || got != want {
		t.Errorf("%d %+v %v, want 17 %+v", seq, got, err, want)
	}
	if _, got, err = parsePayload(string(payload(0, order{}, 0))); err != nil || got != (order{}) {
		t.Errorf("%+v %v, want no order", got, err)
	}
	if _, _, err = parsePayload("something else"); err == nil {
		t.Error("a foreign payload was taken")
	}
}
