package consumer

import (
	"sync"
	"time"
)

const (
	// linger is how long a goroutine without work stays for the next record.
	linger = time.Second
	// exitPause is the pause of a record whose goroutine ended without a verdict.
	exitPause = time.Second
)

// pool runs the handlers of a member: as many at a time as Config.Concurrency
// says, for all of its shards in turn, and for the lanes of a shard in turn. It
// also keeps count of what is in hand, see room.
//
// One mutex guards the pool and the lanes of all shards. It is taken once for
// each record.
type pool struct {
	limit int
	// wake has a token for each goroutine that is to look for work; quit is closed
	// when the idle ones are to end.
	wake, quit chan struct{}
	goroutines sync.WaitGroup

	mu   sync.Mutex
	room room
	// size counts the goroutines, idle those that are parked and have not been
	// given a token, running the handlers under way.
	size, idle, running int
	// called: a goroutine was called and has not looked for work yet.
	called bool
	closed bool
	// ring has the shards that have a lane ready.
	ring shardQueue
	// suspects are the lanes with a suspect in front, solitary is the one whose
	// turn it is.
	suspects []*lane
	solitary solitary
}

func newPool(concurrency, maxRecords int, maxBytes int64) *pool {
	return &pool{
		limit: concurrency, wake: make(chan struct{}, concurrency), quit: make(chan struct{}),
		room: newRoom(maxRecords, maxBytes),
	}
}

// busy returns how many handlers run.
func (p *pool) busy() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running
}

// close ends the goroutines, and waits for them if wait is set: one whose handler
// is stuck cannot be waited for.
func (p *pool) close(wait bool) {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.quit)
	}
	p.mu.Unlock()
	if wait {
		p.goroutines.Wait()
	}
}

// rouse sees to it that one more goroutine looks for work, if one can be had. Only
// one is called at a time, and calls the next if there is more: with handlers that
// take no time, those that are awake have done the work before many others are.
func (p *pool) rouse() {
	switch {
	case p.closed || p.called:
	case p.idle > 0:
		p.idle--
		p.called = true
		p.wake <- struct{}{} // there is a place for each goroutine
	case p.size < p.limit:
		p.size++
		p.called = true
		p.goroutines.Add(1)
		go p.serve()
	}
}

// serve works until there has been nothing to do for a while.
func (p *pool) serve() {
	var (
		la *lane
		v  verdict
	)
	defer func() {
		p.mu.Lock()
		if la != nil {
			// The handler ended its goroutine, as testing.T.FailNow does.
			v := verdict{again: true, after: exitPause}
			if exit := la.queue[0].exit; exit != nil {
				v, la.queue[0].exit = *exit, nil
			}
			p.settle(la, v)
		}
		p.size--
		if p.ring.first != nil || len(p.suspects) > 0 {
			p.rouse()
		}
		p.mu.Unlock()
		p.goroutines.Done()
	}()
	idle := time.NewTimer(linger)
	defer idle.Stop()
	for {
		var e *entry
		la, e = p.next(la, v, idle)
		if la == nil {
			return
		}
		v = la.of.do(e)
	}
}

// next settles what was worked on, if anything was, and returns what to work on,
// nil if there has been nothing for a while.
func (p *pool) next(done *lane, v verdict, idle *time.Timer) (*lane, *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done != nil {
		p.settle(done, v)
	} else {
		// It was called just now.
		p.called = false
	}
	for {
		if la := p.pick(); la != nil {
			l, e := la.of, la.queue[0]
			la.state = laneRunning
			p.running++
			l.running++
			if l.begun.less(e.id) {
				l.begun = e.id
			}
			if (p.ring.first != nil && !p.solitary.hush) || (len(p.suspects) > 0 && p.solitary.lane == nil) {
				// Each goroutine that finds work calls the next one.
				p.rouse()
			}
			if p.slack() {
				// A reader may wait until there is something to do for handlers.
				p.room.call()
			}
			return la, e
		}
		if !p.park(idle) {
			return nil, nil
		}
	}
}

// park waits for a token, without the mutex. It returns false if none came.
func (p *pool) park(idle *time.Timer) bool {
	if p.closed {
		return false
	}
	p.idle++
	p.mu.Unlock()
	idle.Reset(linger)
	select {
	case <-p.wake:
		p.mu.Lock()
		p.called = false
		return true
	case <-p.quit:
		p.mu.Lock()
		return false
	case <-idle.C:
	}
	p.mu.Lock()
	if p.idle == 0 {
		// As many tokens as goroutines are on their way, so one is ours.
		<-p.wake
		p.called = false
		return true
	}
	p.idle--
	return false
}

// pick returns the lane whose turn it is, nil if there is none.
func (p *pool) pick() *lane {
	if la := p.pickSuspect(); la != nil {
		return la
	}
	if p.solitary.hush {
		return nil
	}
	l := p.ring.pop()
	if l == nil {
		return nil
	}
	la := l.ready.pop()
	if l.ready.first != nil {
		p.ring.push(l)
	}
	return la
}

// settle notes what became of the entry in front of a lane.
func (p *pool) settle(la *lane, v verdict) {
	l, e := la.of, la.queue[0]
	p.running--
	l.running--
	if p.solitary.lane == la {
		p.solitary.end()
		p.rouse()
	}
	la.state = laneIdle
	switch {
	case l.stopped:
		l.leave(la)
	case v.again:
		if v.after > 0 {
			e.due = time.Now().Add(v.after)
		}
		l.place(la)
	default:
		l.pop(la)
		if len(la.queue) > 0 {
			l.place(la)
		} else {
			l.discard(la)
		}
	}
	p.room.freedOne(p.slack())
}

// slack reports whether handlers are idle because there is nothing for them.
func (p *pool) slack() bool { return p.ring.first == nil && p.running < p.limit }
