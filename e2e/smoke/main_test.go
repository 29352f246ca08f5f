package smoke

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

const buildTimeout = 5 * time.Minute

// scratch is a folder for the whole run.
var scratch string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "rsc-smoke-"); err != nil {
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

// built builds the command once, as the image has it.
var built = sync.OnceValues(func() (string, error) {
	ctx, done := context.WithTimeout(context.Background(), buildTimeout)
	defer done()
	path, err := filepath.Abs(filepath.Join(scratch, "rsc"))
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-tags", "nomsgpack", "-ldflags", "-s -w", "-o", path, "./cmd/rsc")
	build.Dir = filepath.Join(root, "coordinator")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
})

// asked skips what runs many processes unless it was asked for by this name.
func asked(t *testing.T, name, target string) {
	t.Helper()
	if os.Getenv("RSC_SMOKE") != name {
		t.Skipf("a suite of its own: run it with make %s", target)
	}
}

// need skips a test where one of the programs is missing, loudly; in CI it fails
// it.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not in PATH, and in CI this test must run: scripts/test-setup.sh installs it", program)
		}
		t.Skipf("SKIPPED: %s is not in PATH, so NOTHING HERE WAS TESTED: scripts/test-setup.sh installs it", program)
	}
}

// patience bounds the waits of these suites: a lease, a scrape and a slow machine.
const patience = 90 * time.Second

// eventually waits until a condition holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	const pause = 200 * time.Millisecond
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// read returns the content of a file of the repository.
func read(tb testing.TB, path string) []byte {
	tb.Helper()
	content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		tb.Fatal(err)
	}
	return content
}
