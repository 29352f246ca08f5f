package blackbox

import (
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// Redis stands still for longer than the leases last, and later it is killed and
// started again with what it has on disk. Nobody has to be restarted, and what
// was acknowledged is there.
func TestRedisIsAwayForAWhile(t *testing.T) {
	const (
		shards = 4
		frozen = lease + time.Second
		down   = time.Second
		within = 20 * time.Second
	)
	redis := startRedis(t, faultkit.Options{Durable: true})
	c := startCoordinator(t, "--redis", redis.url)
	c.CreateStream(stream, shards)
	k := tools{t: t, coordinators: []string{c.URL}, redis: redis}
	j := newJournal(t)
	consumers := []*faultkit.Process{k.consume("first", j), k.consume("second", j)}
	faultkit.Eventually(t, startTimeout, "both consumers hold shards", func() bool {
		members, held := c.holders()
		return members == 2 && held == shards
	})
	// A lost answer leaves open whether the line is stored; it is sent again.
	produce := k.feed("--retry-uncertain")
	flows := func(when string) time.Duration {
		t.Helper()
		began, sofar := time.Now(), j.take()
		faultkit.Eventually(t, within, "new records flow "+when, func() bool { return j.take() > sofar+100 })
		return time.Since(began)
	}
	flows("at first")

	redis.Pause()
	time.Sleep(frozen) // the event itself, nothing is waited for
	redis.Resume()
	afterFreeze := flows("after Redis stood still")

	redis.Kill()
	time.Sleep(down) // as above
	redis.Restart()
	afterRestart := flows("after Redis was restarted")

	lines := produce.stopFeeding()
	if code := produce.Wait(within); code != 0 {
		t.Errorf("rsc produce exited with %d", code)
	}
	stored := redis.stored(shards)
	faultkit.Eventually(t, within, "everything comes out", func() bool { return j.take() >= len(stored) })
	faultkit.Eventually(t, within, "everything is acknowledged", func() bool { return redis.unacknowledged(shards) == 0 })
	for _, consumer := range consumers {
		consumer.Stop(startTimeout)
	}
	c.Proc.Stop(startTimeout)
	j.take()
	for l := range lines {
		if stored[l] == 0 {
			t.Errorf("rsc produce says that it is stored, and it is not in Redis: %s", l)
		}
	}
	lost := j.expectAll(stored)
	j.expectOrder()
	t.Logf("lines=%d stored=%d printed=%d duplicates=%d lost=%d", len(lines), len(stored), j.lines, j.duplicates(), lost)
	t.Logf("100 new records were out %s after a stand-still of %s, %s after a restart", afterFreeze.Round(time.Millisecond), frozen, afterRestart.Round(time.Millisecond))
}
