package porttest

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

func testAbsentGroup(t *testing.T, s port.Store) {
	here := instanceOf(t, s, orders)
	for _, known := range []port.Version{{}, {Instance: here}, {Instance: here, Revision: 3, Nonce: nonce()}} {
		r, err := s.LoadGroup(t.Context(), orders, known)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		if want := (port.Version{Instance: here}); r.Version != want || r.Body != nil || len(r.Stamps) != 0 {
			t.Errorf("load: got %+v, want no record at %+v", r, want)
		}
	}
	if reports, err := s.Reports(t.Context(), orders); err != nil || len(reports) != 0 {
		t.Errorf("reports: %v, %v", reports, err)
	}
	for _, at := range []port.Version{{}, {Instance: here}, {Instance: here, Revision: 1, Nonce: nonce()}, {Revision: 1}} {
		wantConflict(t, fmt.Sprintf("renew at %+v", at),
			s.RenewGroup(t.Context(), orders, port.Renewal{Expected: at, Stamps: []port.Stamp{{Life: "a", Value: "1"}}}))
		wantConflict(t, fmt.Sprintf("delete at %+v", at), s.DeleteGroup(t.Context(), orders, at))
	}
	_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{
		Expected: port.Version{Revision: 1, Nonce: nonce()}, Nonce: nonce(), Body: body("{}"),
	})
	wantConflict(t, "save of a record that is gone", err)
	wantList(t, "groups", listGroups(t, s), nil)
	wantUnchanged(t, s, orders, snapshot{record: port.Record{Version: port.Version{Instance: here}}})
}

func testCreateGroup(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{
		Expected: port.Version{Instance: instanceOf(t, s, orders)},
		Relied:   []port.Stamp{{Life: "a"}},
		Body:     body("one"),
		Stamps:   []port.Stamp{{Life: "a", Value: "1"}},
		Reports:  []port.Report{{Life: "a", Body: body("progress")}},
	})
	want := snapshot{
		record:  port.Record{Version: v, Body: body("one")},
		stamps:  map[string]string{"a": "1"},
		reports: map[string][]byte{"a": body("progress")},
	}
	wantUnchanged(t, s, orders, want)
	_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{
		Nonce: nonce(), Body: body("two"), Stamps: []port.Stamp{{Life: "a", Value: "2"}},
	})
	wantConflict(t, "second create", err)
	wantUnchanged(t, s, orders, want)
	wantList(t, "groups", listGroups(t, s), []port.GroupKey{orders})

	_, err = s.SaveGroup(t.Context(), port.GroupKey{Stream: "orders", Group: "other"}, port.GroupSave{
		Relied: []port.Stamp{{Life: "a", Value: "1"}}, Nonce: nonce(), Body: body("x"),
	})
	wantConflict(t, "create that relies on a stamp", err)
	wantList(t, "groups", listGroups(t, s), []port.GroupKey{orders})
}

func testCreateGroupOnce(t *testing.T, s port.Store) {
	nonces := make([]string, 32)
	for i := range nonces {
		nonces[i] = nonce()
	}
	winner := oneWinner(t, together(len(nonces), func(i int) error {
		_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{
			Nonce: nonces[i], Body: body("%d", i), Stamps: []port.Stamp{{Life: strconv.Itoa(i), Value: "1"}},
		})
		return err
	}))
	got := look(t, s, orders)
	if got.record.Version.Nonce != nonces[winner] || string(got.record.Body) != strconv.Itoa(winner) || got.record.Version.Revision != 1 {
		t.Errorf("call %d won, but the record is %+v", winner, got.record)
	}
	if len(got.stamps) != 1 || got.stamps[strconv.Itoa(winner)] != "1" {
		t.Errorf("call %d won, but the stamps are %v", winner, got.stamps)
	}
	wantList(t, "groups", listGroups(t, s), []port.GroupKey{orders})
}

func testGroupConditions(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{Body: body("one")})
	v = save(t, s, orders, port.GroupSave{
		Expected: v,
		Body:     body("two"),
		Stamps:   []port.Stamp{{Life: "a", Value: "1"}, {Life: "b", Value: "1"}},
		Reports:  []port.Report{{Life: "a", Body: body("progress")}},
	})
	before := look(t, s, orders)
	for name, at := range notAt(v) {
		_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{
			Expected: at,
			Nonce:    nonce(),
			Body:     body("three"),
			Stamps:   []port.Stamp{{Life: "a", Value: "2"}, {Life: "c", Value: "1"}},
			Reports:  []port.Report{{Life: "c", Body: body("progress")}},
			Ended:    []string{"b"},
		})
		wantConflict(t, "save, "+name, err)
		wantConflict(t, "renew, "+name, s.RenewGroup(t.Context(), orders, port.Renewal{
			Expected: at,
			Stamps:   []port.Stamp{{Life: "a", Value: "2"}, {Life: "b"}, {Life: "c", Value: "1"}},
			Reports:  []port.Report{{Life: "c", Body: body("progress")}},
		}))
		wantConflict(t, "delete, "+name, s.DeleteGroup(t.Context(), orders, at))
		wantUnchanged(t, s, orders, before)
	}
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: "2"}}}); err != nil {
		t.Errorf("renew at the right version: %v", err)
	}
	v = save(t, s, orders, port.GroupSave{Expected: v, Body: body("three")})
	if err := s.DeleteGroup(t.Context(), orders, v); err != nil {
		t.Errorf("delete at the right version: %v", err)
	}
}

func testAnyInstance(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{Body: body("one")})
	v.Instance = ""
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: "1"}}}); err != nil {
		t.Errorf("renew: %v", err)
	}
	v = save(t, s, orders, port.GroupSave{Expected: v, Body: body("two")})
	v.Instance = ""
	if err := s.DeleteGroup(t.Context(), orders, v); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func testReliedStamps(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{
		Body:   body("one"),
		Stamps: []port.Stamp{{Life: "a", Value: "1"}, {Life: "b", Value: "1"}, {Life: "gone", Value: "1"}},
	})
	v = save(t, s, orders, port.GroupSave{Expected: v, Body: body("two"), Ended: []string{"gone"}})
	before := look(t, s, orders)
	for name, relied := range map[string][]port.Stamp{
		"another value":           {{Life: "a", Value: "2"}},
		"one of several":          {{Life: "a", Value: "1"}, {Life: "b", Value: "2"}, {Life: "c"}},
		"the last of several":     {{Life: "a", Value: "1"}, {Life: "c"}, {Life: "b"}},
		"missing, but there":      {{Life: "a"}},
		"there, but missing":      {{Life: "c", Value: "1"}},
		"there, but removed":      {{Life: "gone", Value: "1"}},
		"a value in another case": {{Life: "A", Value: "1"}},
	} {
		_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{
			Expected: v,
			Relied:   relied,
			Nonce:    nonce(),
			Body:     body("three"),
			Stamps:   []port.Stamp{{Life: "b", Value: "3"}},
			Reports:  []port.Report{{Life: "b", Body: body("progress")}},
			Ended:    []string{"a"},
		})
		wantConflict(t, name, err)
		wantUnchanged(t, s, orders, before)
	}
	v = save(t, s, orders, port.GroupSave{
		Expected: v,
		Relied:   []port.Stamp{{Life: "a", Value: "1"}, {Life: "c"}, {Life: "gone"}},
		Body:     body("three"),
		Ended:    []string{"a", "c", "gone"},
	})
	wantUnchanged(t, s, orders, snapshot{record: port.Record{Version: v, Body: body("three")}, stamps: map[string]string{"b": "1"}})
}

// testTakeOrRenew: one coordinator takes from an incarnation whose stamp it saw
// standing still, another renews that stamp. Never may both succeed.
func testTakeOrRenew(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{Body: body("start"), Stamps: []port.Stamp{{Life: "a", Value: "0"}}})
	value := "0"
	for round := range 50 {
		renewed := nonce()
		winner := oneWinner(t, together(2, func(i int) error {
			if i == 0 {
				return s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: renewed}}})
			}
			_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{
				Expected: v, Relied: []port.Stamp{{Life: "a", Value: value}}, Nonce: nonce(), Body: body("%d", round),
			})
			return err
		}))
		got := look(t, s, orders)
		if winner == 0 {
			value = renewed
		}
		if moved := got.record.Version != v; moved != (winner == 1) || got.stamps["a"] != value {
			t.Fatalf("round %d: call %d won at %+v, but the group is %+v", round, winner, v, got)
		}
		v = got.record.Version
	}
}

func testSaveWritesWhatLiesBeside(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{
		Body:    body("one"),
		Stamps:  []port.Stamp{{Life: "a", Value: "1"}, {Life: "b", Value: "1"}, {Life: "c", Value: "1"}},
		Reports: []port.Report{{Life: "a", Body: body("a1")}, {Life: "b", Body: body("b1")}, {Life: "c", Body: nil}},
	})
	wantUnchanged(t, s, orders, snapshot{
		record:  port.Record{Version: v, Body: body("one")},
		stamps:  map[string]string{"a": "1", "b": "1", "c": "1"},
		reports: map[string][]byte{"a": body("a1"), "b": body("b1"), "c": {}},
	})
	v = save(t, s, orders, port.GroupSave{
		Expected: v,
		Body:     body("two"),
		// The last word on a stamp counts, an empty one removes it, and an
		// incarnation that ended is gone whatever else is said of it.
		Stamps:  []port.Stamp{{Life: "a", Value: "2"}, {Life: "a", Value: "3"}, {Life: "c"}, {Life: "d", Value: "1"}, {Life: "e", Value: "1"}},
		Reports: []port.Report{{Life: "a", Body: body("a2")}, {Life: "e", Body: body("e1")}},
		Ended:   []string{"b", "e", "never there"},
	})
	wantUnchanged(t, s, orders, snapshot{
		record:  port.Record{Version: v, Body: body("two")},
		stamps:  map[string]string{"a": "3", "d": "1"},
		reports: map[string][]byte{"a": body("a2"), "c": {}},
	})
}

func testRenewWritesWhatLiesBeside(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{Body: body("one"), Stamps: []port.Stamp{{Life: "a", Value: "1"}, {Life: "b", Value: "1"}}})
	for range 2 { // repeating it does no harm
		err := s.RenewGroup(t.Context(), orders, port.Renewal{
			Expected: v,
			Stamps:   []port.Stamp{{Life: "a", Value: "2"}, {Life: "b"}, {Life: "c", Value: "1"}},
			Reports:  []port.Report{{Life: "c", Body: body("c1")}},
		})
		if err != nil {
			t.Fatalf("renew: %v", err)
		}
		wantUnchanged(t, s, orders, snapshot{
			record:  port.Record{Version: v, Body: body("one")},
			stamps:  map[string]string{"a": "2", "c": "1"},
			reports: map[string][]byte{"c": body("c1")},
		})
	}
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v}); err != nil {
		t.Errorf("a renewal of nothing: %v", err)
	}
	wantConflict(t, "a renewal of nothing at another version", s.RenewGroup(t.Context(), orders, port.Renewal{Expected: port.Version{Revision: 2}}))
}

// testLoadShowsOneMoment: aggregate and stamps are of one save, also to a reader
// that comes in the middle.
func testLoadShowsOneMoment(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{Body: body("0"), Stamps: []port.Stamp{{Life: "a", Value: "0"}}})
	done := make(chan struct{})
	errs := together(3, func(i int) error {
		if i == 0 {
			defer close(done)
			for n := 1; n <= 100; n++ {
				value := strconv.Itoa(n)
				next, err := s.SaveGroup(t.Context(), orders, port.GroupSave{
					Expected: v, Nonce: nonce(), Body: []byte(value), Stamps: []port.Stamp{{Life: "a", Value: value}},
				})
				if err != nil {
					return err
				}
				v = next
			}
			return nil
		}
		for {
			r, err := s.LoadGroup(t.Context(), orders, port.Version{})
			if err != nil {
				return err
			}
			if string(r.Body) != r.Stamps["a"] || string(r.Body) != strconv.FormatInt(r.Version.Revision-1, 10) {
				return fmt.Errorf("revision %d has body %s and stamp %s", r.Version.Revision, r.Body, r.Stamps["a"])
			}
			select {
			case <-done:
				return nil
			default:
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

func testKnownBody(t *testing.T, s port.Store) {
	v := save(t, s, orders, port.GroupSave{Body: body("one")})
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: "7"}}}); err != nil {
		t.Fatalf("renew: %v", err)
	}
	load := func(known port.Version) port.GroupRecord {
		t.Helper()
		r, err := s.LoadGroup(t.Context(), orders, known)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		if r.Version != v || r.Stamps["a"] != "7" {
			t.Errorf("load, known %+v: got %+v with stamps %v", known, r.Version, r.Stamps)
		}
		return r
	}
	if r := load(v); r.Body != nil {
		t.Errorf("a known body came again: %q", r.Body)
	}
	for name, known := range notAt(v) {
		if r := load(known); string(r.Body) != "one" {
			t.Errorf("known is %s: got body %q", name, r.Body)
		}
	}
	known := v
	v = save(t, s, orders, port.GroupSave{Expected: v, Body: body("two")})
	if r := load(known); string(r.Body) != "two" {
		t.Errorf("the record changed: got body %q", r.Body)
	}
}

func testDeleteGroup(t *testing.T, s port.Store) {
	other := port.GroupKey{Stream: "orders", Group: "other"}
	kept := save(t, s, other, port.GroupSave{Body: body("kept"), Stamps: []port.Stamp{{Life: "a", Value: "1"}}})
	v := save(t, s, orders, port.GroupSave{
		Body: body("one"), Stamps: []port.Stamp{{Life: "a", Value: "1"}}, Reports: []port.Report{{Life: "a", Body: body("a1")}},
	})
	if err := s.DeleteGroup(t.Context(), orders, v); err != nil {
		t.Fatalf("delete: %v", err)
	}
	wantUnchanged(t, s, orders, snapshot{record: port.Record{Version: port.Version{Instance: v.Instance}}})
	wantConflict(t, "second delete", s.DeleteGroup(t.Context(), orders, v))
	wantUnchanged(t, s, other, snapshot{record: port.Record{Version: kept, Body: body("kept")}, stamps: map[string]string{"a": "1"}})
	wantList(t, "groups", listGroups(t, s), []port.GroupKey{other})
}

func testRecreateGroup(t *testing.T, s port.Store) {
	old := save(t, s, orders, port.GroupSave{
		Body: body("old"), Stamps: []port.Stamp{{Life: "a", Value: "1"}}, Reports: []port.Report{{Life: "a", Body: body("a1")}},
	})
	if err := s.DeleteGroup(t.Context(), orders, old); err != nil {
		t.Fatalf("delete: %v", err)
	}
	v := save(t, s, orders, port.GroupSave{Body: body("new")})
	if v.Revision != old.Revision || v.Nonce == old.Nonce {
		t.Errorf("recreated at %+v after %+v", v, old)
	}
	before := snapshot{record: port.Record{Version: v, Body: body("new")}}
	wantUnchanged(t, s, orders, before)

	// Whoever slept through it meets the same revision and must be refused.
	_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: old, Nonce: nonce(), Body: body("late")})
	wantConflict(t, "save on the deleted record", err)
	wantConflict(t, "renewal on the deleted record", s.RenewGroup(t.Context(), orders, port.Renewal{Expected: old, Stamps: []port.Stamp{{Life: "a", Value: "2"}}}))
	wantConflict(t, "delete of the deleted record", s.DeleteGroup(t.Context(), orders, old))
	if r, err := s.LoadGroup(t.Context(), orders, old); err != nil || !bytes.Equal(r.Body, body("new")) {
		t.Errorf("load by whoever knows the deleted record: body %q, %v", r.Body, err)
	}
	wantUnchanged(t, s, orders, before)
	wantList(t, "groups", listGroups(t, s), []port.GroupKey{orders})
}

func testListGroups(t *testing.T, s port.Store) {
	sorted := []port.GroupKey{
		{Stream: "a", Group: "B"}, {Stream: "a", Group: "a"}, {Stream: "a", Group: "b"},
		{Stream: "a!", Group: "a"}, {Stream: "a:", Group: "a"}, {Stream: "b", Group: "a"},
	}
	for _, i := range []int{3, 0, 5, 1, 4, 2} {
		save(t, s, sorted[i], port.GroupSave{Body: body("x")})
	}
	saveStream(t, s, "a", port.Version{}, body("a stream is not a group"))
	wantList(t, "groups", listGroups(t, s), sorted)
}

// testManyMembers: as many as a group may have, in one save and one renewal.
func testManyMembers(t *testing.T, s port.Store) {
	const members = 10_000
	stamps := make([]port.Stamp, members)
	reports := make([]port.Report, members)
	ended := make([]string, members)
	write := func(value string) {
		for i := range stamps {
			life := fmt.Sprintf("%032d", i)
			stamps[i] = port.Stamp{Life: life, Value: value + life}
			reports[i] = port.Report{Life: life, Body: body("%s of %s", value, life)}
			ended[i] = life
		}
	}
	check := func(value string) {
		t.Helper()
		got := look(t, s, orders)
		if len(got.stamps) != members || len(got.reports) != members {
			t.Fatalf("%d stamps and %d reports of %d", len(got.stamps), len(got.reports), members)
		}
		for i := range stamps {
			life := stamps[i].Life
			if got.stamps[life] != value+life || string(got.reports[life]) != fmt.Sprintf("%s of %s", value, life) {
				t.Fatalf("member %s has stamp %q and report %q", life, got.stamps[life], got.reports[life])
			}
		}
	}
	write("first")
	v := save(t, s, orders, port.GroupSave{Body: body("one"), Stamps: stamps, Reports: reports})
	check("first")
	write("second")
	if err := s.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: stamps, Reports: reports}); err != nil {
		t.Fatalf("renew: %v", err)
	}
	check("second")

	changed := append([]port.Stamp{}, stamps...)
	changed[members-1].Value = "first"
	_, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Relied: changed, Nonce: nonce(), Body: body("two"), Ended: ended})
	wantConflict(t, "the last of many stamps changed", err)
	check("second")
	v = save(t, s, orders, port.GroupSave{Expected: v, Relied: stamps, Body: body("two"), Ended: ended})
	wantUnchanged(t, s, orders, snapshot{record: port.Record{Version: v, Body: body("two")}})
}

// testGroupCounter: no update is lost among writers that load, change and save.
func testGroupCounter(t *testing.T, s port.Store) {
	const writers, each = 8, 25
	errs := together(writers, func(int) error {
		for done := 0; done < each; {
			r, err := s.LoadGroup(t.Context(), orders, port.Version{})
			if err != nil {
				return err
			}
			n, _ := strconv.Atoi(string(r.Body)) // 0 where there is no record yet
			_, err = s.SaveGroup(t.Context(), orders, port.GroupSave{
				Expected: r.Version, Nonce: nonce(), Body: body("%d", n+1),
			})
			switch {
			case err == nil:
				done++
			case !errors.Is(err, port.ErrConflict):
				return err
			}
		}
		return nil
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if got := look(t, s, orders).record; string(got.Body) != strconv.Itoa(writers*each) || got.Version.Revision != writers*each {
		t.Errorf("after %d increments the record is %s at revision %d", writers*each, got.Body, got.Version.Revision)
	}
}
