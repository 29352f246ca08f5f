package faultkit

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Slow skips the test in the quick run, where no processes are started.
func Slow(tb testing.TB) {
	tb.Helper()
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		tb.Skip("runs real processes: skipped in the quick run")
	}
}

// Asked skips what takes long or many processes unless variable is set in the
// environment, which the command does that how names.
func Asked(tb testing.TB, variable, how string) {
	tb.Helper()
	Slow(tb)
	if os.Getenv(variable) == "" {
		tb.Skip("a suite of its own: run it with " + how)
	}
}

// Need skips the test where one of the programs is missing, loudly; in CI it fails it.
func Need(tb testing.TB, programs ...string) {
	tb.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing(tb, notInstalled(program))
		}
	}
}

func notInstalled(program string) error {
	return fmt.Errorf("%s is not in PATH: run scripts/test-setup.sh", program)
}

// missing ends a test that lacks something.
func missing(tb testing.TB, what error) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatalf("%v, and in CI this test must run", what)
	}
	tb.Skipf("SKIPPED: %v, so NOTHING HERE WAS TESTED", what)
}
