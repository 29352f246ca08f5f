package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/producer"
)

// scripted publishes nothing: it answers each message by what its payload says.
type scripted struct {
	batches [][]producer.Message
	err     error
	// brokenOff is what the context of a batch said at its end.
	brokenOff error
	onBatch   func()
}

func (s *scripted) PublishBatch(ctx context.Context, messages []producer.Message) ([]producer.Result, error) {
	s.batches = append(s.batches, messages)
	if s.onBatch != nil {
		s.onBatch()
	}
	s.brokenOff = errors.Join(s.brokenOff, ctx.Err())
	if s.err != nil {
		return nil, s.err
	}
	results := make([]producer.Result, len(messages))
	for i, m := range messages {
		switch string(m.Payload) {
		case "unknown":
			results[i].Err = producer.ErrOutcomeUnknown
		case "large":
			results[i].Err = producer.ErrMessageTooLarge
		case "away":
			results[i].Err = producer.ErrNoRouting
		}
	}
	return results, nil
}

// produce runs a production on a script and returns what it told.
func produce(ctx context.Context, s *scripted, keyField string, input io.Reader) (*production, string, error) {
	var out buffer
	p := &production{flags: &produceFlags{keyField: keyField, timeout: time.Minute}, producer: s, stderr: &out, progress: noProgress{}, started: time.Now()}
	err := p.all(ctx, input)
	return p, out.String(), err
}

func TestProduceCounts(t *testing.T) {
	cases := []struct {
		name, input, keyField string
		says                  string // the last line, up to the time
		also                  []string
		complaint             string
	}{
		{"nothing", "", "", "produce: read=0 stored=0 uncertain=0 failed=0 ", nil, ""},
		{"all stored", "a\nb\n\nc", "", "produce: read=4 stored=4 uncertain=0 failed=0 ", nil, ""},
		{"keys", `{"id":"a"}` + "\n" + `{"id":2}` + "\n", "id", "produce: read=2 stored=2 uncertain=0 failed=0 ", nil, ""},
		{"lines without key", `{"id":"a"}` + "\nx\n" + `{"no":1}` + "\n\n", "id", "produce: read=4 stored=1 uncertain=0 failed=3 ",
			[]string{"line 2: is not a JSON object, which --key-field needs\n", "line 3: has no field \"id\"\n", "not stored: lines 2-4\n"}, "3 of 4 lines are not known to be stored"},
		{"only lines without key", "x\n", "id", "produce: read=1 stored=0 uncertain=0 failed=1 ", nil, "1 of 1 lines"},
		{"uncertain", "a\nunknown\nb\nunknown\n", "", "produce: read=4 stored=2 uncertain=2 failed=0 ",
			[]string{"line 2: OUTCOME_UNKNOWN", "uncertain, stored or not: lines 2, 4\n"}, "2 of 4 lines"},
		{"too large", "large\n", "", "produce: read=1 stored=0 uncertain=0 failed=1 ", []string{"line 1: MESSAGE_TOO_LARGE"}, "1 of 1 lines"},
		{"too long to be read", strings.Repeat("x", maxLineBytes+1) + "\na\n", "", "produce: read=2 stored=1 uncertain=0 failed=1 ", []string{"line 1: is longer than"}, "1 of 2 lines"},
		{"coordinator away", "away\naway\n", "", "produce: read=2 stored=0 uncertain=0 failed=2 ", nil, "gave up at line 2, the lines after it were not read: NO_ROUTING"},
		{"away for some", "away\na\n", "", "produce: read=2 stored=1 uncertain=0 failed=1 ", nil, "1 of 2 lines"},
		{"many failures", strings.Repeat("unknown\nlarge\n", 15) + "a\n", "", "produce: read=31 stored=1 uncertain=15 failed=15 ", []string{"line 20: ", "further failures are only listed at the end\n", "lines 2, 4, 6, "}, "30 of 31"},
		{"one failure again and again", strings.Repeat("unknown\n", 30) + "a\n", "", "produce: read=31 stored=1 uncertain=30 failed=0 ", []string{"line 1: ", "lines 1-30\n"}, "30 of 31"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := &scripted{}
			_, out, err := produce(t.Context(), s, c.keyField, strings.NewReader(c.input))
			lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
			if last := lines[len(lines)-1]; !strings.HasPrefix(last, c.says) {
				t.Errorf("it says %q, want %q", last, c.says)
			}
			for _, part := range c.also {
				if !strings.Contains(out, part) {
					t.Errorf("lacks %q:\n%s", part, out)
				}
			}
			if strings.Contains(out, "line 21: ") || c.name == "one failure again and again" && strings.Contains(out, "line 2: ") {
				t.Errorf("too much is told:\n%s", out)
			}
			if got := fmt.Sprint(err); c.complaint == "" && err != nil || !strings.Contains(got, c.complaint) {
				t.Errorf("error %v, want %q", err, c.complaint)
			}
		})
	}
}

// Batches are bounded by lines and by bytes, and keep the order.
func TestProduceBatches(t *testing.T) {
	s := &scripted{}
	var input strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&input, "{\"id\":%d}\n", i)
	}
	input.WriteString(strings.Repeat(`{"id":"big","x":"`+strings.Repeat("x", maxLineBytes-100)+"\"}\n", 10))
	p, _, err := produce(t.Context(), s, "id", strings.NewReader(input.String()))
	if err != nil || p.stored != 5010 {
		t.Fatalf("stored %d, %v", p.stored, err)
	}
	n := 0
	for _, batch := range s.batches {
		size := 0
		for _, m := range batch {
			if n < 5000 && m.Key != fmt.Sprint(n) {
				t.Fatalf("message %d has the key %s", n, m.Key)
			}
			n++
			size += len(m.Payload)
		}
		if len(batch) > maxBatchLines || size > maxBatchBytes+maxLineBytes {
			t.Errorf("a batch of %d messages and %d bytes", len(batch), size)
		}
	}
}

// A line that comes alone is published at once, not when a batch is full.
func TestProduceDoesNotWaitForMore(t *testing.T) {
	in, out := io.Pipe()
	published := make(chan struct{}, 10)
	s := &scripted{onBatch: func() { published <- struct{}{} }}
	done := make(chan error, 1)
	go func() {
		_, _, err := produce(context.Background(), s, "", in)
		done <- err
	}()
	for range 3 {
		if _, err := out.Write([]byte("a\n")); err != nil {
			t.Fatal(err)
		}
		<-published
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An interrupt ends the reading, not the batch that is under way.
func TestProduceInterrupted(t *testing.T) {
	in, out := io.Pipe()
	defer func() { _ = out.Close() }()
	ctx, stop := context.WithCancel(t.Context())
	s := &scripted{onBatch: stop}
	go func() { _, _ = out.Write([]byte("a\n")) }()
	p, told, err := produce(ctx, s, "", in)
	if !errors.Is(err, errInterrupted) || p.stored != 1 || !strings.Contains(told, "read=1 stored=1") {
		t.Errorf("stored %d, %v, %s", p.stored, err, told)
	}
	if s.brokenOff != nil {
		t.Errorf("the batch was broken off: %v", s.brokenOff)
	}
}

func TestProduceStopsWhenTheProducerIsClosed(t *testing.T) {
	_, out, err := produce(t.Context(), &scripted{err: producer.ErrClosed}, "", strings.NewReader("a\nb\n"))
	if !errors.Is(err, producer.ErrClosed) || !strings.Contains(out, "stored=0") {
		t.Errorf("%v %s", err, out)
	}
}

func TestProduceReadError(t *testing.T) {
	broken := errors.New("disk on fire")
	p, _, err := produce(t.Context(), &scripted{}, "", io.MultiReader(strings.NewReader("a\n"), errReader{broken}))
	if !errors.Is(err, broken) || p.stored != 1 {
		t.Errorf("stored %d, %v", p.stored, err)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }
