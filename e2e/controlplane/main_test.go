package controlplane

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// TestMain runs the tests, or members: the test binary is their program too.
func TestMain(m *testing.M) {
	faultkit.HushRedis()
	faultkit.Self(runMembers)
	os.Exit(rsctest.Main(m))
}

// long reports whether the tests run in their long form.
func long() bool { return os.Getenv("RSC_CONTROLPLANE") == "long" }

// asked skips what takes long or many processes unless it was asked for.
func asked(t *testing.T) {
	t.Helper()
	faultkit.Asked(t, "RSC_CONTROLPLANE", "make controlplane, make chaos or make soak")
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
