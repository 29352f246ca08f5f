package faultkit

import (
	"testing"
	"time"
)

// Eventually waits until a condition holds, and fails the test when it does not
// come within a time.
func Eventually(tb testing.TB, within time.Duration, what string, holds func() bool) {
	tb.Helper()
	const pause = 10 * time.Millisecond
	for deadline := time.Now().Add(within); !holds(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", within, what)
		}
	}
}

// Report fails the test for each of all, and shows the first ten.
func Report[T any](tb testing.TB, what string, all []T) {
	tb.Helper()
	const most = 10
	for i, one := range all {
		if i == most {
			tb.Errorf("%s: and %d more", what, len(all)-i)
			return
		}
		tb.Errorf("%s: %v", what, one)
	}
}
