package reshard

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// The shard counts of the cycle, and the one that no shard is beyond.
const (
	cycleFirst, cycleHighest, cycleLow = 8, 16, 4
)

// TestCycle changes the count of a stream under load, out, in, to zero and back.
func TestCycle(t *testing.T) {
	asked(t)
	t.Parallel()
	for _, kind := range []faultkit.Kind{faultkit.Redis7, faultkit.Cluster} {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			c := &cycle{world: newWorld(t, kind), rate: either(1000, 5000)}
			for _, step := range []struct {
				name string
				run  func()
			}{{"8", c.open}, {"to 16", c.out}, {"to 4", c.in}, {"to 0", c.zero}, {"to 8", c.back}, {"the account", c.end}} {
				began := time.Now()
				step.run()
				t.Logf("%s: %s", step.name, time.Since(began).Round(time.Millisecond))
			}
		})
	}
}

// cycle is a run of TestCycle.
type cycle struct {
	*world
	rate  int
	front *front
	// backlog is how many records the slow group had before it when shards were removed,
	// at most.
	backlog int
	// behind counts the records that a producer with an old route has stored in shards
	// that were removed already.
	behind int
	// stopped is when the producers had nowhere to write any more, resumed when all of
	// them wrote again, and took how long after the answer that was.
	stopped, resumed time.Time
	took             time.Duration
}

// open makes the stream, with groups and entries that make Redis lose count, and lets
// records flow.
func (c *cycle) open() {
	c.fleet.createStream(stream, cycleFirst, fast, slow)
	c.idle(0, cycleFirst)
	for shard := range cycleFirst {
		c.confuse(shard)
	}
	c.join(fast, 0)
	c.until("Redis is wrong about what is left", func() bool { return c.wrongLag(1) && !c.behindIn(1) })
	c.join(slow, 2*time.Duration(mainFeeds*64)*time.Second/time.Duration(c.rate)/2)
	c.front = newFront(c.t, c.fleet)
	c.feedAll(c.rate)
	c.feed("stale", sideRate, c.front.url)
	c.feed("sleeper", sideRate, c.fleet.urls()...)
	c.flows(c.rate)
}

// confuse adds entries, not ours, after which Redis is wrong about the lag of a shard's
// groups, or does not know it.
func (c *cycle) confuse(shard int) {
	add := func() any { return c.redis("XADD", key(shard), "*", "not", "ours") }
	first := add()
	for range 10 {
		add()
	}
	gone := add()
	add()
	if shard%2 == 0 {
		c.redis("XDEL", key(shard), gone)
		return
	}
	// A trim that overtakes groups which have read something stays in their count.
	for _, group := range []string{fast, slow} {
		c.redis("XREADGROUP", "GROUP", group, "test", "COUNT", 1, "STREAMS", key(shard), ">")
		c.redis("XACK", key(shard), group, first)
	}
	c.redis("XTRIM", key(shard), "MAXLEN", 1)
}

// idle makes the consumer group that nobody reads with.
func (c *cycle) idle(first, end int) {
	for shard := first; shard < end; shard++ {
		c.redis("XGROUP", "CREATE", key(shard), idle, "0")
	}
}

// wrongLag reports whether Redis says that the fast group is behind in a shard.
func (c *cycle) wrongLag(shard int) bool {
	for _, g := range c.server.Client.XInfoGroups(c.t.Context(), key(shard)).Val() {
		if g.Name == fast {
			return g.Lag > 0
		}
	}
	return false
}

// behindIn reports whether the fast group is behind in a shard.
func (c *cycle) behindIn(shard int) bool {
	for _, g := range c.server.Client.XInfoGroups(c.t.Context(), key(shard)).Val() {
		if g.Name == fast {
			return g.Pending > 0 || len(c.server.Client.XRangeN(c.t.Context(), key(shard), "("+g.LastDeliveredID, "+", 1).Val()) > 0
		}
	}
	return true
}

// out adds shards; a coordinator is killed in PREPARING and in ACTIVE.
func (c *cycle) out() {
	c.front.cut.Store(true)
	taken := cycleFirst + rand.IntN(cycleHighest-cycleFirst)
	id := c.refuse(cycleHighest, taken)
	m := c.await(id, "it says why it is not prepared", func(m *protocol.Migration) bool {
		return slices.ContainsFunc(m.BlockedBy, func(b protocol.Blocker) bool { return b.Kind == protocol.BlockedByProvisioning })
	})
	if m.State != protocol.MigrationPreparing {
		c.t.Errorf("the change is %s, want PREPARING", m.State)
	}
	c.kill(c.fleet[0])
	c.redis("DEL", key(taken))
	c.awaitActive(id)
	c.kill(c.fleet[1])
	c.until("records are stored in the added shards", func() bool {
		c.account.take()
		return c.account.feeds[mainFeed(0)].storedIn(cycleFirst, cycleHighest, time.Time{}) > 0
	})
	c.idle(cycleFirst, cycleHighest)
	c.awaitState(id, protocol.MigrationDeprecated)
	c.front.cut.Store(false)
	c.wantPresent(cycleHighest, 2*cycleHighest, "after 8 to 16")
	c.flows(c.rate)
}

// in removes shards. A coordinator is killed while it is asked to, and others in ACTIVE
// and in DRAINING; one producer goes on with the old route, and another sleeps through it.
func (c *cycle) in() {
	c.front.cut.Store(true)
	c.procs["sleeper"].Pause()
	c.lag()
	id := c.askAndKill(cycleLow)
	switched := time.Now()
	c.awaitActive(id)
	c.kill(c.fleet[1])
	c.awaitState(id, protocol.MigrationDraining)
	c.kill(c.fleet[2])
	c.front.cut.Store(false)
	m := c.awaitOnlyIdle(id)
	if m.Draining == 0 || m.BlockedBy[0].Kind != protocol.BlockedByBacklog || m.BlockedBy[0].Unread == 0 || m.BlockedBy[0].NextID == "" {
		c.t.Errorf("%d shards are drained, blocked by %+v", m.Draining, m.BlockedBy[0])
	}
	c.ignoreIdle()
	c.awaitState(id, protocol.MigrationDeprecated)
	c.wantPresent(cycleLow, cycleHighest, "after 16 to 4")
	c.late(cycleLow, cycleHighest)
	c.procs["sleeper"].Resume()
	c.account.take()
	c.behind += c.account.feeds["stale"].storedIn(cycleLow, cycleHighest, switched)
	c.flows(c.rate)
}

// lag notes what the slow group has before it.
func (c *cycle) lag() {
	c.account.take()
	c.backlog = max(c.backlog, len(c.account.lost(slow)))
}

// askAndKill asks a coordinator for another count and kills it meanwhile, and asks
// another one if it was not written down.
func (c *cycle) askAndKill(to int) (id string) {
	victim := c.fleet[0]
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		time.Sleep(rand.N(20 * time.Millisecond))
		victim.Proc.Kill()
	}()
	victim.Call(http.MethodPost, streamPath(stream)+"/scale", scaleTo(to)) // the answer may be lost
	<-killed
	c.kills++
	victim.Restart()
	if m := c.fleet.open(stream); m.ToShardCount == to {
		return m.ReshardingID
	}
	return c.fleet.scale(stream, to)
}

// late writes as a producer does that comes too late, and finds nothing.
func (c *cycle) late(first, end int) {
	for shard := first; shard < end; shard++ {
		if id := c.redis("XADD", key(shard), "NOMKSTREAM", "*", "too", "late"); id != nil {
			c.t.Errorf("a record was stored in shard %d, which is removed", shard)
		}
	}
}

// zero removes all shards; all coordinators are killed at once while they drain.
func (c *cycle) zero() {
	c.front.cut.Store(true)
	c.stopped = time.Now()
	c.lag()
	id := c.fleet.scale(stream, 0)
	c.until("the producers say that there are no shards", func() bool {
		c.account.take()
		for i := range mainFeeds {
			if w := c.account.feeds[mainFeed(i)].without; len(w) == 0 || w[len(w)-1].Before(c.stopped) {
				return false
			}
		}
		return true
	})
	c.awaitState(id, protocol.MigrationDraining)
	c.killAll()
	c.front.cut.Store(false)
	c.awaitOnlyIdle(id)
	c.ignoreIdle()
	c.awaitState(id, protocol.MigrationDeprecated)
	c.wantPresent(0, cycleHighest, "after 4 to 0")
	c.late(0, cycleHighest)
	c.account.take()
	c.behind += c.account.feeds["stale"].storedIn(0, cycleLow, c.stopped)
}

// back adds shards again, and looks how soon all producers write.
func (c *cycle) back() {
	asked := time.Now()
	id := c.fleet.scale(stream, cycleFirst)
	answered := time.Now()
	for i := range mainFeeds {
		f := c.account.feeds[mainFeed(i)]
		c.until("records flow again", func() bool {
			c.account.take()
			return !f.firstStored(asked).IsZero()
		})
		first := f.firstStored(asked)
		c.took = max(c.took, first.Sub(answered))
		if first.After(c.resumed) {
			c.resumed = first
		}
	}
	c.kill(c.fleet[rand.IntN(len(c.fleet))])
	c.awaitState(id, protocol.MigrationDeprecated)
	c.flows(c.rate)
}

// end stops the feeds, waits for the last record, and draws up the account.
func (c *cycle) end() {
	c.stop(mainFeed(0), mainFeed(1), "stale", "sleeper")
	c.handleAll()
	c.stop(fast, slow)
	c.wantPresent(cycleFirst, cycleHighest, "at the end")
	for stay := time.Now().Add(either(2*time.Second, time.Minute)); time.Now().Before(stay); time.Sleep(time.Second) {
		c.wantPresent(cycleFirst, cycleHighest, "a while after the end")
	}
	unknown, refused := 0, 0
	var pauses []time.Duration
	for name, f := range c.account.feeds {
		unknown, refused = unknown+f.unknown, refused+f.refused
		if name != "stale" && name != "sleeper" {
			pauses = append(pauses, f.pauses([2]time.Time{c.stopped, c.resumed})...)
		}
	}
	slices.Sort(pauses)
	// In the short form the machine may stand still for a part of the time.
	share := either(0.9, 0.99)
	usual, most := quantile(pauses, share), quantile(pauses, 1)
	c.t.Logf("cycle: server=%s stored=%d lost=%d+%d duplicates=%d+%d unknown=%d refused=%d kill_9=%d backlog=%d old_route=%d pause_p%.0f=%s pause_max=%s resumed=%s nameless=%s",
		c.server.Kind.Name, c.account.storedCount(), len(c.account.lost(fast)), len(c.account.lost(slow)), c.account.duplicates(fast), c.account.duplicates(slow),
		unknown, refused, c.kills, c.backlog, c.behind, 100*share, usual, most, c.took.Round(time.Millisecond), c.worst.Round(time.Millisecond))
	within(c.t, fmt.Sprintf("what was due waited for the producer, in %.0f of 100", 100*share), usual, 50*time.Millisecond)
	within(c.t, "publishing went on after the count was above zero", c.took, time.Second)
	within(c.t, "a state lasted without a name for what it waited for", c.worst, nameless)
	if c.backlog == 0 {
		c.t.Error("the slow group had nothing before it when shards were removed")
	}
	if c.behind == 0 {
		c.t.Error("no producer has used an old route")
	}
	if refused > 0 {
		c.t.Errorf("%d records were given up", refused)
	}
}
