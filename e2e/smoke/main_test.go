package smoke

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// root is the top of the repository, seen from this package.
var root = filepath.Join("..", "..")

func TestMain(m *testing.M) { os.Exit(rsctest.Main(m)) }

// asked skips what runs many processes unless it was asked for by this name.
func asked(t *testing.T, name, target string) {
	t.Helper()
	if os.Getenv("RSC_SMOKE") != name {
		t.Skipf("a suite of its own: run it with make %s", target)
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
