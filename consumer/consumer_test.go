package consumer_test

import (
	"testing"
)

func TestReadsHandlesAndAcknowledges(t *testing.T) {
	b := newBed(t, 4, steady)
	b.add(1000)
	l := newJournal()
	c := start(t, b.config("a", l.handler("a", nil)))
	l.await(t, 1000)
	b.add(1000)
	l.await(t, 2000)
	c.stop()
	l.clean(t)
	if n := b.pending(); n != 0 {
		t.Errorf("%d records are pending after the goodbye", n)
	}
	if _, again := l.handled(); again != 0 {
		t.Errorf("%d records were handled twice", again)
	}
	if s := c.Stats(); s.Handled != 2000 || s.Acknowledged != 2000 || s.Failed != 0 || s.Recovered != 0 || s.Deleted != 0 {
		t.Errorf("stats %+v", s)
	}
	for _, r := range l.all() {
		if r.Stream != stream || r.Token <= 0 || r.Deliveries != 1 || r.Key == "" || r.Key != r.Values["rsc-key"] || r.Values["n"] == "" {
			t.Fatalf("record %+v", r)
		}
	}
}
