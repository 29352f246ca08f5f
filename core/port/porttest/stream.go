package porttest

import (
	"errors"
	"strconv"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

func testAbsentStream(t *testing.T, s port.Store) {
	here := streamInstance(t, s, "orders")
	if r := loadStream(t, s, "orders"); !sameRecord(r, port.Record{Version: port.Version{Instance: here}}) {
		t.Errorf("load: got %+v", r)
	}
	for _, at := range []port.Version{{}, {Instance: here}, {Instance: here, Revision: 1, Nonce: nonce()}} {
		wantConflict(t, "delete", s.DeleteStream(t.Context(), "orders", at))
	}
	_, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Expected: port.Version{Revision: 1, Nonce: nonce()}, Nonce: nonce(), Body: body("x")})
	wantConflict(t, "save of a record that is gone", err)
	wantList(t, "streams", listStreams(t, s), nil)
}

func testStreamLife(t *testing.T, s port.Store) {
	first := saveStream(t, s, "orders", port.Version{}, body("one"))
	v := saveStream(t, s, "orders", first, body("two"))
	v.Instance = "" // any
	v = saveStream(t, s, "orders", v, body("three"))
	if r := loadStream(t, s, "orders"); !sameRecord(r, port.Record{Version: v, Body: body("three")}) {
		t.Errorf("load: got %+v", r)
	}
	if err := s.DeleteStream(t.Context(), "orders", v); err != nil {
		t.Fatalf("delete: %v", err)
	}
	if r := loadStream(t, s, "orders"); !sameRecord(r, port.Record{Version: port.Version{Instance: v.Instance}}) {
		t.Errorf("load of the deleted record: got %+v", r)
	}
	wantConflict(t, "second delete", s.DeleteStream(t.Context(), "orders", v))
	wantList(t, "streams", listStreams(t, s), nil)

	again := saveStream(t, s, "orders", port.Version{}, body("four"))
	if again.Revision != first.Revision || again.Nonce == first.Nonce {
		t.Errorf("recreated at %+v after %+v", again, first)
	}
	_, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Expected: first, Nonce: nonce(), Body: body("late")})
	wantConflict(t, "save on the deleted record", err)
	if r := loadStream(t, s, "orders"); !sameRecord(r, port.Record{Version: again, Body: body("four")}) {
		t.Errorf("load: got %+v", r)
	}
	wantList(t, "streams", listStreams(t, s), []string{"orders"})
}

func testStreamConditions(t *testing.T, s port.Store) {
	v := saveStream(t, s, "orders", port.Version{}, body("one"))
	v = saveStream(t, s, "orders", v, body("two"))
	for name, at := range notAt(v) {
		_, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Expected: at, Nonce: nonce(), Body: body("three")})
		wantConflict(t, "save, "+name, err)
		wantConflict(t, "delete, "+name, s.DeleteStream(t.Context(), "orders", at))
		if r := loadStream(t, s, "orders"); !sameRecord(r, port.Record{Version: v, Body: body("two")}) {
			t.Errorf("%s: the record was changed to %+v", name, r)
		}
	}
}

func testCreateStreamOnce(t *testing.T, s port.Store) {
	winner := oneWinner(t, together(32, func(i int) error {
		_, err := s.SaveStream(t.Context(), "orders", port.StreamSave{Nonce: nonce(), Body: body("%d", i)})
		return err
	}))
	if r := loadStream(t, s, "orders"); string(r.Body) != strconv.Itoa(winner) || r.Version.Revision != 1 {
		t.Errorf("call %d won, but the record is %+v", winner, r)
	}
	wantList(t, "streams", listStreams(t, s), []string{"orders"})
}

func testStreamCounter(t *testing.T, s port.Store) {
	const writers, each = 8, 10
	errs := together(writers, func(int) error {
		for done := 0; done < each; {
			r, err := s.LoadStream(t.Context(), "orders")
			if err != nil {
				return err
			}
			n, _ := strconv.Atoi(string(r.Body)) // 0 where there is no record yet
			_, err = s.SaveStream(t.Context(), "orders", port.StreamSave{Expected: r.Version, Nonce: nonce(), Body: body("%d", n+1)})
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
	if r := loadStream(t, s, "orders"); string(r.Body) != strconv.Itoa(writers*each) {
		t.Errorf("after %d increments the record is %s", writers*each, r.Body)
	}
}

func testListStreams(t *testing.T, s port.Store) {
	sorted := []string{"A", "a", "a!", "a:", "a:b", "b"}
	for _, i := range []int{3, 0, 5, 1, 4, 2} {
		saveStream(t, s, sorted[i], port.Version{}, body("x"))
	}
	save(t, s, port.GroupKey{Stream: "c", Group: "c"}, port.GroupSave{Body: body("a group is not a stream")})
	wantList(t, "streams", listStreams(t, s), sorted)
}
