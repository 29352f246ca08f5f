//go:build unix

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The demo starts this test binary as its consumers and as the keeper of its
// redis-server. faultVariable names what is wrong with the consumers then.
const faultVariable = "RSC_DEMO_TEST_FAULT"

// faults are handlers that do not do what they should. They know the record by
// its order in their process.
var faults = map[string]func(consumer.Handler) consumer.Handler{
	"": func(h consumer.Handler) consumer.Handler { return h },
	// A record is acknowledged and not handled.
	"drop": func(h consumer.Handler) consumer.Handler {
		var seen atomic.Int64
		return func(ctx context.Context, r consumer.Record) error {
			if seen.Add(1) == 50 {
				return nil
			}
			return h(ctx, r)
		}
	},
	// The process ends in the middle of a record.
	"exit": func(h consumer.Handler) consumer.Handler {
		var seen atomic.Int64
		return func(ctx context.Context, r consumer.Record) error {
			if seen.Add(1) == 50 {
				os.Exit(7)
			}
			return h(ctx, r)
		}
	},
}

// demoCommand runs a demo that goes on until somebody ends it.
const demoCommand = "demo"

func TestMain(m *testing.M) {
	ctx := context.Background()
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == ConsumerCommand:
		err = runConsumer(ctx, os.Stdin, os.Stdout, os.Stderr, faults[os.Getenv(faultVariable)])
	case len(os.Args) > 1 && os.Args[1] == CoordinatorCommand:
		err = RunCoordinator(ctx, os.Stdin, os.Stdout, os.Stderr)
	case len(os.Args) > 1 && os.Args[1] == RedisCommand:
		err = RunRedis(ctx, os.Stdin, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == demoCommand:
		_, err = Run(ctx, Options{Seconds: maxSeconds, Rate: minRate, Out: os.Stdout})
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// transcript takes what a demo says. When it has heard a text, it calls hear once.
type transcript struct {
	heard string
	hear  func()

	mu   sync.Mutex
	text bytes.Buffer
}

func (w *transcript) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if w.hear != nil && strings.Contains(w.text.String(), w.heard) {
		w.hear()
		w.hear = nil
	}
	return len(p), nil
}

func (w *transcript) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// quick are options for a demo of a few seconds. It is the whole story all the
// same; each of its chapters begins as soon as the one before is over. Leases and slack
// are longer than a machine stands still that runs other tests beside this one.
func quick() Options {
	return Options{
		Seconds: 1, Rate: 800, slack: 5 * time.Second,
		Timings: protocol.Timings{HeartbeatInterval: 300 * time.Millisecond, Lease: 6 * time.Second, RebalanceTimeout: 6 * time.Second},
	}
}

// skipQuickRun skips what takes seconds.
func skipQuickRun(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		t.Skip("takes seconds: skipped in the quick run")
	}
}

// runDemo runs a demo and returns its outcome and the lines that it said.
func runDemo(t *testing.T, o Options) (Result, []string) {
	t.Helper()
	said := new(transcript)
	o.Out = said
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the demo said:\n%s", said)
	lines := strings.Split(strings.TrimSuffix(said.String(), "\n"), "\n")
	if last := lines[len(lines)-1]; last != result.String() {
		t.Errorf("the last line is %q, want the result, %q", last, result)
	}
	return result, lines
}

// runGoodDemo is runDemo for one that is to end well. A machine that is so busy that
// processes stand still for as long as a lease spoils what is measured: such a run is
// repeated. What is promised on any machine is never excused.
func runGoodDemo(t *testing.T, o Options) (result Result, lines []string) {
	t.Helper()
	for range 3 {
		if result, lines = runDemo(t, o); !stoodStill(result, lines) {
			break
		}
		t.Log("processes stood still meanwhile: the demo is run again")
	}
	return result, lines
}

// stoodStill reports whether a run failed by the clock alone.
func stoodStill(r Result, lines []string) bool {
	if r.OK() || r.Lost+r.Overlaps+r.OrderViolations > 0 {
		return false
	}
	leaseEnded := slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "the lease ended") })
	return !slices.ContainsFunc(r.Complaints, func(c string) bool {
		late := strings.Contains(c, "ms are allowed")
		again := leaseEnded && strings.Contains(c, "handled again although their first consumer was not killed")
		return !late && !again
	})
}

// finalLine is what a demo without a fault ends with.
var finalLine = regexp.MustCompile(`^demo: ok produced=[1-9]\d* processed=[1-9]\d* duplicates=\d+ lost=0 overlaps=0 order_violations=0 rebalances=[1-9]\d* reshards=2 handover_ms_max=\d+ takeover_ms=[1-9]\d* restart_pause_ms=\d+$`)

func expectOK(t *testing.T, result Result) {
	t.Helper()
	if !finalLine.MatchString(result.String()) {
		t.Errorf("the demo ended with %q", result)
	}
	// A Redis that stands still leaves the producer in doubt about some.
	if result.Processed != result.Produced+result.UncertainStored {
		t.Errorf("%d records were produced, and %d more that nobody knew of, and %d processed", result.Produced, result.UncertainStored, result.Processed)
	}
	// Two consumers join, two join, one is lost and one leaves: four shards move
	// to those that join, those of one of four consumers are taken over, those of
	// one of three move again. The coordinator is restarted while there are most shards.
	if result.Handovers < 6 || result.Takeovers < 2 || result.Steady != mostShards {
		t.Errorf("%d hand-overs, %d takeovers and %d steady shards were measured", result.Handovers, result.Takeovers, result.Steady)
	}
}

func TestDemoOnTheEmbeddedRedis(t *testing.T) {
	skipQuickRun(t)
	o := quick()
	o.Embedded = true
	result, lines := runGoodDemo(t, o)
	expectOK(t, result)
	if !strings.Contains(lines[0], "embedded") {
		t.Errorf("the first line does not say that Redis is embedded: %q", lines[0])
	}
}

// Coordinators share a file even where Redis is in this process.
func TestDemoWithSQLite(t *testing.T) {
	skipQuickRun(t)
	t.Setenv("TMPDIR", t.TempDir())
	o := quick()
	o.Embedded, o.SQLite = true, true
	result, lines := runGoodDemo(t, o)
	expectOK(t, result)
	if !strings.Contains(lines[0], "SQLite") {
		t.Errorf("the first line does not say where the metadata is: %q", lines[0])
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDemoOnAServerOfItsOwn(t *testing.T) {
	redistest.New(t) // skips, or fails in CI, where there is no redis-server
	result, lines := runGoodDemo(t, quick())
	expectOK(t, result)
	if !strings.Contains(lines[0], "redis-server") {
		t.Errorf("the first line does not name the server: %q", lines[0])
	}
}

func TestDemoOnAServerThatIsGiven(t *testing.T) {
	s := redistest.Start(t)
	client := s.Client()
	if err := client.Set(t.Context(), "somebody's", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	o := quick()
	o.RedisURL = s.URL
	result, _ := runGoodDemo(t, o)
	expectOK(t, result)
	left, err := client.Keys(t.Context(), "*").Result()
	if err != nil || !slices.Equal(left, []string{"somebody's"}) {
		t.Errorf("keys in the Redis that was given: %q, %v", left, err)
	}
}

// A demo that cannot fail shows nothing.
func TestDemoFailsWhenAConsumerDropsARecord(t *testing.T) {
	skipQuickRun(t)
	t.Setenv(faultVariable, "drop")
	o := quick()
	o.Embedded = true
	result, _ := runDemo(t, o)
	// Where records are left over, they count as lost, too.
	drained := !slices.ContainsFunc(result.Complaints, func(c string) bool { return strings.Contains(c, "the consumers were not done") })
	if result.OK() || result.Lost == 0 || drained && result.Lost > 4 || !strings.Contains(result.String(), "records were lost") {
		t.Errorf("each of four consumers dropped a record, and the demo ended with %q", result)
	}
}

func TestDemoFailsWhenAConsumerEndsByItself(t *testing.T) {
	skipQuickRun(t)
	t.Setenv(faultVariable, "exit")
	o := quick()
	o.Embedded = true
	result, _ := runDemo(t, o)
	if result.OK() || !regexp.MustCompile(`consumer-\d ended by itself: exit status 7`).MatchString(result.String()) {
		t.Errorf("a consumer ended by itself, and the demo ended with %q", result)
	}
}

func TestDemoThatIsInterruptedEndsItsProcesses(t *testing.T) {
	s := redistest.Start(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	said := &transcript{heard: "records flow", hear: interrupt}
	o := quick()
	o.RedisURL, o.Out = s.URL, said
	result, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the demo said:\n%s", said)
	if !strings.HasPrefix(result.String(), "demo: failed: interrupted after ") || len(result.Complaints) != 1 {
		t.Errorf("the demo ended with %q", result)
	}
	for _, pid := range processes(t, said.String(), 2) {
		if !gone(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
	client := s.Client()
	if left, err := client.Keys(t.Context(), "*").Result(); err != nil || len(left) != 0 {
		t.Errorf("keys were left behind: %q, %v", left, err)
	}
}

func TestDemoThatIsKilledLeavesNothingBehind(t *testing.T) {
	redistest.New(t) // skips, or fails in CI, where there is no redis-server
	scratch := t.TempDir()
	demo := exec.CommandContext(t.Context(), os.Args[0], demoCommand)
	demo.Env = append(os.Environ(), "TMPDIR="+scratch)
	flowing := make(chan struct{})
	said := &transcript{heard: "records flow", hear: func() { close(flowing) }}
	demo.Stdout, demo.Stderr = said, said
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-flowing:
	case <-time.After(waitAtMost):
		t.Error("no record flowed")
	}
	_ = demo.Process.Kill()
	_ = demo.Wait() // it says that it was killed
	t.Logf("the demo said:\n%s", said)
	address := regexp.MustCompile(`on (127\.0\.0\.1:\d+);`).FindStringSubmatch(said.String())
	if address == nil {
		t.Fatal("the demo did not say where its redis-server is")
	}
	for _, pid := range processes(t, said.String(), 2) {
		eventually(t, fmt.Sprintf("process %d ends", pid), func() bool { return gone(pid) })
	}
	eventually(t, "redis-server ends", func() bool {
		conn, err := net.DialTimeout("tcp", address[1], time.Second) //nolint:noctx // bounded by its timeout
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	eventually(t, "its folder is removed", func() bool {
		left, err := os.ReadDir(scratch)
		return err == nil && len(left) == 0
	})
}

// processes are the consumer processes that a demo said it started.
func processes(t *testing.T, said string, atLeast int) []int {
	t.Helper()
	var pids []int
	for _, found := range regexp.MustCompile(`process (\d+)`).FindAllStringSubmatch(said, -1) {
		pid, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) < atLeast {
		t.Fatalf("the demo said that it started %d processes", len(pids))
	}
	return pids
}

// gone reports whether a process has ended. One that nobody has waited for yet
// has.
func gone(pid int) bool {
	if err := syscall.Kill(pid, 0); err != nil {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) && runtime.GOOS == "linux"
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z")
}

// waitAtMost bounds the waits of these tests; nothing waits that long.
const waitAtMost = time.Minute

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(waitAtMost); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestOptionsThatCannotBeUsed(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		want    string
	}{
		{"too short", Options{Seconds: -1}, "seconds: is -1, must be between 1 and 600"},
		{"too long", Options{Seconds: 601}, "seconds: is 601"},
		{"too slow", Options{Rate: 99}, "rate: is 99 records a second, must be between 100 and 20000"},
		{"too fast", Options{Rate: 20_001}, "rate: is 20001"},
		{"two kinds of Redis", Options{RedisURL: "redis://127.0.0.1:1", Embedded: true}, "use one of them"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			said := new(transcript)
			tt.options.Out = said
			_, err := Run(t.Context(), tt.options)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if said.String() != "" {
				t.Errorf("it said %q", said)
			}
		})
	}
}

func TestARedisThatCannotBeUsed(t *testing.T) {
	tests := []struct{ name, url, want string }{
		{"no URL", "localhost", "demo: failed: the Redis URL cannot be read: it must be like redis://"},
		{"nobody there", "redis://127.0.0.1:1", "demo: failed: redis does not answer, check the URL and the server: "},
		{"a password", "redis://user:secret@127.0.0.1:notaport", "demo: failed: the Redis URL cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			said := new(transcript)
			result, err := Run(t.Context(), Options{RedisURL: tt.url, Out: said})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(result.String(), tt.want) || strings.Contains(said.String(), "secret") {
				t.Errorf("it said %q", said)
			}
		})
	}
}
