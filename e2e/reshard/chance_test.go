package reshard

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// chanceLease is the routing lease here: short, so that there can be many changes.
const chanceLease = 2 * time.Second

// TestChance changes the count of a stream again and again, to what chance says, kills
// coordinators at any moment and takes some changes back. RSC_SEED repeats the choices.
func TestChance(t *testing.T) {
	asked(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("RSC_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("RSC_SEED: %v", err)
		}
	}
	t.Logf("seed %d: repeat with RSC_SEED", seed)
	c := &chance{
		world: newWorld(t, faultkit.Cluster, "--set", "coordinator.routing-lease="+chanceLease.String()),
		rand:  rand.New(rand.NewPCG(seed, 0)), rate: 500, count: cycleFirst,
	}
	c.fleet.createStream(stream, c.count, fast, slow)
	c.join(fast, 0)
	c.join(slow, 2*time.Duration(mainFeeds*64)*time.Second/time.Duration(c.rate)/2)
	c.feedAll(c.rate)
	c.flows(c.rate)
	for range either(3, 40) {
		c.round()
	}
	if c.count == 0 {
		c.change(cycleFirst)
	}
	c.stop(mainFeed(0), mainFeed(1))
	c.handleAll()
	c.stop(fast, slow)
	c.wantPresent(c.count, cycleHighest, "at the end")
	t.Logf("chance: seed=%d server=%s stored=%d lost=%d+%d duplicates=%d+%d changes=%d taken_back=%d kill_9=%d nameless=%s",
		seed, c.server.Kind.Name, c.account.storedCount(), len(c.account.lost(fast)), len(c.account.lost(slow)),
		c.account.duplicates(fast), c.account.duplicates(slow), c.changes, c.takenBack, c.kills, c.worst.Round(time.Millisecond))
	within(t, "a state lasted without a name for what it waited for", c.worst, nameless)
}

type chance struct {
	*world
	rand *rand.Rand
	rate int
	// count is what the stream has, last the change that brought it.
	count int
	last  string

	changes, takenBack int
}

// round changes the count once, with a kill on the way.
func (c *chance) round() {
	c.t.Helper()
	to := c.rand.IntN(cycleHighest + 1)
	if to == c.count || c.rand.IntN(8) == 0 {
		to = 0
	}
	if to == c.count {
		to = cycleFirst
	}
	c.change(to)
}

// change changes the count to another one.
func (c *chance) change(to int) {
	c.t.Helper()
	from := c.count
	victim := c.fleet[c.rand.IntN(len(c.fleet))]
	proc, when := victim.Proc, time.Duration(c.rand.Int64N(int64(chanceLease+time.Second)))
	if c.rand.IntN(2) == 0 {
		when /= 50 // while the first steps are taken
	}
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		time.Sleep(when)
		proc.Kill()
	}()
	id := c.ask(to)
	if c.rand.IntN(4) == 0 {
		time.Sleep(time.Duration(c.rand.Int64N(int64(chanceLease + time.Second))))
		// It may be done by now, and then it is refused; or the answer may be lost.
		c.fleet.ask(http.MethodPost, streamPath(stream)+"/migrations/"+id+"/rollback", protocol.Order{RequestedBy: "test", Reason: "taken back"})
	}
	<-dead
	c.kills++
	victim.Restart()
	if c.rand.IntN(6) == 0 {
		c.killAll()
	}
	m := c.await(id, "it is over", func(m *protocol.Migration) bool { return closed(m.State) })
	c.changes++
	c.last, c.count = id, to
	if m.State == protocol.MigrationRolledBack {
		c.takenBack++
		c.count = from
	}
	want := make([]int, c.count)
	for i := range want {
		want[i] = i
	}
	c.until("just the shards that it has exist", func() bool { return slices.Equal(c.present(cycleHighest), want) })
	c.t.Logf("from %d to %d, %s was killed after %s: %s", from, to, victim.ID, when.Round(time.Millisecond), m.State)
	if c.count > 0 {
		c.flows(c.rate / 4)
	}
}

// ask has the count changed, and asks again until it is written down.
func (c *chance) ask(to int) (id string) {
	c.t.Helper()
	c.until("the change is written down", func() bool {
		status, body := c.fleet.ask(http.MethodPost, streamPath(stream)+"/scale", scaleTo(to))
		var scaled protocol.StreamScaled
		if status/100 == 2 && json.Unmarshal(body, &scaled) == nil {
			id = scaled.Migrations[0].ReshardingID
		}
		if status, body = c.fleet.ask(http.MethodGet, streamPath(stream)+"/migrations", nil); status != http.StatusOK {
			return false
		}
		// Where the answer was lost the change may be under way already, or be over.
		var list protocol.MigrationList
		if err := json.Unmarshal(body, &list); err != nil {
			c.t.Fatalf("migrations: %s: %v", body, err)
		}
		if len(list.Migrations) > 0 && list.Migrations[0].ReshardingID != c.last && list.Migrations[0].ToShardCount == to {
			id = list.Migrations[0].ReshardingID
		}
		return id != "" && id != protocol.NoMigration
	})
	return id
}
