package consumer

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// stage is a shard whose handlers do what the test says, on a pool of its own.
type stage struct {
	t     *testing.T
	pool  *pool
	lanes *lanes

	mu sync.Mutex
	// begun has what began, in order, with the time since the start.
	begun []string
	at    map[string]time.Duration
	start time.Time
	// do is asked what comes of a record; nil finishes it at once.
	do func(id string) verdict
}

func newStage(t *testing.T, p *pool, do func(id string) verdict) *stage {
	s := &stage{t: t, pool: p, do: do, at: map[string]time.Duration{}, start: time.Now()}
	s.lanes = newLanes(p, func(e *entry) verdict {
		s.mu.Lock()
		s.begun = append(s.begun, e.ID)
		s.at[e.ID] = time.Since(s.start)
		s.mu.Unlock()
		e.owed = false
		if s.do == nil {
			return verdict{}
		}
		return s.do(e.ID)
	})
	return s
}

// push puts records into the lane of key.
func (s *stage) push(key string, ids ...int) {
	var batch []*entry
	for _, n := range ids {
		id := streamID{ms: uint64(n)}
		batch = append(batch, &entry{Record: Record{ID: id.String(), Deliveries: 1}, id: id, key: key, size: 10, owed: true})
	}
	s.lanes.push(batch)
}

func (s *stage) pushSuspect(key string, n int) {
	id := streamID{ms: uint64(n)}
	s.lanes.push([]*entry{{Record: Record{ID: id.String(), Deliveries: 2}, id: id, key: key, size: 10, recovered: true, suspect: true}})
}

func (s *stage) order() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.begun)
}

func (s *stage) began(id string) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, there := s.at[id]
	return d, there
}

func (s *stage) end() {
	s.lanes.stop()
	<-s.lanes.quiet
	s.lanes.end()
}

// TestALowerIDGoesInFront: what is found pending late goes in front of what waits
// in its lane, and not in front of what is under way.
func TestALowerIDGoesInFront(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(4, 100, 1<<20)
		s := newStage(t, p, func(string) verdict {
			time.Sleep(time.Second)
			return verdict{}
		})
		s.push("a", 5, 6, 7)
		synctest.Wait()
		s.push("a", 3)
		s.push("a", 6) // again: it is in hand
		time.Sleep(10 * time.Second)
		if got, want := s.order(), []string{"5-0", "3-0", "6-0", "7-0"}; !slices.Equal(got, want) {
			t.Errorf("began %v, want %v", got, want)
		}
		s.end()
		p.close(true)
	})
}

// TestALowerIDDoesNotWaitForAnother: a record that waits after a failure does not
// hold up one that goes before it.
func TestALowerIDDoesNotWaitForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(4, 100, 1<<20)
		failed := false
		s := newStage(t, p, func(id string) verdict {
			if id == "5-0" && !failed {
				failed = true
				return verdict{again: true, after: time.Minute}
			}
			return verdict{}
		})
		s.push("a", 5, 6)
		synctest.Wait()
		s.push("a", 3)
		synctest.Wait()
		if got, want := s.order(), []string{"5-0", "3-0"}; !slices.Equal(got, want) {
			t.Errorf("began %v, want %v", got, want)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got, want := s.order(), []string{"5-0", "3-0", "5-0", "6-0"}; !slices.Equal(got, want) {
			t.Errorf("began %v, want %v", got, want)
		}
		if d, _ := s.began("5-0"); d != time.Minute {
			t.Errorf("it was tried again after %s, want a minute", d)
		}
		s.end()
		p.close(true)
	})
}

// TestASuspectWaitsForQuiet: it begins when the others have ended, or after a while
// all the same; others begin beside it after a while too.
func TestASuspectWaitsForQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(4, 100, 1<<20)
		s := newStage(t, p, func(string) verdict {
			time.Sleep(time.Minute)
			return verdict{}
		})
		s.push("a", 1)
		synctest.Wait()
		s.pushSuspect("b", 2)
		s.pushSuspect("c", 3)
		s.push("d", 4)
		time.Sleep(5 * time.Minute)
		for id, want := range map[string]time.Duration{
			"1-0": 0,
			// The one under way goes on for longer than it waits.
			"2-0": quietWait,
			// Others wait no longer than for this.
			"4-0": quietWait + solitude,
			// The next suspect waits for the one before it, but not for ever, then for
			// the others.
			"3-0": quietWait + suspectTurn + quietWait,
		} {
			if d, _ := s.began(id); d != want {
				t.Errorf("%s began after %s, want %s", id, d, want)
			}
		}
		s.end()
		p.close(true)
	})
}

// TestASuspectFindsAHandler: also where it comes together with something that takes
// long, and nothing comes after it.
func TestASuspectFindsAHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2, 100, 1<<20)
		s := newStage(t, p, func(string) verdict {
			time.Sleep(time.Minute)
			return verdict{}
		})
		id := streamID{ms: 2}
		s.lanes.push([]*entry{
			{Record: Record{ID: "1-0"}, id: streamID{ms: 1}, key: "a"},
			{Record: Record{ID: "2-0"}, id: id, key: "b", suspect: true},
		})
		// The suspect was there first, or waits for the other.
		time.Sleep(quietWait + solitude)
		synctest.Wait()
		if len(s.order()) != 2 {
			t.Errorf("began %v, want both", s.order())
		}
		time.Sleep(time.Minute + time.Second)
		// Now the other is first: the suspects had their turn just before.
		s.lanes.push([]*entry{
			{Record: Record{ID: "4-0"}, id: streamID{ms: 4}, key: "a"},
			{Record: Record{ID: "5-0"}, id: streamID{ms: 5}, key: "b", suspect: true},
		})
		pushed := time.Since(s.start)
		time.Sleep(quietWait + solitude)
		synctest.Wait()
		if d, began := s.began("5-0"); !began || d > pushed+quietWait {
			t.Errorf("the second suspect began after %s (%v), want %s", d-pushed, began, quietWait)
		}
		s.end()
		p.close(true)
	})
}

// TestAStoppedShardHoldsNoSuspectsTurn: the suspect whose turn it is goes away with
// its shard, and the others go on.
func TestAStoppedShardHoldsNoSuspectsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2, 100, 1<<20)
		busy := newStage(t, p, func(string) verdict {
			time.Sleep(500 * time.Millisecond)
			return verdict{}
		})
		other := newStage(t, p, nil)
		busy.push("a", 1)
		synctest.Wait()
		other.pushSuspect("b", 2)
		other.pushSuspect("c", 3)
		synctest.Wait()
		busy.push("d", 4)
		other.end()
		time.Sleep(100 * time.Millisecond)
		if d, began := busy.began("4-0"); !began || d != 0 {
			t.Errorf("the neighbour of a suspect that went away began after %s (%v), want at once", d, began)
		}
		if len(other.order()) != 0 {
			t.Errorf("a stopped shard began %v", other.order())
		}
		busy.end()
		p.close(true)
	})
}

// TestShardsTakeTurns: a shard with a thousand records does not starve one with a
// single record, neither of handlers nor of room.
func TestShardsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2, 40, 1<<20)
		slow := func(string) verdict {
			time.Sleep(time.Second)
			return verdict{}
		}
		crowd, single := newStage(t, p, slow), newStage(t, p, slow)
		next := 1
		for {
			// As much as it gets without waiting.
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			n := crowd.lanes.book(ctx, nil, 100, true)
			if n == 0 {
				break
			}
			for range n {
				crowd.push(fmt.Sprint("k", next), next)
				next++
			}
		}
		if next-1 != 30 {
			t.Errorf("one of two shards got %d of 40, want its own 10 and the common 20", next-1)
		}
		if n := single.lanes.book(t.Context(), nil, 5, false); n != 1 {
			t.Errorf("the other may read %d, want 1 while it has seen no sizes", n)
		}
		single.push("x", 1)
		if n := single.lanes.book(t.Context(), nil, 50, true); n != 9 {
			t.Errorf("the other may read %d then, want the rest of its own 10", n)
		}
		single.lanes.unbook()
		time.Sleep(3 * time.Second)
		if d, began := single.began("1-0"); !began || d > 2*time.Second {
			t.Errorf("it began after %s (%v), while %d of the crowd did", d, began, len(crowd.order()))
		}
		crowd.end()
		single.end()
		p.close(true)
	})
}

// TestALargeRecordPassesAlone: whatever the bound, and the next read expects its
// like.
func TestALargeRecordPassesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 100, 1000)
		release := make(chan struct{})
		s := newStage(t, p, func(string) verdict {
			<-release
			return verdict{}
		})
		if n := s.lanes.book(t.Context(), nil, 100, true); n != 1 {
			t.Fatalf("may read %d, want 1", n)
		}
		s.lanes.push([]*entry{{Record: Record{ID: "1-0"}, id: streamID{ms: 1}, size: 5000}})
		got := make(chan int)
		go func() { got <- s.lanes.book(t.Context(), nil, 100, true) }()
		synctest.Wait()
		select {
		case n := <-got:
			t.Fatalf("may read %d more, and the bound is exceeded", n)
		default:
		}
		close(release)
		if n := <-got; n != 1 {
			t.Errorf("may read %d then, want 1", n)
		}
		// Small ones come again.
		for i := range 60 {
			s.lanes.push([]*entry{{Record: Record{ID: fmt.Sprint(i+2, "-0")}, id: streamID{ms: uint64(i + 2)}, size: 10}})
			synctest.Wait()
			s.lanes.book(t.Context(), nil, 100, true)
		}
		s.lanes.unbook()
		if n := s.lanes.book(t.Context(), nil, 100, true); n < 50 {
			t.Errorf("may read %d after many small ones, want at least 50", n)
		}
		s.end()
		p.close(true)
	})
}

// TestReadingWaitsUntilItIsWorthIt: while handlers are busy a reader that waits for
// room is not called for each record.
func TestReadingWaitsUntilItIsWorthIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1, 100, 1<<20)
		s := newStage(t, p, func(string) verdict {
			time.Sleep(time.Second)
			return verdict{}
		})
		s.lanes.book(t.Context(), nil, 1, true)
		s.push("a", 1)
		n := s.lanes.book(t.Context(), nil, 100, true)
		ids := make([]int, n)
		for i := range ids {
			ids[i] = i + 2
		}
		s.push("a", ids...)
		if n = s.lanes.book(t.Context(), nil, 20, true); n < 20 {
			t.Errorf("may read %d, want 20", n)
		}
		if d := time.Since(s.start); d < 19*time.Second || d > 40*time.Second {
			t.Errorf("it was let read after %s", d)
		}
		s.end()
		p.close(true)
	})
}

// TestTheHandlerEndsItsGoroutine: as testing.T.FailNow does. The lane goes on.
func TestTheHandlerEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(2, 100, 1<<20)
		calls := 0
		s := newStage(t, p, func(id string) verdict {
			if id == "1-0" {
				if calls++; calls == 1 {
					runtime.Goexit()
				}
			}
			return verdict{}
		})
		s.push("a", 1, 2)
		time.Sleep(2 * exitPause)
		if got, want := s.order(), []string{"1-0", "1-0", "2-0"}; !slices.Equal(got, want) {
			t.Errorf("began %v, want %v", got, want)
		}
		s.end()
		p.close(true)
	})
}

// TestThePoolShrinks: goroutines end when there has been nothing to do for a while.
func TestThePoolShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(8, 100, 1<<20)
		s := newStage(t, p, func(string) verdict {
			time.Sleep(10 * time.Millisecond)
			return verdict{}
		})
		for i := range 8 {
			s.push(fmt.Sprint(i), i+1)
		}
		synctest.Wait()
		p.mu.Lock()
		size := p.size
		p.mu.Unlock()
		if size != 8 {
			t.Errorf("%d goroutines for 8 keys", size)
		}
		time.Sleep(2 * linger)
		p.mu.Lock()
		size = p.size
		p.mu.Unlock()
		if size != 0 {
			t.Errorf("%d goroutines are idle and stay", size)
		}
		s.push("a", 10)
		synctest.Wait()
		if _, began := s.began("10-0"); !began {
			t.Error("nobody takes the next record")
		}
		s.end()
		p.close(true)
	})
}
