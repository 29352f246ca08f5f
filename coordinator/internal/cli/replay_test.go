package cli

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/producer"
)

// letterOf makes a dead letter of a record with one field, whose value tells the
// scripted producer what to answer.
func letterOf(id, record, payload string) deadLetter {
	return readDeadLetter(redis.Entry{ID: id, Fields: []redis.Field{
		{Name: "payload", Value: payload}, {Name: "rsc-error", Value: "boom"}, {Name: "rsc-shard", Value: "3"}, {Name: "rsc-id", Value: record},
		{Name: "rsc-deliveries", Value: "5"}, {Name: "rsc-group", Value: "g"}, {Name: "rsc-member", Value: "m"},
	}})
}

func sourceOf(letters ...deadLetter) iter.Seq2[deadLetter, error] {
	return func(yield func(deadLetter, error) bool) {
		for _, d := range letters {
			if !yield(d, nil) {
				return
			}
		}
	}
}

// publisher answers by the field payload, as scripted does by the payload.
type publisher struct{ scripted }

func (p *publisher) PublishBatch(ctx context.Context, messages []producer.Message) ([]producer.Result, error) {
	for i := range messages {
		messages[i].Payload = []byte(messages[i].Fields[0].Value)
	}
	return p.scripted.PublishBatch(ctx, messages)
}

// bin is what dead letters are removed to.
type bin struct {
	ids   []string
	there int64 // answers so many fewer
	err   error
}

func (b *bin) Delete(_ context.Context, _ string, ids ...string) (int64, error) {
	b.ids = append(b.ids, ids...)
	return int64(len(ids)) - b.there, b.err
}

func TestReplayCounts(t *testing.T) {
	many := make([]deadLetter, 2*replayLetters+1)
	for i := range many {
		many[i] = letterOf(strings.Repeat("1", i+1), strings.Repeat("2", i+1), "a")
	}
	cases := []struct {
		name      string
		letters   []deadLetter
		bin       bin
		err       error // of the producer
		says      string
		also      []string
		complaint string
		removed   string
	}{
		{"nothing", nil, bin{}, nil, "replay: read=0 replayed=0 twice=0 uncertain=0 failed=0 kept=0\n", nil, "", ""},
		{"all", []deadLetter{letterOf("1-0", "7-0", "a"), letterOf("2-0", "8-0", "b")}, bin{}, nil, "replay: read=2 replayed=2 ", nil, "", "1-0 2-0"},
		{"one that lies there twice", []deadLetter{letterOf("1-0", "7-0", "a"), letterOf("2-0", "7-0", "a")}, bin{}, nil, "replay: read=2 replayed=1 twice=1 ", nil, "", "1-0 2-0"},
		{"one id with two contents", []deadLetter{letterOf("1-0", "7-0", "a"), letterOf("2-0", "7-0", "b")}, bin{}, nil, "replay: read=2 replayed=2 twice=0 ", nil, "", "1-0 2-0"},
		{"an uncertain one stays, and so does its double", []deadLetter{letterOf("1-0", "7-0", "unknown"), letterOf("2-0", "7-0", "unknown"), letterOf("3-0", "9-0", "a")}, bin{}, nil,
			"replay: read=3 replayed=1 twice=0 uncertain=1 failed=1 ", []string{"dead letter 1-0: OUTCOME_UNKNOWN", "left where it is"}, "2 of 3 dead letters are still there", "3-0"},
		{"too large", []deadLetter{letterOf("1-0", "7-0", "large")}, bin{}, nil, "replay: read=1 replayed=0 twice=0 uncertain=0 failed=1 ", []string{"dead letter 1-0: MESSAGE_TOO_LARGE"}, "1 of 1", ""},
		{"no coordinator", []deadLetter{letterOf("1-0", "7-0", "away")}, bin{}, nil, "failed=1 ", nil, "gave up at dead letter 1-0: NO_ROUTING", ""},
		{"no producer", []deadLetter{letterOf("1-0", "7-0", "a")}, bin{}, producer.ErrClosed, "failed=1 ", nil, "publish: ", ""},
		{"no record", []deadLetter{readDeadLetter(redis.Entry{ID: "1-0", Fields: []redis.Field{{Name: "rsc-id", Value: "7-0"}}})}, bin{}, nil, "read=1 replayed=0 ", []string{"there is no record in it"}, "1 of 1", ""},
		{"removed by another", []deadLetter{letterOf("1-0", "7-0", "a")}, bin{there: 1}, nil, "replayed=1 ", []string{"1 dead letters were removed by somebody else meanwhile"}, "", "1-0"},
		{"not removed", []deadLetter{letterOf("1-0", "7-0", "a")}, bin{err: errors.New("away")}, nil, "replayed=1 twice=0 uncertain=0 failed=0 kept=1", nil, "perhaps not removed, so that another replay publishes it twice: 1-0: away", "1-0"},
		{"many", many, bin{}, nil, "replay: read=201 replayed=201 ", nil, "", "-"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out buffer
			p := &publisher{scripted{err: c.err}}
			r := &replay{letters: &c.bin, key: "orders:dlq", producer: p, timeout: time.Minute, stderr: &out, published: map[identity]bool{}}
			err := r.run(t.Context(), sourceOf(c.letters...))
			if c.complaint == "" && err != nil || c.complaint != "" && (err == nil || !strings.Contains(err.Error(), c.complaint)) {
				t.Errorf("error %v, want %q", err, c.complaint)
			}
			for _, want := range append(c.also, c.says) {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q:\n%s", want, out.String())
				}
			}
			if got := strings.Join(c.bin.ids, " "); got != c.removed && c.removed != "-" {
				t.Errorf("removed %q, want %q", got, c.removed)
			}
			for _, batch := range p.batches {
				if len(batch) > replayLetters {
					t.Errorf("published %d at a time", len(batch))
				}
			}
		})
	}
}

// An interrupted replay ends between two batches, and breaks none off.
func TestReplayInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out buffer
	p := &publisher{scripted{onBatch: stop}}
	letters := make([]deadLetter, 3*replayLetters)
	for i := range letters {
		letters[i] = letterOf(strings.Repeat("1", i+1), strings.Repeat("2", i+1), "a")
	}
	trash := &bin{}
	r := &replay{letters: trash, producer: p, timeout: time.Minute, stderr: &out, published: map[identity]bool{}}
	if err := r.run(ctx, sourceOf(letters...)); !errors.Is(err, errReplayInterrupted) {
		t.Errorf("got %v", err)
	}
	if len(p.batches) != 1 || p.brokenOff != nil || len(trash.ids) != replayLetters {
		t.Errorf("%d batches, %d removed, broken off: %v", len(p.batches), len(trash.ids), p.brokenOff)
	}
}

// What is published is the record: its fields as they stand, without those of the
// dead letter, by its key.
func TestReplayedMessage(t *testing.T) {
	d := readDeadLetter(redis.Entry{ID: "9-1", Fields: []redis.Field{
		{Name: "b", Value: "\xff"}, {Name: "rsc-key", Value: "k\x00"}, {Name: "b", Value: ""}, {Name: "rsc-replayed", Value: "1-0"},
		{Name: "rsc-error", Value: "e"}, {Name: "rsc-shard", Value: "x"}, {Name: "rsc-deliveries", Value: "-3"},
	}})
	m := d.message()
	want := []producer.Field{{Name: "b", Value: "\xff"}, {Name: "rsc-key", Value: "k\x00"}, {Name: "b", Value: ""}, {Name: "rsc-replayed", Value: "9-1"}}
	if m.Key != "k\x00" || len(m.Fields) != len(want) {
		t.Fatalf("got %+v", m)
	}
	for i := range want {
		if m.Fields[i] != want[i] {
			t.Errorf("field %d: %q, want %q", i, m.Fields[i], want[i])
		}
	}
	if d.shard != -1 || d.deliveries != 0 {
		t.Errorf("numbers that are none were taken: %+v", d)
	}
	if keyless := letterOf("5-0", "7-0", "a"); keyless.message().Key != "5-0" || keyless.key() != "" {
		t.Errorf("without key: %+v", keyless.message())
	}
}

func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"plain":         "plain",
		"":              `""`,
		"日本":            "日本",
		"a\tb":          `"a\tb"`,
		"\x1b[31mred":   `"\x1b[31mred"`,
		"\xff":          `"\xff"`,
		"0123456789abc": "0123456789…",
		`say "hi"`:      `"say \"hi\""`,
	} {
		if got := shown(text, 10); got != want {
			t.Errorf("%q is shown as %s, want %s", text, got, want)
		}
	}
}
