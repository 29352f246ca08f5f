package blackbox

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// root is the top of the repository, seen from this package.
var root = filepath.Join("..", "..")

func TestMain(m *testing.M) {
	faultkit.HushRedis()
	os.Exit(rsctest.Main(m))
}

// need skips a test in the quick run, or where one of the programs is missing;
// in CI a missing program is a failure.
func need(t *testing.T, programs ...string) {
	t.Helper()
	faultkit.Slow(t)
	faultkit.Need(t, programs...)
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

// newFile creates a file to append to. Every process that gets it appends its
// own writes whole, so the order in the file is the order in which they were
// made, whoever made them.
func newFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), name), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}
