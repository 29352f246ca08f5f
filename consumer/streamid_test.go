package consumer

import (
	"math"
	"testing"
)

func TestStreamIDs(t *testing.T) {
	for _, tc := range []struct{ text, prev, next string }{
		{"5-1", "5-0", "5-2"},
		{"5-0", "4-18446744073709551615", "5-1"},
		{"5", "4-18446744073709551615", "5-1"},
		{"5-18446744073709551615", "5-18446744073709551614", "6-0"},
		{"0-0", "0-0", "0-1"},
		{"nonsense", "0-0", "0-1"},
	} {
		id := parseID(tc.text)
		if got := id.prev().String(); got != tc.prev {
			t.Errorf("before %s is %s, want %s", tc.text, got, tc.prev)
		}
		if got := id.next().String(); got != tc.next {
			t.Errorf("after %s is %s, want %s", tc.text, got, tc.next)
		}
		if id.less(id) || (id.prev() != id && !id.prev().less(id)) || !id.less(id.next()) {
			t.Errorf("%s is not between its neighbours", tc.text)
		}
	}
	last := streamID{math.MaxUint64, math.MaxUint64}
	if last.next() != last {
		t.Error("there is something after the last id")
	}
}
