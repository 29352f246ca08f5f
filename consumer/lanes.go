package consumer

import (
	"slices"
	"sync/atomic"
	"time"
)

// maxSpareLanes bounds the empty lanes that a shard keeps for further keys.
const maxSpareLanes = 256

// laneState is where a lane is.
type laneState int

const (
	// laneIdle: nowhere; in between, or empty.
	laneIdle laneState = iota
	// laneReady: in its shard's queue.
	laneReady
	// laneSuspected: in the queue of suspects; laneChosen: next of them.
	laneSuspected
	laneChosen
	// laneRunning: the entry in front is worked on.
	laneRunning
	// laneWaiting: the entry in front waits for its time.
	laneWaiting
)

// lane has the records of one key that are in hand, in the order of their ids.
// Only the one in front is worked on; if that failed, the lane waits with it.
type lane struct {
	of    *lanes
	key   string
	queue []*entry
	state laneState
	// timer ends the waiting.
	timer *time.Timer
	// next is the lane behind this one in a queue.
	next *lane
}

// lanes has what is in hand of one shard, for one tenure. It is a part of the
// pool, whose mutex guards it.
type lanes struct {
	pool *pool
	// do works on an entry. It is called without the mutex.
	do func(*entry) verdict
	// quiet is closed when it is stopped and nothing runs any more; roomy is poked
	// when there may be room to read.
	quiet, roomy chan struct{}

	held  share
	byKey map[string]*lane
	ready laneQueue
	spare []*lane
	// next and queued belong to the pool's ring.
	next   *lanes
	queued bool
	// running counts the handlers under way, inHand the entries.
	running, inHand int
	// begun is the highest id that was worked on.
	begun   streamID
	stopped bool
	// orphans: there was one. Looking at this first spares the mutex.
	orphans atomic.Bool
	// back is what goes back with another delivery count.
	back []returned
}

// newLanes adds a shard to the pool.
func newLanes(p *pool, do func(*entry) verdict) *lanes {
	l := &lanes{
		pool: p, do: do, quiet: make(chan struct{}), roomy: make(chan struct{}, 1),
		byKey: map[string]*lane{},
	}
	p.mu.Lock()
	p.room.join(l)
	p.mu.Unlock()
	return l
}

// push hands over what was read, under the booking of the last call of book. It
// reports how many came late: behind records of the shard that were begun before.
func (l *lanes) push(batch []*entry) (late int) {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room.unbook(l)
	if l.stopped {
		for _, e := range batch {
			l.giveBack(e)
		}
		return 0
	}
	p.room.learn(l, batch)
	for _, e := range batch {
		if e.recovered && e.id.less(l.begun) {
			late++
		}
		l.insert(e)
	}
	if p.ring.first != nil || len(p.suspects) > 0 {
		p.rouse()
	}
	return late
}

// insert puts an entry into the lane of its key, in the order of the ids but
// never before one that is worked on.
func (l *lanes) insert(e *entry) {
	la := l.byKey[e.key]
	if la == nil {
		la = l.lane(e.key)
	}
	low := 0
	if la.state == laneRunning {
		low = 1
	}
	i := len(la.queue)
	for i > low && e.id.less(la.queue[i-1].id) {
		i--
	}
	if i > 0 && la.queue[i-1].id == e.id && !la.queue[i-1].orphan {
		// It is in hand already.
		return
	}
	la.queue = slices.Insert(la.queue, i, e)
	l.inHand++
	l.pool.room.hold(l, 1, e.size)
	if i == 0 {
		l.unplace(la)
		l.place(la)
	}
}

func (l *lanes) lane(key string) *lane {
	var la *lane
	if n := len(l.spare); n > 0 {
		la, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		la = &lane{of: l}
	}
	la.key = key
	l.byKey[key] = la
	return la
}

// discard takes an empty lane away.
func (l *lanes) discard(la *lane) {
	delete(l.byKey, la.key)
	if len(l.spare) < maxSpareLanes {
		la.key, la.queue = "", la.queue[:0]
		l.spare = append(l.spare, la)
	}
}

// pop takes the entry in front off: it is finished.
func (l *lanes) pop(la *lane) {
	e := la.queue[0]
	la.queue[0] = nil
	la.queue = la.queue[1:]
	l.release(e)
}

// release gives the room of an entry back. What it holds goes free even though
// others of its batch remain.
func (l *lanes) release(e *entry) {
	l.inHand--
	l.pool.room.hold(l, -1, -e.size)
	*e = entry{}
}

// place puts a lane to where the entry in front has to wait.
func (l *lanes) place(la *lane) {
	p, e := l.pool, la.queue[0]
	if !e.due.IsZero() {
		if wait := time.Until(e.due); wait > 0 {
			la.state = laneWaiting
			var t *time.Timer
			t = time.AfterFunc(wait, func() {
				p.mu.Lock()
				defer p.mu.Unlock()
				if la.timer != t {
					return
				}
				la.timer, la.state = nil, laneIdle
				l.place(la)
				p.rouse()
			})
			la.timer = t
			return
		}
		e.due = time.Time{}
	}
	if e.suspect {
		la.state = laneSuspected
		p.suspects = append(p.suspects, la)
		return
	}
	la.state = laneReady
	l.ready.push(la)
	p.ring.push(l)
}

// unplace takes a lane from where it waits.
func (l *lanes) unplace(la *lane) {
	switch la.state {
	case laneReady:
		l.ready.remove(la)
	case laneSuspected:
		p := l.pool
		i := slices.Index(p.suspects, la)
		p.suspects = slices.Delete(p.suspects, i, i+1)
	case laneChosen:
		l.pool.solitary.end()
	case laneWaiting:
		la.timer.Stop()
		la.timer = nil
	case laneIdle, laneRunning:
	}
	la.state = laneIdle
}

// stop lets nothing begin any more. What was not begun goes back.
func (l *lanes) stop() {
	p := l.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.stopped {
		return
	}
	l.stopped = true
	l.drop()
	p.room.unbook(l)
	if l.running == 0 {
		close(l.quiet)
	}
	// Others may have waited for a suspect of this shard.
	p.rouse()
}

// drop gives back all that is not worked on.
func (l *lanes) drop() {
	for _, la := range l.byKey {
		keep := 0
		if la.state == laneRunning {
			keep = 1
		} else {
			l.unplace(la)
		}
		for _, e := range la.queue[keep:] {
			l.giveBack(e)
			l.release(e)
		}
		clear(la.queue[keep:])
		la.queue = la.queue[:keep]
		if keep == 0 {
			l.discard(la)
		}
	}
}

// giveBack notes an entry whose delivery count is too high by a start that has not
// happened.
func (l *lanes) giveBack(e *entry) {
	if e.owed && !e.orphan {
		l.back = append(l.back, returned{e.ID, e.Deliveries, e.Deliveries - 1})
	}
}

// leave ends a lane whose entry was worked on when it was stopped.
func (l *lanes) leave(la *lane) {
	l.giveBack(la.queue[0])
	l.pop(la)
	l.discard(la)
	if l.running == 0 {
		close(l.quiet)
	}
}

// forget drops all that is not worked on: it will be delivered anew.
func (l *lanes) forget() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.drop()
	l.back = nil
	l.pool.rouse()
}

// orphan notes that the stream of what is in hand is gone. It is handled, and nothing
// is acknowledged for it: whatever has its id then is another record.
func (l *lanes) orphan() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	for _, la := range l.byKey {
		for _, e := range la.queue {
			e.orphan = true
			l.orphans.Store(true)
		}
	}
}

// orphaned reports whether the stream of an entry that is worked on is gone.
func (l *lanes) orphaned(e *entry) bool {
	if !l.orphans.Load() {
		return false
	}
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return e.orphan
}

// takeBack returns what goes back with another delivery count, once.
func (l *lanes) takeBack() []returned {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	back := l.back
	l.back = nil
	return back
}

// end takes the shard out of the pool.
func (l *lanes) end() {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	l.pool.room.part(l)
}

// lowest returns the lowest id in hand, and whether there is one.
func (l *lanes) lowest() (low streamID, some bool) {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	for _, la := range l.byKey {
		// One that is worked on is in front even if a lower one came since.
		for _, e := range la.queue[:min(2, len(la.queue))] {
			if !some || e.id.less(low) {
				low, some = e.id, true
			}
		}
	}
	return low, some
}

// ids returns what is in hand.
func (l *lanes) ids() map[string]struct{} {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	ids := make(map[string]struct{}, l.inHand)
	for _, la := range l.byKey {
		for _, e := range la.queue {
			if !e.orphan {
				ids[e.ID] = struct{}{}
			}
		}
	}
	return ids
}

// size returns how many records are in hand.
func (l *lanes) size() int {
	l.pool.mu.Lock()
	defer l.pool.mu.Unlock()
	return l.inHand
}

// laneQueue is a queue of lanes, linked by their next.
type laneQueue struct{ first, last *lane }

func (q *laneQueue) push(la *lane) {
	if q.last == nil {
		q.first = la
	} else {
		q.last.next = la
	}
	q.last = la
}

func (q *laneQueue) pop() *lane {
	la := q.first
	if la == nil {
		return nil
	}
	if q.first = la.next; q.first == nil {
		q.last = nil
	}
	la.next = nil
	return la
}

// remove takes a lane out of the middle, which is rare.
func (q *laneQueue) remove(gone *lane) {
	var rest laneQueue
	for la := q.pop(); la != nil; la = q.pop() {
		if la != gone {
			rest.push(la)
		}
	}
	*q = rest
}

// shardQueue is a queue of shards that have a lane ready. A shard is in it once,
// and may have lost its lanes by the time its turn comes.
type shardQueue struct{ first, last *lanes }

func (q *shardQueue) push(l *lanes) {
	if l.queued {
		return
	}
	l.queued = true
	if q.last == nil {
		q.first = l
	} else {
		q.last.next = l
	}
	q.last = l
}

// pop returns the next shard that has a lane ready.
func (q *shardQueue) pop() *lanes {
	for {
		l := q.first
		if l == nil {
			return nil
		}
		if q.first = l.next; q.first == nil {
			q.last = nil
		}
		l.next, l.queued = nil, false
		if l.ready.first != nil {
			return l
		}
	}
}
