package reshard

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

const buildTimeout = 5 * time.Minute

// partVariable hands a process its part.
const partVariable = "RSC_RESHARD_PART"

// part is what a process of this suite does: members of a group, or a feed of records.
type part struct {
	Coordinators []string
	Addrs        []string
	Cluster      bool
	Stream       string
	// Journal is the file that it writes to.
	Journal string

	Members *membersPart
	Feed    *feedPart
}

// scratch is a folder for the whole run.
var scratch string

// TestMain runs the tests, or a part: the test binary is the program of those too.
func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // the client writes a line for each dial that fails
	if text := os.Getenv(partVariable); text != "" {
		os.Exit(partMain(text))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "rsc-reshard-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := os.RemoveAll(scratch); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// partMain is the program of a part: it goes on until SIGTERM.
func partMain(text string) int {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		log.Error("no part", "err", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	run := p.feed
	if p.Members != nil {
		run = p.members
	}
	if err := run(ctx, log); err != nil {
		log.Error("the part ended", "err", err)
		return 1
	}
	return 0
}

// start runs a part as a process.
func (p part) start(tb testing.TB, name string) *faultkit.Process {
	tb.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		tb.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return faultkit.Run(tb, name, []string{partVariable + "=" + string(text)}, program)
}

func (p *part) redis() redis.UniversalOptions {
	return redis.UniversalOptions{Addrs: p.Addrs, IsClusterMode: p.Cluster}
}

// long reports whether the tests run in their long form.
func long() bool { return os.Getenv("RSC_RESHARD") == "long" }

// either returns what goes for the short form, or for the long one.
func either[T any](short, whole T) T {
	if long() {
		return whole
	}
	return short
}

// asked skips what takes long or many processes unless it was asked for.
func asked(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		t.Skip("runs real processes: skipped in the quick run")
	}
	if os.Getenv("RSC_RESHARD") == "" {
		t.Skip("a suite of its own: run it with make reshard")
	}
}

// within fails the test when something took longer than it may. In the short form, which
// runs beside other work, ten times as much is let pass: it is the account that counts there.
func within(t *testing.T, what string, took, bound time.Duration) {
	t.Helper()
	if took > either(10*bound, bound) {
		t.Errorf("%s: %s, may take %s", what, took.Round(time.Millisecond), bound)
	}
}

// built builds the command once, as it would be released: outside the workspace, so with
// the versions that its own go.mod names.
var built = sync.OnceValues(func() (string, error) {
	ctx, done := context.WithTimeout(context.Background(), buildTimeout)
	defer done()
	path, err := filepath.Abs(filepath.Join(scratch, "rsc"))
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-tags", "nomsgpack", "-o", path, "./cmd/rsc")
	build.Dir = filepath.Join("..", "..", "coordinator")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
})
