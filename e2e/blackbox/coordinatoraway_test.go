package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// The coordinator is killed and comes back. Consumers read on until their lease
// ends and then stop by themselves; the producer goes on longer, until its
// routing lease ends, and then fails; when the coordinator is back, the
// consumers read what has gathered.
func TestTheCoordinatorIsAwayForAWhile(t *testing.T) {
	t.Parallel()
	const (
		shards = 4
		// A third of it may be over at the kill, and what is left is longer than the lease.
		routingLease = 3 * lease
	)
	redis := startRedis(t, faultkit.Options{})
	c := startCoordinator(t, "--redis", redis.url, "--set", "coordinator.routing-lease="+routingLease.String())
	c.CreateStream(stream, shards)
	k := tools{t: t, coordinators: []string{c.URL}, redis: redis}
	j := newJournal(t)
	consumers := []*faultkit.Process{k.consume("first", j), k.consume("second", j)}
	faultkit.Eventually(t, startTimeout, "both consumers hold shards", func() bool {
		members, held := c.holders()
		return members == 2 && held == shards
	})
	produce := k.feed()
	faultkit.Eventually(t, startTimeout, "records flow", func() bool { return j.count() > 50 })

	c.Proc.Kill()
	killed := time.Now()
	faultkit.Eventually(t, startTimeout, "the consumers give up all shards", func() bool {
		lost := 0
		for _, consumer := range consumers {
			lost += strings.Count(consumer.Log(), `"msg":"shard lost"`)
		}
		return lost == shards
	})
	for _, consumer := range consumers {
		consumer.ExpectLog("the lease ended: all reading stops until a coordinator answers")
	}
	stopped := j.lastWrite()
	readOn := stopped.Sub(killed)
	if readOn > lease {
		t.Errorf("a record came out %s after the coordinator was killed, when the leases of %s were over", readOn, lease)
	}
	atStop := j.count()

	if code := produce.Wait(routingLease + startTimeout); code != 1 {
		t.Errorf("rsc produce exited with %d, want 1", code)
	}
	failed := time.Since(killed)
	if now := j.count(); now != atStop {
		t.Errorf("%d records came out after the leases had ended", now-atStop)
	}
	// Of what was stored since the kill, some came out before the leases ended; the rest
	// was stored after that.
	whileHeld, after := redis.since(shards, killed), redis.since(shards, stopped)
	if whileHeld -= after; whileHeld < 50 {
		t.Errorf("%d records were stored after the kill while the leases held, want 50 at least", whileHeld)
	}
	if read := atStop - (redis.length(shards) - redis.since(shards, killed)); read < 50 {
		t.Errorf("%d records came out after the kill while the leases held, want 50 at least", read)
	}
	if after < 50 {
		t.Errorf("%d records were stored after the leases had ended, want 50 at least", after)
	}
	lines := produce.stopFeeding()
	produce.ExpectLog("ROUTING_EXPIRED: the routing lease is over and the coordinator could not renew it: publish again when a coordinator is reachable")
	published := redis.stored(shards)
	produce.ExpectLog(fmt.Sprintf("stored=%d uncertain=0", len(published)))
	for payload, times := range published {
		if times != 1 || lines[payload] != 1 {
			t.Errorf("stored %d times: %s", times, payload)
		}
	}

	c.Restart()
	back := time.Now()
	faultkit.Eventually(t, lease+startTimeout, "what has gathered comes out", func() bool { return j.take() == len(published) })
	resumed := time.Since(back)
	for _, consumer := range consumers {
		consumer.Stop(startTimeout)
	}
	j.take()
	j.expectAll(published)
	j.expectOrder()
	t.Logf("after the kill consumers read on for %s of a lease of %s, and the producer gave up after %s (routing lease %s, renewed every third of it)",
		readOn.Round(time.Millisecond), lease, failed.Round(time.Millisecond), routingLease)
	t.Logf("after the restart all of the %d stored records were out within %s; duplicates=%d", len(published), resumed.Round(time.Millisecond), j.duplicates())
}
