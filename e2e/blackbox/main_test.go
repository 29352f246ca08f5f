package blackbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// root is the top of the repository, seen from this package.
var root = filepath.Join("..", "..")

const buildTimeout = 4 * time.Minute

// scratch is a folder for the whole run.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "rsc-blackbox-"); err != nil {
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

// built builds the command once, as it would be released: outside the
// workspace, so with the versions that its own go.mod names.
var built = sync.OnceValues(func() (string, error) {
	ctx, done := context.WithTimeout(context.Background(), buildTimeout)
	defer done()
	path := filepath.Join(scratch, "rsc")
	if here, err := filepath.Abs(path); err == nil {
		path = here
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/rsc")
	build.Dir = filepath.Join(root, "coordinator")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
})

// rsc returns the path of the command.
func rsc(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// need skips a test in the quick run, or where one of the programs is missing;
// in CI a missing program is a failure.
func need(t *testing.T, programs ...string) {
	t.Helper()
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		t.Skip("runs real processes: skipped in the quick run")
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not in PATH, and in CI this test must run", program)
		}
		t.Skipf("SKIPPED: %s is not in PATH, so NOTHING HERE WAS TESTED", program)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	const pause = 20 * time.Millisecond
	for deadline := time.Now().Add(within); !holds(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// during fails the test unless a condition holds all the time.
func during(t *testing.T, d time.Duration, what string, holds func() bool) {
	t.Helper()
	const pause = 100 * time.Millisecond
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(pause) {
		if !holds() {
			t.Fatalf("not all of %s: %s", d, what)
		}
	}
}
