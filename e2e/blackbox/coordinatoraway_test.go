package blackbox

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The coordinator is killed and comes back. Consumers read on until their lease
// ends and then stop by themselves; the producer goes on longer, until its
// routing lease ends, and then fails; when the coordinator is back, the
// consumers read what has gathered.
func TestTheCoordinatorIsAwayForAWhile(t *testing.T) {
	const (
		shards       = 4
		routingLease = 6 * time.Second
		slack        = 5 * time.Second // for a busy machine
	)
	redis := startRedis(t)
	c := startCoordinator(t, "--redis", redis.url, "--set", "coordinator.routing-lease="+routingLease.String())
	c.createStream(shards)
	k := tools{t: t, coordinators: []string{c.url}, redis: redis}
	j := newJournal(t)
	consumers := []*process{k.consume("first", j), k.consume("second", j)}
	eventually(t, startTimeout, "both consumers hold shards", func() bool {
		members, held := c.holders()
		return members == 2 && held == shards
	})
	produce := k.feed()
	eventually(t, startTimeout, "records flow", func() bool { return j.count() > 50 })

	c.proc.kill()
	killed, printed := time.Now(), j.count()
	eventually(t, lease, "records flow on while the leases hold", func() bool { return j.count() > printed+50 })

	eventually(t, lease+slack, "the consumers give up all shards", func() bool {
		lost := 0
		for _, consumer := range consumers {
			lost += strings.Count(consumer.log(), `"msg":"shard lost"`)
		}
		return lost == shards
	})
	for _, consumer := range consumers {
		consumer.expectLog("the lease ended: all reading stops until a coordinator answers")
	}
	readOn := j.lastWrite().Sub(killed)
	if readOn > lease {
		t.Errorf("a record came out %s after the coordinator was killed, when the leases of %s were over", readOn, lease)
	}
	atStop, stored := j.count(), redis.length(shards)
	eventually(t, slack, "the producer publishes on", func() bool { return redis.length(shards) > stored+50 })
	if now := j.count(); now != atStop {
		t.Errorf("%d records came out after the leases had ended", now-atStop)
	}

	if code := produce.wait(routingLease + slack); code != 1 {
		t.Errorf("rsc produce exited with %d, want 1", code)
	}
	failed := time.Since(killed)
	lines := produce.stopFeeding()
	produce.expectLog("ROUTING_EXPIRED: the routing lease is over and the coordinator could not renew it: publish again when a coordinator is reachable")
	published := redis.stored(shards)
	produce.expectLog(fmt.Sprintf("stored=%d uncertain=0", len(published)))
	for payload, times := range published {
		if times != 1 || lines[payload] != 1 {
			t.Errorf("stored %d times: %s", times, payload)
		}
	}

	c.restart()
	back := time.Now()
	eventually(t, lease+slack, "what has gathered comes out", func() bool { return j.take() == len(published) })
	resumed := time.Since(back)
	for _, consumer := range consumers {
		consumer.stop()
	}
	j.take()
	j.expectAll(published)
	j.expectOrder()
	t.Logf("after the kill consumers read on for %s of a lease of %s, and the producer gave up after %s (routing lease %s, renewed every third of it)",
		readOn.Round(time.Millisecond), lease, failed.Round(time.Millisecond), routingLease)
	t.Logf("after the restart all of the %d stored records were out within %s; duplicates=%d", len(published), resumed.Round(time.Millisecond), j.duplicates())
}
