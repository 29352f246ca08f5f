package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func allLines(t *testing.T, r io.Reader) ([]line, error) {
	t.Helper()
	out := make(chan []line)
	done := make(chan error, 1)
	go func() { done <- readLines(t.Context(), r, out) }()
	var list []line
	for batch := range out {
		if len(batch) == 0 || len(batch) > maxBatchLines {
			t.Errorf("a batch of %d lines", len(batch))
		}
		list = append(list, batch...)
	}
	return list, <-done
}

func TestReadLines(t *testing.T) {
	longest := strings.Repeat("x", maxLineBytes)
	cases := []struct {
		name, input string
		want        []string // "(too long)" for a line that is
	}{
		{"nothing", "", nil},
		{"one", "a\n", []string{"a"}},
		{"without an end", "a\nb", []string{"a", "b"}},
		{"empty lines", "\n\na\n\n", []string{"", "", "a", ""}},
		{"carriage returns", "a\r\nb\r\n\r\n", []string{"a", "b", ""}},
		{"one of two", "a\r\r\n", []string{"a\r"}},
		{"longest", longest + "\nb\n", []string{longest, "b"}},
		{"longest, with a carriage return", longest + "\r\nb\n", []string{longest, "b"}},
		{"longest, without an end", longest, []string{longest}},
		{"too long", longest + "x\nb\n", []string{"(too long)", "b"}},
		{"far too long", longest + longest + longest + "\nb\n", []string{"(too long)", "b"}},
		{"too long, without an end", "a\n" + longest + "x", []string{"a", "(too long)"}},
		{"no text", "\x00\xff\n", []string{"\x00\xff"}},
	}
	for _, c := range cases {
		for kind, r := range map[string]io.Reader{"whole": strings.NewReader(c.input), "in halves": iotest.HalfReader(strings.NewReader(c.input))} {
			t.Run(c.name+" "+kind, func(t *testing.T) {
				list, err := allLines(t, r)
				if err != nil || len(list) != len(c.want) {
					t.Fatalf("%d lines, %v", len(list), err)
				}
				for i, l := range list {
					got := string(l.text)
					if l.tooLong {
						got = "(too long)"
					}
					if got != c.want[i] || l.number != int64(i+1) {
						t.Errorf("line %d is %.20q of %d bytes", l.number, got, len(got))
					}
				}
				if n := len(list); n > 0 && list[n-1].end != int64(len(c.input)) {
					t.Errorf("ends at %d of %d", list[n-1].end, len(c.input))
				}
			})
		}
	}
}

func TestReadLinesThatBreakOff(t *testing.T) {
	broken := errors.New("disk on fire")
	list, err := allLines(t, io.MultiReader(strings.NewReader("a\nb\n"), iotest.ErrReader(broken)))
	if len(list) != 2 || !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("%d lines, %v", len(list), err)
	}
}

func TestReadLinesEndsWithTheContext(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	stop(enough)
	if err := readLines(ctx, strings.NewReader("a\n"), make(chan []line)); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}

func TestLineNumbers(t *testing.T) {
	var n lineNumbers
	if n.String() != "" {
		t.Errorf("none is %q", &n)
	}
	for _, i := range []int64{3, 7, 8, 9, 11} {
		n.add(i)
	}
	if got := n.String(); got != "3, 7-9, 11" || n.count != 5 {
		t.Errorf("got %q, %d", got, n.count)
	}
	var many lineNumbers
	for i := range int64(10_000) {
		many.add(2 * i)
	}
	if len(many.ranges) != maxRanges || many.count != 10_000 || !strings.HasSuffix(many.String(), ", 398, …") {
		t.Errorf("%d ranges, %d lines, %s", len(many.ranges), many.count, &many)
	}
	many.add(19_999)
	if strings.Contains(many.String(), "19999") {
		t.Errorf("a number was put to a range that is not its neighbour: %s", &many)
	}
}

func TestKeyOf(t *testing.T) {
	cases := []struct{ object, want, complaint string }{
		{`{"id":"a"}`, "a", ""},
		{`{"x":{"id":1},"id":"a\u0062"}`, "ab", ""},
		{`{"id": 12345678901234567890 }`, "12345678901234567890", ""},
		{`{"id":1.50}`, "1.50", ""},
		{`{"id":true}`, "true", ""},
		{`{"id":""}`, "", `field "id" is empty`},
		{`{"id":null}`, "", `field "id" is no text or number`},
		{`{"id":{}}`, "", `field "id" is no text or number`},
		{`{"id":[1]}`, "", `field "id" is no text or number`},
		{`{"ID":"a"}`, "", `has no field "id"`},
		{`{}`, "", `has no field "id"`},
		{`null`, "", "is not a JSON object"},
		{`[]`, "", "is not a JSON object"},
		{`"id"`, "", "is not a JSON object"},
		{`{"id":"a"} x`, "", "is not a JSON object"},
		{`{"id":"a"`, "", "is not a JSON object"},
		{``, "", "is not a JSON object"},
	}
	for _, c := range cases {
		got, err := keyOf([]byte(c.object), "id")
		if c.complaint != "" {
			if err == nil || !strings.Contains(err.Error(), c.complaint) {
				t.Errorf("%s: %q %v, want %q", c.object, got, err, c.complaint)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %q %v, want %q", c.object, got, err, c.want)
		}
	}
}

func FuzzKeyOf(f *testing.F) {
	f.Add([]byte(`{"id":"a"}`))
	f.Add([]byte(`{"id":1}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		if key, err := keyOf(object, "id"); err == nil && key == "" {
			t.Errorf("%q has the empty key", object)
		}
	})
}
