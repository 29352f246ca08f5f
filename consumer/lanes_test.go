package consumer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// model is a stream of several shards as Redis keeps it: what was delivered and not
// acknowledged is pending. It watches over what the lanes promise.
type model struct {
	t    *testing.T
	pool *pool

	mu     sync.Mutex
	shards []*modelShard
	// running counts handlers, alone is set while a suspect runs in its solitude.
	running int
	alone   time.Time
	suspect bool
	longest time.Duration
}

type modelShard struct {
	total, read int
	// pending has the delivery counts of what is not finished; begun how often a
	// handler began.
	pending map[int]int
	begun   map[int]int
	done    map[int]int
	// last is the last record of a key that was finished, active the one under way.
	last, active map[string]int
}

func (m *model) wrong(format string, args ...any) {
	m.t.Errorf(format, args...)
}

func modelKey(seed uint64, shard, n, keys int) string {
	rng := rand.New(rand.NewPCG(seed, uint64(shard*1_000_000+n)))
	return fmt.Sprint("k", rng.IntN(keys))
}

// tenure owns a shard for a while, as a worker does. It goes on with the chances of the
// tenure before: the same ones again might have the first record fail each time.
func (m *model) tenure(ctx context.Context, rng *rand.Rand, seed uint64, shard, keys int, failures, latency int) {
	s := m.shards[shard]
	var rngMu sync.Mutex
	chance := func(n int) int {
		rngMu.Lock()
		defer rngMu.Unlock()
		return rng.IntN(n)
	}
	do := func(e *entry) verdict {
		n := int(e.id.ms)
		if ctx.Err() != nil {
			// As a worker does: without the pause, what is to stop this would wait for it.
			return verdict{again: true, after: gateRetry}
		}
		m.mu.Lock()
		if !e.owed {
			e.Deliveries++
			s.pending[n] = e.Deliveries
		}
		e.owed = false
		s.begun[n]++
		if s.begun[n] != e.Deliveries {
			m.wrong("shard %d: record %d has %d deliveries, and was begun %d times", shard, n, e.Deliveries, s.begun[n])
		}
		if other, busy := s.active[e.key]; busy {
			m.wrong("shard %d: %d begins beside %d of the same key", shard, n, other)
		}
		if s.last[e.key] > n {
			m.wrong("shard %d: %d begins after %d of the same key", shard, n, s.last[e.key])
		}
		if !m.alone.IsZero() && time.Since(m.alone) < solitude {
			m.wrong("shard %d: %d begins beside a suspect", shard, n)
		}
		s.active[e.key] = n
		m.running++
		if m.running > m.pool.limit {
			m.wrong("%d handlers run, %d may", m.running, m.pool.limit)
		}
		suspect := e.suspect
		if suspect {
			if m.suspect {
				m.wrong("two suspects run")
			}
			if m.running > 1 && m.longest < quietWait {
				m.wrong("a suspect begins beside %d others", m.running-1)
			}
			m.suspect, m.alone = true, time.Now()
		}
		m.mu.Unlock()
		time.Sleep(time.Duration(chance(latency)) * time.Millisecond)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.running--
		delete(s.active, e.key)
		if suspect {
			m.suspect, m.alone = false, time.Time{}
		}
		if chance(100) < failures {
			e.suspect = false
			return verdict{again: true, after: time.Duration(chance(200)) * time.Millisecond}
		}
		s.done[n]++
		s.last[e.key] = n
		delete(s.pending, n)
		return verdict{}
	}
	l := newLanes(m.pool, do)
	defer l.end()
	make1 := func(n int) *entry {
		return &entry{
			Record: Record{ID: streamID{ms: uint64(n)}.String(), Deliveries: 1}, id: streamID{ms: uint64(n)},
			key: modelKey(seed, shard, n, keys), size: int64(10 + n%7), owed: true,
		}
	}
	// What is pending first, in the order of the ids.
	m.mu.Lock()
	var ids []int
	for n := range s.pending {
		ids = append(ids, n)
	}
	slices.Sort(ids)
	m.mu.Unlock()
	for len(ids) > 0 {
		n := l.book(ctx, nil, min(len(ids), 20), true)
		if n == 0 {
			break
		}
		var batch []*entry
		m.mu.Lock()
		for _, id := range ids[:n] {
			e := make1(id)
			if e.recovered = true; s.pending[id] == 0 {
				s.pending[id] = 1
			} else {
				e.Deliveries, e.owed, e.suspect = s.pending[id], false, s.pending[id] > 1
			}
			batch = append(batch, e)
		}
		m.mu.Unlock()
		if late := l.push(batch); late > 0 {
			m.wrong("%d records are late", late)
		}
		ids = ids[n:]
	}
	for ctx.Err() == nil {
		count := l.book(ctx, nil, 1+chance(50), chance(2) == 0)
		if count == 0 {
			break
		}
		m.mu.Lock()
		var batch []*entry
		for range min(count, s.total-s.read) {
			s.read++
			s.pending[s.read] = 1
			batch = append(batch, make1(s.read))
		}
		m.mu.Unlock()
		l.push(batch)
		if len(batch) == 0 {
			select {
			case <-time.After(10 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	l.stop()
	<-l.quiet
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range l.takeBack() {
		s.pending[int(parseID(r.id).ms)] = r.count
	}
}

// TestLanesKeepOrder tries random schedules: keys, latencies, failures, shards that
// come and go. Order per key is never violated, nothing is lost or done twice, the
// bounds hold, and the delivery counts say how often a handler began.
func TestLanesKeepOrder(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tryLanes(t, seed) })
		})
	}
}

func tryLanes(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	limit, records, bytes := 1+rng.IntN(16), 1+rng.IntN(200), int64(1+rng.IntN(3000))
	keys, failures, latency := 1+rng.IntN(30), rng.IntN(30), 1+rng.IntN(20)
	if seed%4 == 0 {
		// Slower than what a suspect waits for.
		latency = 3000
	}
	m := &model{t: t, pool: newPool(limit, records, bytes), longest: time.Duration(latency) * time.Millisecond}
	shards := 1 + rng.IntN(5)
	for range shards {
		m.shards = append(m.shards, &modelShard{
			total: 200 + rng.IntN(200), pending: map[int]int{}, begun: map[int]int{}, done: map[int]int{},
			last: map[string]int{}, active: map[string]int{},
		})
	}
	finished := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, s := range m.shards {
			if len(s.done) < s.total {
				return false
			}
		}
		return true
	}
	var owners sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	for i := range shards {
		owners.Go(func() {
			rng, chances := rand.New(rand.NewPCG(seed, uint64(1000+i))), rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				ctx, end := context.WithTimeout(ctx, time.Duration(rng.IntN(100*latency))*time.Millisecond)
				m.tenure(ctx, chances, seed, i, keys, failures, latency)
				end()
			}
		})
	}
	for begun := time.Now(); !finished(); time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > 24*time.Hour {
			t.Error("it does not come to an end")
			break
		}
		m.pool.mu.Lock()
		if n := m.pool.room.records; n > records+shards {
			t.Errorf("%d records are in hand, %d may be", n, records+shards)
		}
		// Sizes are between 10 and 16, and expected to be like the last ones.
		if n := m.pool.room.bytes; n > bytes*16/10+int64(shards*32) {
			t.Errorf("%d bytes are in hand, %d may be", n, bytes)
		}
		m.pool.mu.Unlock()
	}
	stop()
	owners.Wait()
	m.pool.close(true)
	for i, s := range m.shards {
		for n := 1; n <= s.total; n++ {
			if s.done[n] != 1 {
				t.Errorf("shard %d: record %d was done %d times", i, n, s.done[n])
			}
		}
		if len(s.pending) > 0 {
			t.Errorf("shard %d: %d records are pending", i, len(s.pending))
		}
	}
	if p := m.pool; p.room.records != 0 || p.room.bytes != 0 || p.size != 0 || p.running != 0 {
		t.Errorf("something is left: %+v", p.room)
	}
}
