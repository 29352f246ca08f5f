package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const buildTimeout = 5 * time.Minute

// scratch is a folder for the whole run.
var scratch string

// TestMain runs the tests, or members: the test binary is their program too.
func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // the client writes a line for each dial that fails
	if text := os.Getenv(planVariable); text != "" {
		os.Exit(membersMain(text))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "rsc-controlplane-"); err != nil {
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

// long reports whether the tests run in their long form.
func long() bool { return os.Getenv("RSC_CONTROLPLANE") == "long" }

// asked skips what takes long or many processes unless it was asked for.
func asked(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		t.Skip("runs real processes: skipped in the quick run")
	}
	if os.Getenv("RSC_CONTROLPLANE") == "" {
		t.Skip("a suite of its own: run it with make controlplane, make chaos or make soak")
	}
}

// minutes is how long the long form of a test goes on.
func minutes(t *testing.T, otherwise int64) time.Duration {
	t.Helper()
	return time.Duration(number(t, "RSC_MINUTES", otherwise)) * time.Minute
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		t.Fatalf("%s is %q, must be a number", name, text)
	}
	return n
}

// built builds the command once, as it would be released: outside the workspace, so
// with the versions that its own go.mod names.
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
