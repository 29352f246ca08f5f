package dataplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const buildTimeout = 5 * time.Minute

// scratch is a folder for the whole run.
var scratch string

// TestMain runs the tests, or a member: the test binary is the program of the
// members too.
func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // the client writes a line for each dial that fails
	if text := os.Getenv(planVariable); text != "" {
		os.Exit(memberMain(text))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "rsc-dataplane-"); err != nil {
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

// long reports whether scenarios run in their long form.
func long() bool { return os.Getenv("RSC_DATAPLANE") == "long" }

// asked skips what takes long or many processes unless it was asked for.
func asked(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		t.Skip("runs real processes: skipped in the quick run")
	}
	if os.Getenv("RSC_DATAPLANE") == "" {
		t.Skip("a suite of its own: run it with make dataplane")
	}
}

// built builds the command once, as it would be released: outside the
// workspace, so with the versions that its own go.mod names.
var built = sync.OnceValues(func() (string, error) {
	ctx, done := context.WithTimeout(context.Background(), buildTimeout)
	defer done()
	path, err := filepath.Abs(filepath.Join(scratch, "rsc"))
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/rsc")
	build.Dir = filepath.Join("..", "..", "coordinator")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
})
