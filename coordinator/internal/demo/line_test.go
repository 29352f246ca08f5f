package demo

import (
	"strings"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	began := time.Now()
	l := handledLine{
		id: "1700000000000-7", key: keyName(42), seq: "3", shard: 5, token: 1795968260959,
		start: began.Add(1500 * time.Microsecond), end: began.Add(2 * time.Millisecond),
	}
	text := string(l.appendTo([]byte("before ")))
	line, ok := strings.CutSuffix(strings.TrimPrefix(text, "before "), "\n")
	if !ok {
		t.Fatalf("the line does not end: %q", text)
	}
	got, err := parseLine("consumer-1", line, began)
	if err != nil {
		t.Fatal(err)
	}
	want := handling{
		place: place{5, recordID{1700000000000, 7}}, content: content{42, 3}, member: "consumer-1", token: 1795968260959,
		start: 1500 * time.Microsecond, end: 2 * time.Millisecond,
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestLinesThatCannotBeRead(t *testing.T) {
	const good = "1-0 key-1 1 0 1 1 1"
	if _, err := parseLine("m", good, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ line, want string }{
		{"", "has 0 fields, not 7"},
		{good + " 1", "has 8 fields"},
		{"1 key-1 1 0 1 1 1", `"1" is not the id of a record`},
		{"x-0 key-1 1 0 1 1 1", "is not the id of a record"},
		{"1--0 key-1 1 0 1 1 1", "is not the id of a record"},
		{"1-0 other-1 1 0 1 1 1", "is no record of the demo"},
		{"1-0 key-x 1 0 1 1 1", "is no record of the demo"},
		{"1-0 key-1 x 0 1 1 1", "is no record of the demo"},
		{"1-0 key-1 1 x 1 1 1", `"x" is not a number`},
		{"1-0 key-1 1 0 1 1 x", `"x" is not a number`},
	} {
		if _, err := parseLine("m", tt.line, time.Now()); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.line, err, tt.want)
		}
	}
}
