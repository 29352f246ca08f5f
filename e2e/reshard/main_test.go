package reshard

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// part is what a process of this suite does: members of a group, or a feed of records.
type part struct {
	Coordinators []string
	Addrs        []string
	Cluster      bool
	Stream       string
	// Journal is the file that it writes to.
	Journal string

	Members *membersPart
	Feed    *feedPart
}

// TestMain runs the tests, or a part: the test binary is the program of those too.
func TestMain(m *testing.M) {
	faultkit.HushRedis()
	faultkit.Self(runPart)
	os.Exit(rsctest.Main(m))
}

// runPart is the program of a part: it goes on until SIGTERM.
func runPart(ctx context.Context, p part, log *slog.Logger) error {
	if p.Members != nil {
		return p.members(ctx, log)
	}
	return p.feed(ctx, log)
}

func (p part) redis() redis.UniversalOptions {
	return redis.UniversalOptions{Addrs: p.Addrs, IsClusterMode: p.Cluster}
}

// long reports whether the tests run in their long form.
func long() bool { return os.Getenv("RSC_RESHARD") == "long" }

// either returns what goes for the short form, or for the long one.
func either[T any](short, whole T) T {
	if long() {
		return whole
	}
	return short
}

// asked skips what takes long or many processes unless it was asked for.
func asked(t *testing.T) {
	t.Helper()
	faultkit.Asked(t, "RSC_RESHARD", "make reshard")
}

// within fails the test when something took longer than it may. In the short form, which
// runs beside other work, ten times as much is let pass: it is the account that counts there.
func within(t *testing.T, what string, took, bound time.Duration) {
	t.Helper()
	if took > either(10*bound, bound) {
		t.Errorf("%s: %s, may take %s", what, took.Round(time.Millisecond), bound)
	}
}
