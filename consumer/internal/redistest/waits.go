package redistest

import (
	"testing"
	"time"
)

// Patience bounds the waits of tests for what must come, on the slowest machine;
// nothing waits that long.
const Patience = time.Minute

// waitFor waits until holds.
func waitFor(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(Patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("in vain: %s", what)
		}
	}
}
