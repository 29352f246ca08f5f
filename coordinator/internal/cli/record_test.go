package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

func TestEncodeRecord(t *testing.T) {
	cases := []struct {
		name   string
		record consumer.Record
		want   string
	}{
		{"text", consumer.Record{Stream: "orders", Shard: 3, ID: "5-0", Key: "k", Token: 9, Deliveries: 1, Values: map[string]string{"rsc-key": "k", "payload": `{"a":"<b>"}`}},
			`{"stream":"orders","shard":3,"id":"5-0","key":"k","token":9,"deliveries":1,"values":{"payload":"{\"a\":\"<b>\"}"}}`},
		{"no key", consumer.Record{Stream: "s", ID: "5-0", Deliveries: 2, Values: map[string]string{"a": ""}},
			`{"stream":"s","shard":0,"id":"5-0","token":0,"deliveries":2,"values":{"a":""}}`},
		{"no fields", consumer.Record{Stream: "s", ID: "5-0"}, `{"stream":"s","shard":0,"id":"5-0","token":0,"deliveries":0,"values":{}}`},
		{"no text", consumer.Record{Stream: "s", ID: "5-0", Key: "\xff", Values: map[string]string{"rsc-key": "\xff", "payload": "\xfe"}},
			`{"stream":"s","shard":0,"id":"5-0","token":0,"deliveries":0,"values":{},"binary":{"payload":"/g=="},"keyBinary":"/w=="}`},
	}
	for _, c := range cases {
		got, err := encodeRecord(c.record)
		if err != nil || string(got) != c.want+"\n" {
			t.Errorf("%s:\n%s %v, want\n%s", c.name, got, err, c.want)
		}
	}
}

// What cannot be printed is not acknowledged, and ends the command.
func TestRecordWriterFails(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	full := errors.New("no space left")
	w := &recordWriter{out: errWriter{full}, failed: stop}
	for range 2 {
		if err := w.write(ctx, consumer.Record{}); !errors.Is(err, full) {
			t.Errorf("write: %v", err)
		}
	}
	if !errors.Is(context.Cause(ctx), full) || !errors.Is(w.failure(), full) {
		t.Errorf("cause %v, failure %v", context.Cause(ctx), w.failure())
	}
}

type errWriter struct{ err error }

func (w errWriter) Write([]byte) (int, error) { return 0, w.err }

func TestRunner(t *testing.T) {
	var out buffer
	a := App{Stdout: &out, Stderr: &out, Environ: []string{"MINE=1"}}
	r := consumer.Record{Stream: "orders", Shard: 3, ID: "5-0", Key: "k", Token: 9, Deliveries: 2, Values: map[string]string{"payload": "p"}}
	err := a.runner(`cat; echo "$MINE $RSC_STREAM $RSC_SHARD $RSC_ID $RSC_KEY $RSC_TOKEN $RSC_DELIVERIES"`)(t.Context(), r)
	want := `{"stream":"orders","shard":3,"id":"5-0","key":"k","token":9,"deliveries":2,"values":{"payload":"p"}}` + "\n1 orders 3 5-0 k 9 2\n"
	if err != nil || out.String() != want {
		t.Errorf("%v, %s", err, out.String())
	}
	if err := a.runner("exit 3")(t.Context(), r); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "5-0") {
		t.Errorf("a command that fails: %v", err)
	}
	// One that reads nothing, and a key that no environment can hold.
	r.Key = "a\x00b"
	if err := a.runner(`test -z "$RSC_KEY"`)(t.Context(), r); err != nil {
		t.Errorf("a key with a zero byte: %v", err)
	}
}

// The end of the context reaches the command and its children.
func TestRunnerIsStopped(t *testing.T) {
	var out buffer
	a := App{Stdout: &out, Stderr: &out}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.runner(`echo started; sleep 300; echo late`)(ctx, consumer.Record{}) }()
	eventually(t, "the command runs", func() bool { return out.String() != "" })
	stop()
	if err := <-done; err == nil {
		t.Error("a command that was stopped did not fail")
	}
	if strings.Contains(out.String(), "late") {
		t.Error("the shell went on")
	}
}
