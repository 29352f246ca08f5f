package rsctest

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

// buildTimeout is for a machine that has built nothing yet and does other things too.
const buildTimeout = 5 * time.Minute

// folder is where the command was built, empty as long as it was not.
var folder string

// Main runs the tests of a suite, removes what was built for them, and returns the
// code to exit with.
func Main(m *testing.M) int {
	code := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Program returns the path of the command, and builds it where that was not done yet.
// It is for the tests of a package two folders below the top of the repository, as all
// suites are.
func Program(tb testing.TB) string {
	tb.Helper()
	path, err := built()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// built builds the command as the image has it, and outside the workspace, so with the
// versions that its own go.mod names.
var built = sync.OnceValues(func() (path string, err error) {
	if folder, err = os.MkdirTemp("", "rsc-e2e-"); err != nil {
		return "", err
	}
	if path, err = filepath.Abs(filepath.Join(folder, "rsc")); err != nil {
		return "", err
	}
	ctx, done := context.WithTimeout(context.Background(), buildTimeout)
	defer done()
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "nomsgpack", "-ldflags", "-s -w", "-o", path, "./cmd/rsc")
	build.Dir = filepath.Join("..", "..", "coordinator")
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the command: %w\n%s", err, out)
	}
	return path, nil
})
