package sql_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// testWideRenewal: as many rows as one statement writes, and one more; written again as
// they are, which changes nothing, they are confirmed, and refused at another version.
func testWideRenewal(t *testing.T, p place) {
	s := open(t, p.config())
	v := save(t, s, port.Version{})
	for _, rows := range []int{1, 512, 513} {
		r := port.Renewal{Expected: v}
		for i := range rows {
			life := fmt.Sprintf("%032d", i)
			r.Stamps = append(r.Stamps, port.Stamp{Life: life, Value: fmt.Sprintf("%d of %d", i, rows)})
			r.Reports = append(r.Reports, port.Report{Life: life, Body: fmt.Appendf(nil, "report %d of %d", i, rows)})
		}
		for range 2 {
			if err := s.RenewGroup(t.Context(), orders, r); err != nil {
				t.Fatalf("%d rows: %v", rows, err)
			}
		}
		late := r
		late.Expected.Nonce = "another"
		late.Stamps = []port.Stamp{{Life: "late", Value: "late"}}
		for _, stamps := range [][]port.Stamp{late.Stamps, r.Stamps} {
			late.Stamps = stamps
			if err := s.RenewGroup(t.Context(), orders, late); !errors.Is(err, port.ErrConflict) {
				t.Errorf("%d rows at another version: %v", rows, err)
			}
		}
		got := load(t, s)
		if len(got.Stamps) != rows {
			t.Errorf("%d stamps of %d", len(got.Stamps), rows)
		}
		for _, one := range r.Stamps {
			if got.Stamps[one.Life] != one.Value {
				t.Fatalf("%s is at %q, want %q", one.Life, got.Stamps[one.Life], one.Value)
			}
		}
	}
}
