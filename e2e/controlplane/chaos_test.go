package controlplane

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// hopeless is how long is waited for a group that is late, to say how late.
const hopeless = 2 * time.Minute

var (
	// standstill is for how long the machine may stand still in the short form, on top of
	// what is allowed.
	standstill = map[bool]time.Duration{true: 0, false: 10 * time.Second}[long()]
	// inOrder is how long it may take after the last fault until the group is in order,
	// corrected is the same where the store lost writes.
	inOrder   = lease + 2*time.Second + standstill
	corrected = 2*lease + 3*time.Second + standstill
)

// TestChaosOnCluster: three coordinators share a Redis Cluster and members know all
// three, while coordinators, members and masters are killed, stand still and are cut
// off, for RSC_MINUTES.
func TestChaosOnCluster(t *testing.T) {
	asked(t)
	t.Parallel()
	w := startOn(t, faultkit.Cluster)
	c := newChaos(w, clusterFaults)
	w.populate(processCount)
	c.open()
	if long() {
		c.play(minutes(t, 5))
	} else {
		c.round([]string{killCoordinator, hushCoordinator}, nil, "")
		c.round([]string{cutCoordinator}, []string{killMembers, pauseMembers}, killMaster)
		c.round([]string{pauseCoordinator}, []string{leaveMembers}, isolateMaster)
	}
	c.close()
}

// TestChaosBehindABalancer: the same on one Redis, which loses what it held, with the
// coordinators behind a balancer that gives each request to another one.
func TestChaosBehindABalancer(t *testing.T) {
	asked(t)
	t.Parallel()
	w := startOn(t, faultkit.Redis7)
	balancer := faultkit.Balance(t, "/health/ready", w.coordinators[0].Addr, w.coordinators[1].Addr, w.coordinators[2].Addr)
	w.urls = []string{balancer.URL}
	c := newChaos(w, serverFaults)
	w.populate(processCount)
	c.open()
	if long() {
		c.play(minutes(t, 5))
	} else {
		c.round([]string{stopCoordinator, cutCoordinator}, nil, "")
		c.round([]string{pauseCoordinator}, []string{killMembers}, oldRedis)
		c.round([]string{killCoordinator}, []string{leaveMembers}, emptyRedis)
	}
	c.close()
}

// chaos plays rounds of faults. After each one all is waited for to be in order
// again, and judged.
type chaos struct {
	*world

	seed   int64
	chance *rand.Rand
	// coordinatorDeck and the others give the faults of the long form.
	coordinatorDeck, memberDeck, redisDeck, thirds *deck

	rounds int
	counts map[string]int
	// slowest and slowestCorrected are the longest times until all was in order.
	slowest, slowestCorrected time.Duration
	// losses counts the shards that members lost, of which excused for what was done to
	// them, and bySore for a fault of Redis.
	excused, bySore int
	late            int
}

func newChaos(w *world, redisFaults []string) *chaos {
	w.t.Helper()
	seed := number(w.t, "RSC_SEED", time.Now().UnixNano())
	w.t.Logf("seed %d: repeat with RSC_SEED", seed)
	c := &chaos{world: w, seed: seed, chance: rand.New(rand.NewPCG(uint64(seed), 0)), counts: map[string]int{}}
	c.coordinatorDeck = &deck{cards: coordinatorFaults, chance: c.chance}
	c.memberDeck = &deck{cards: memberFaults, chance: c.chance}
	c.redisDeck = &deck{cards: redisFaults, chance: c.chance}
	c.thirds = &deck{cards: []string{"0", "1", "2"}, chance: c.chance}
	return c
}

// open waits for the members to share the shards at first.
func (c *chaos) open() {
	c.t.Helper()
	took := c.settle(startTimeout)
	c.t.Logf("%d members of %d processes share %d shards after %s", len(c.alive()), len(c.processes), len(c.ledger.spans), took.Round(time.Millisecond))
}

// play plays rounds until the time is over and every fault has happened.
func (c *chaos) play(length time.Duration) {
	c.t.Helper()
	all := len(c.coordinatorDeck.cards) + len(memberFaults) + len(c.redisDeck.cards)
	for begin := time.Now(); time.Since(begin) < length || len(c.counts) < all; {
		var onC, onM []string
		onR := ""
		switch c.chance.IntN(3) {
		case 0: // coordinators alone
			onC = c.some(c.coordinatorDeck, 1)
		case 1: // no fault of the store
			onC, onM = c.some(c.coordinatorDeck, 0), c.some(c.memberDeck, 1)
		default:
			onC, onM = c.some(c.coordinatorDeck, 0), c.some(c.memberDeck, 0)
			if len(c.redisDeck.cards) > 0 {
				onR = c.redisDeck.draw()
			}
		}
		c.round(onC, onM, onR)
	}
}

// atOnce is how many parts of a kind fail at the same time: one coordinator of three
// stays well.
const atOnce = 2

// some draws between least and atOnce cards.
func (c *chaos) some(d *deck, least int) []string {
	var cards []string
	for range least + c.chance.IntN(atOnce-least+1) {
		cards = append(cards, d.draw())
	}
	return cards
}

// round makes faults happen at the same time, each to another victim, waits until
// all is in order again, and judges what was seen. One coordinator stays well.
func (c *chaos) round(onCoordinators, onMembers []string, onRedis string) {
	c.t.Helper()
	c.rounds++
	var faults []fault
	who := c.chance.Perm(coordinatorCount)
	for i, name := range onCoordinators {
		faults = append(faults, c.coordinatorFault(name, who[i]))
		c.counts[name]++
	}
	which := c.chance.Perm(len(c.processes))
	for i, name := range onMembers {
		faults = append(faults, c.memberFault(name, which[i]))
		c.counts[name]++
	}
	if onRedis != "" {
		third := int(c.thirds.draw()[0] - '0')
		faults = append(faults, c.redisFault(onRedis, third))
		c.counts[onRedis]++
	}
	c.chance.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	c.happen(faults)
}

func (c *chaos) happen(faults []fault) {
	c.t.Helper()
	c.take()
	losses, readings, corrections := len(c.ledger.losses), c.ledger.readings(), c.corrections()
	began := make([]time.Time, len(faults))
	var names []string
	for i, f := range faults {
		names = append(names, f.name)
		began[i] = time.Now()
		f.begin()
		time.Sleep(time.Duration(c.chance.Int64N(int64(300 * time.Millisecond)))) // the faults overlap by chance
	}
	// Those that were first begin to end first.
	for i, f := range faults {
		time.Sleep(time.Until(began[i].Add(f.lasts))) // how long it lasts is the fault
		f.end()
	}
	for _, f := range faults {
		f.recovered()
	}
	over := time.Now()
	why := c.unsettled()
	for ; why != "" && time.Since(over) < hopeless; why = c.unsettled() {
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(over)
	wasCorrected := c.corrections() > corrections
	if why != "" {
		c.t.Fatalf("round %d (%s): not in order after %s: %s", c.rounds, strings.Join(names, "; "), took.Round(time.Second), why)
	}
	bound := inOrder
	if wasCorrected {
		bound = corrected
		c.slowestCorrected = max(c.slowestCorrected, took)
	} else {
		c.slowest = max(c.slowest, took)
	}
	if took > bound {
		c.late++
		c.t.Errorf("round %d (%s): in order after %s, must be under %s", c.rounds, strings.Join(names, "; "), took.Round(time.Millisecond), bound)
	}
	c.expectReasons(faults, c.ledger.losses[losses:], c.ledger.readings()-readings)
	c.judge()
	c.t.Logf("round %d: %s: in order after %s (corrected: %t), %d shards lost, %d given", c.rounds, strings.Join(names, "; "),
		took.Round(time.Millisecond), wasCorrected, len(c.ledger.losses)-losses, c.ledger.readings()-readings)
}

// expectReasons holds the shards that members lost to the faults that explain them. A
// fault of the store explains each, one of coordinators none.
func (c *chaos) expectReasons(faults []fault, losses []line, moved int) {
	c.t.Helper()
	var excused []string
	onlyCoordinators := true
	sore := false
	for _, f := range faults {
		excused = append(excused, f.excused...)
		onlyCoordinators = onlyCoordinators && f.on == onCoordinators
		sore = sore || f.on == onRedis
	}
	told := map[string]bool{}
	for _, l := range losses {
		switch {
		case slices.Contains(excused, l.member):
			c.excused++
		case sore:
			c.bySore++
		default:
			c.t.Errorf("round %d: %s lost shard %d at %s (%s), and nothing was done to it", c.rounds, l.member, l.shard, stamp(l.at), l.cause)
			if !told[l.member] {
				told[l.member] = true
				c.t.Logf("what %s says:\n%s", l.member, c.says(l.member))
			}
		}
	}
	if onlyCoordinators && moved > 0 {
		c.t.Errorf("round %d: faults of coordinators moved %d shards", c.rounds, moved)
	}
}

// says returns the last lines of a member's log.
func (c *chaos) says(member string) string {
	c.t.Helper()
	const most = 15
	var lines []string
	for _, m := range c.processes {
		if !slices.Contains(m.ids, member) {
			continue
		}
		for text := range strings.Lines(m.proc.Log()) {
			if strings.Contains(text, `"member":"`+member+`"`) {
				lines = append(lines, text)
			}
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], "")
}

// close ends the members in order and sums up.
func (c *chaos) close() {
	c.t.Helper()
	for _, m := range c.processes {
		m.proc.Terminate()
	}
	for _, m := range c.processes {
		m.proc.ExpectEnd(startTimeout)
	}
	c.judge()
	overlaps, tokens := c.ledger.overlaps()
	verdict := "ok"
	if c.t.Failed() {
		verdict = "FAILED"
	}
	var counts []string
	for _, name := range slices.Concat(c.coordinatorDeck.cards, memberFaults, c.redisDeck.cards) {
		counts = append(counts, fmt.Sprintf("%s: %d", name, c.counts[name]))
	}
	c.t.Logf("faults: %s", strings.Join(counts, "; "))
	c.t.Logf("chaos: %s seed=%d server=%s coordinators=%d members=%d shards=%d rounds=%d reads=%d readings=%d overlaps=%d tokens_back=%d "+
		"lost_by_victims=%d lost_by_redis_faults=%d converged_ms_max=%d corrected_ms_max=%d late=%d took=%s",
		verdict, c.seed, c.storeName(), coordinatorCount, processCount*membersPerProcess, len(c.ledger.spans), c.rounds, c.ledger.lines, c.ledger.readings(),
		len(overlaps), len(tokens), c.excused, c.bySore, c.slowest.Milliseconds(), c.slowestCorrected.Milliseconds(), c.late, time.Since(c.began).Round(time.Second))
}
