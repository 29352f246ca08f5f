package group

import (
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func TestDatesOfEpochs(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := New("orders", "billing", 4, 1, protocol.DefaultTimings(), now)
	if at, exact := s.DrawnAt(s.Counter); !at.Equal(now) || !exact {
		t.Errorf("the first epoch was drawn at %s, exactly %v", at, exact)
	}
	if at, exact := s.DrawnAt(s.Counter - 1); !at.Equal(now) || exact {
		t.Errorf("an epoch of before the group was drawn not later than %s, exactly %v", at, exact)
	}
	if at, _ := s.DrawnAt(s.Counter + 1); !at.IsZero() {
		t.Errorf("an epoch that was not drawn yet was drawn at %s", at)
	}
	first := s.Counter
	join := func(member string) {
		t.Helper()
		now = now.Add(time.Second)
		q := &protocol.Heartbeat{ProtocolVersion: 1, RequestID: "q", MemberID: member, Incarnation: member, Capacity: protocol.Capacity{MaxConcurrency: 1}}
		next, _, _, err := Apply(s, Input{Now: now, ID: member}, Beat{q})
		if err != nil {
			t.Fatal(err)
		}
		s = reread(t, next)
	}
	join("a")
	if at, exact := s.DrawnAt(first + 1); !at.Equal(now) || !exact {
		t.Errorf("the epoch of the join was drawn at %s, exactly %v; want %s", at, exact, now)
	}
	was := len(s.Dates)
	if next, _, _, err := Apply(s, Input{Now: now.Add(time.Hour), ID: "t"}, Tick{}); err != nil || len(next.Dates) != was {
		t.Errorf("a change without an epoch has a date: %v (%v)", next.Dates, err)
	}
	for i := range 2 * maxDates {
		join(string(rune('b' + i)))
	}
	if len(s.Dates) != maxDates {
		t.Errorf("%d dates are kept, want %d", len(s.Dates), maxDates)
	}
	if at, exact := s.DrawnAt(first + 1); at.IsZero() || exact {
		t.Errorf("an epoch whose date is forgotten was drawn at %s, exactly %v", at, exact)
	}
	if at, exact := s.DrawnAt(s.Counter); !at.Equal(now) || !exact {
		t.Errorf("the last epoch was drawn at %s, exactly %v; want %s", at, exact, now)
	}
}
