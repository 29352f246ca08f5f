package dataplane

import (
	"os"
	"testing"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// TestMain runs the tests, or a member: the test binary is the program of the
// members too.
func TestMain(m *testing.M) {
	faultkit.HushRedis()
	faultkit.Self(runMember)
	os.Exit(rsctest.Main(m))
}

// long reports whether scenarios run in their long form.
func long() bool { return os.Getenv("RSC_DATAPLANE") == "long" }

// asked skips what takes long or many processes unless it was asked for.
func asked(t *testing.T) {
	t.Helper()
	faultkit.Asked(t, "RSC_DATAPLANE", "make dataplane")
}
