package blackbox

import (
	"reflect"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// holding is what must not change about a member.
type holding struct {
	state       protocol.MemberState
	incarnation string
	epoch       protocol.Epoch
	shards      protocol.Shards
}

func (c *coordinator) holdings() map[string]holding {
	c.t.Helper()
	all := map[string]holding{}
	for id, m := range c.members() {
		all[id] = holding{m.State, m.Incarnation, m.MemberEpoch, m.GrantedAssignment}
	}
	return all
}

// Three coordinators share one Redis behind a load balancer that gives each
// request to another one. Killing one of them and starting it again ends no
// member, moves no shard, and repeats no record.
func TestACoordinatorOfThreeIsKilled(t *testing.T) {
	t.Parallel()
	const (
		shards = 6
		// Whatever ends because of a coordinator's absence has ended by then.
		long = lease + heartbeat + tick + 500*time.Millisecond
	)
	redis := startRedis(t, faultkit.Options{})
	var coordinators []*coordinator
	for _, id := range []string{"one", "two", "three"} {
		coordinators = append(coordinators, startCoordinator(t, "--redis", redis.url, "--id", id))
	}
	balancer := faultkit.Balance(t, "", coordinators[0].Addr, coordinators[1].Addr, coordinators[2].Addr)
	victim, survivor := coordinators[0], coordinators[1]
	survivor.CreateStream(stream, shards)
	k := tools{t: t, coordinators: []string{balancer.URL}, redis: redis}
	j := newJournal(t)
	consumers := []*faultkit.Process{k.consume("first", j), k.consume("second", j), k.consume("third", j)}
	faultkit.Eventually(t, startTimeout, "each consumer holds two shards and says so", func() bool {
		for _, m := range survivor.members() {
			if len(m.CurrentAssignment) != 2 || m.AckedEpoch != m.MemberEpoch {
				return false
			}
		}
		members, held := survivor.holders()
		return members == 3 && held == shards
	})
	said := map[*faultkit.Process]int{}
	for _, consumer := range consumers {
		said[consumer] = len(consumer.Log())
	}
	produce := k.feed()
	before := survivor.holdings()
	unchanged := func() bool {
		for _, c := range coordinators {
			if c.Proc.Runs() && !reflect.DeepEqual(c.holdings(), before) {
				t.Errorf("%s sees %v, it was %v", c.Addr, c.holdings(), before)
				return false
			}
		}
		return true
	}
	flows := func(when string) {
		t.Helper()
		sofar := j.count()
		faultkit.Eventually(t, startTimeout, "records flow "+when, func() bool { return j.count() > sofar+50 })
	}
	flows("at first")

	victim.Proc.Kill()
	flows("after the kill")
	during(t, long, "nothing changes after the kill", unchanged)
	servedBy := balancer.Served(0)
	victim.Restart()
	during(t, long, "nothing changes after the restart", unchanged)
	flows("after the restart")
	if balancer.Served(0) == servedBy {
		t.Error("the restarted coordinator was asked nothing")
	}

	lines := produce.stopFeeding()
	if code := produce.Wait(startTimeout); code != 0 {
		t.Errorf("rsc produce exited with %d", code)
	}
	faultkit.Eventually(t, startTimeout, "all lines come out", func() bool { return j.take() == len(lines) })
	for _, consumer := range consumers {
		consumer.ForbidLog(said[consumer], "the lease ended", "the coordinator ended this incarnation", "shard revoked", "shard lost")
		consumer.Stop(startTimeout)
	}
	j.take()
	j.expectAll(lines)
	j.expectOrder()
	if n := j.duplicates(); n > 0 {
		t.Errorf("%d records came out twice, although no shard moved", n)
	}
	t.Logf("%d records; requests answered: %d, %d and %d; members all the time: %v", len(lines),
		balancer.Served(0), balancer.Served(1), balancer.Served(2), before)
}
