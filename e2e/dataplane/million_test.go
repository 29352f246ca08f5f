package dataplane

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// The big run.
const (
	millionMembers    = 8
	millionShards     = 32
	millionKeys       = 1_000
	millionRebalances = 10
	millionKills      = 2
	millionFeeds      = 2
	// millionPhase is how long a part of the records takes to publish at least, so that
	// what happens meanwhile happens under load.
	millionPhase = 3 * time.Second
	// millionPatience is how long the last records may take.
	millionPatience = 10 * time.Minute
)

// million is the big run: many records of many keys through all faults at once.
type million struct {
	*world
	chance  *rand.Rand
	records int
	alive   []*member
	named   int

	rebalances, kills, stops, failovers int
}

// TestMillion sends a million records of a thousand keys through a Redis Cluster
// while members join, leave, are killed and frozen, and a master dies. In the
// short form there are 20,000. RSC_RECORDS and RSC_SEED say otherwise.
func TestMillion(t *testing.T) {
	asked(t)
	records := setting64(t, "RSC_RECORDS", uint64(size(20_000, 1_000_000)))
	seed := setting64(t, "RSC_SEED", uint64(time.Now().UnixNano()))
	t.Logf("seed %d: repeat with RSC_SEED", seed)
	m := &million{
		world: newWorld(t, faultkit.Cluster, setting{
			shards:   millionShards,
			defaults: plan{Spread: time.Millisecond, FailOneIn: 500, RetryFirst: 5 * time.Millisecond, RetryLast: 50 * time.Millisecond, Concurrency: 32},
		}),
		chance: rand.New(rand.NewPCG(seed, 0)), records: int(records),
	}
	for range millionMembers {
		m.add()
	}
	m.settle(m.alive...)
	m.open()
	began := time.Now()
	m.trouble()
	fed := time.Since(began)
	deadline := time.Now().Add(millionPatience)
	for {
		pending, undelivered, err := m.backlog()
		if err == nil && pending+undelivered == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d records are still pending, %d shards have more (%v)", pending, undelivered, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	took := time.Since(began)
	// What the killed master had confirmed and not passed on is lost with it.
	m.lossy = true
	found := m.find()
	for _, one := range m.alive {
		one.stop()
	}
	verdict := "ok"
	if t.Failed() || found.lost > 0 || found.disorder > 0 {
		verdict = "FAILED"
	}
	t.Logf("million: %s seed=%d server=%s members=%d keys=%d shards=%d produced=%d confirmed=%d processed=%d duplicates=%d lost=%d order_violations=%d "+
		"unknown_outcomes=%d gone_with_the_server=%d old_token_work=%d failed_attempts=%d rebalances=%d kill_9=%d sigstop=%d failovers=%d feeding=%s took=%s",
		verdict, seed, m.server.Kind.Name, millionMembers, millionKeys, millionShards, found.produced, found.produced-found.unknown-found.refused, m.account.finished, found.duplicated, found.lost,
		found.disorder, found.unknown, found.gone, found.oldTokens, m.account.failures, m.rebalances, m.kills, m.stops, m.failovers,
		fed.Round(time.Millisecond), took.Round(time.Millisecond))
	if found.lost > 0 || found.disorder > 0 {
		t.Errorf("%d records were lost, %d times out of order", found.lost, found.disorder)
	}
	if m.rebalances < millionRebalances || m.kills != millionKills || m.stops != 1 || m.failovers != 1 {
		t.Errorf("the run was to have %d rebalances, %d kills, one stop and one failover", millionRebalances, millionKills)
	}
}

// add starts another member.
func (m *million) add() {
	id := fmt.Sprintf("m%d", m.named)
	seed := m.chance.Uint64()
	m.alive = append(m.alive, m.start(id, func(p *plan) { p.Seed = seed }))
	m.named++
}

// pick takes a member out of those alive.
func (m *million) pick() *member {
	i := m.chance.IntN(len(m.alive))
	one := m.alive[i]
	m.alive = append(m.alive[:i:i], m.alive[i+1:]...)
	return one
}

// open makes the producers, each with keys of its own: one publishes batches, the
// other with futures.
func (m *million) open() {
	for i := range millionFeeds {
		f := m.newFeed(fmt.Sprintf("f%d", i), millionKeys/millionFeeds, nil)
		f.row, f.batch, f.async = 5, 200, i%2 == 1
	}
}

// trouble makes every fault in an order that chance chose, each while a part of
// the records is being published; the last part has none.
func (m *million) trouble() {
	events := []func(){m.freeze, m.failover}
	for range millionKills {
		events = append(events, m.murder)
	}
	for i := range millionRebalances {
		if i%2 == 0 {
			events = append(events, m.leave)
		} else {
			events = append(events, m.join)
		}
	}
	m.chance.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	events = append(events, func() {})
	published := 0
	for i, event := range events {
		part := m.records*(i+1)/len(events) - published
		published += part
		done := m.publish(part)
		at := m.progress()
		faultkit.Eventually(m.t, millionPatience, "records flow", func() bool { return m.progress() >= at+part/10 })
		event()
		<-done
		m.t.Logf("%d of %d records published, %d finished, %d members", m.progress(), m.records, m.done(), len(m.alive))
	}
}

// publish begins to publish so many records, as fast as can be unless that would be
// too fast. The channel is closed when all have their outcome.
func (m *million) publish(count int) <-chan struct{} {
	ctx := context.WithoutCancel(m.t.Context())
	var flows sync.WaitGroup
	for i, f := range m.feeds {
		share := count*(i+1)/len(m.feeds) - count*i/len(m.feeds)
		size := min(f.batch, max(1, share/50))
		pace := millionPhase * time.Duration(size) / time.Duration(max(1, share))
		flows.Go(func() {
			ticks := time.NewTicker(max(pace, time.Microsecond))
			defer ticks.Stop()
			for share > 0 {
				<-ticks.C
				n := min(size, share)
				f.publish(ctx, n)
				share -= n
			}
		})
	}
	done := make(chan struct{})
	go func() {
		flows.Wait()
		close(done)
	}()
	return done
}

// progress counts the records that have an outcome.
func (m *million) progress() int {
	sum := 0
	for _, f := range m.feeds {
		sum += f.count()
	}
	return sum
}

func (m *million) leave() {
	if len(m.alive) <= millionMembers/2 {
		m.join()
		return
	}
	m.pick().stop()
	m.settle(m.alive...)
	m.rebalances++
}

func (m *million) join() {
	m.add()
	m.settle(m.alive...)
	m.rebalances++
}

// murder kills a member with -9.
func (m *million) murder() {
	m.pick().kill()
	m.settle(m.alive...)
	m.kills++
}

// freeze stops a member until others have its shards, and lets it go on.
func (m *million) freeze() {
	frozen := m.pick()
	frozen.proc.Pause()
	m.settle(m.alive...)
	frozen.proc.Resume()
	m.alive = append(m.alive, frozen)
	m.settle(m.alive...)
	m.stops++
}

// failover kills a master of the cluster, and starts it again as a replica.
func (m *million) failover() {
	masters := m.server.Masters()
	victim := masters[m.chance.IntN(len(masters))]
	m.server.KillMaster(victim)
	victim.Start()
	m.failovers++
}

// setting64 reads a number from the environment.
func setting64(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}
