package consumer

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAwait: until done, and no longer than it may take.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		begin := time.Now()
		if await(done, time.Second) || time.Since(begin) != time.Second {
			t.Errorf("it gave up after %s, want a second", time.Since(begin))
		}
		begin = time.Now()
		time.AfterFunc(300*time.Millisecond, func() { close(done) })
		if !await(done, time.Second) || time.Since(begin) != 300*time.Millisecond {
			t.Errorf("it ended after %s, want 300 ms", time.Since(begin))
		}
		if !await(done, 0) {
			t.Error("what is done was waited for in vain")
		}
	})
}
