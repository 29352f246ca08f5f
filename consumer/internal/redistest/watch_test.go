package redistest

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestAWatchCountsWhatTheProcessHad: while it is busy as ever it goes like a clock;
// of a while in which the process stood still it counts a tick.
func TestAWatchCountsWhatTheProcessHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := StartWatch(t)
		time.Sleep(time.Second)
		synctest.Wait()
		if ran, stood := w.Ran(), w.Stood(); ran != time.Second || stood != 0 {
			t.Errorf("in a second it counted %s, and left out %s", ran, stood)
		}
		w.mu.Lock()
		w.count(w.last.Add(3 * time.Second))
		w.last = w.last.Add(-3 * time.Second)
		w.mu.Unlock()
		if ran, stood := w.Ran(), w.Stood(); ran != time.Second+mostTick || stood != 3*time.Second-mostTick {
			t.Errorf("after 3 s without a tick it has counted %s, and left out %s", ran, stood)
		}
	})
}
