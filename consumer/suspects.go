package consumer

import "time"

const (
	// quietWait is how long a suspect waits for the handlers under way to end, and
	// solitude for how long nothing else begins beside it. Both bound what it costs
	// the others where handlers take long; what ends a process mostly does so sooner.
	quietWait = 5 * time.Second
	solitude  = 5 * time.Second
	// suspectTurn is how long the next suspect waits for one that has begun: a handler
	// that never returns must not keep all others for ever from being tried.
	suspectTurn = 30 * time.Second
)

// solitary is the suspect whose turn it is, one for a member at a time, for as long as
// suspectTurn. It runs
// alone, so that if the process ends, nothing is under suspicion that merely ran
// beside it: what is begun with it may be counted again, and would in the end be
// taken for what ends processes.
type solitary struct {
	lane *lane
	// begun: its handler runs. Before, it waits for the others to end, unless it is
	// late.
	begun, late bool
	// hush keeps others from beginning.
	hush bool
	// turn tells the timers of one suspect from those of the next.
	turn  uint64
	timer *time.Timer
	since time.Time
	// next is until when the others go first again, if they have anything to do.
	next time.Time
}

// pickSuspect returns the lane of a suspect that may begin now.
func (p *pool) pickSuspect() *lane {
	s := &p.solitary
	if s.lane == nil {
		if len(p.suspects) == 0 || (p.ring.first != nil && time.Now().Before(s.next)) {
			return nil
		}
		s.lane = p.suspects[0]
		s.lane.state = laneChosen
		p.suspects = p.suspects[1:]
		s.hush, s.since = true, time.Now()
		p.after(quietWait, func() { s.late = true })
	}
	if s.begun || (p.running > 0 && !s.late) {
		return nil
	}
	s.begun = true
	s.timer.Stop()
	p.after(solitude, func() {
		s.hush = false
		p.after(suspectTurn-solitude, s.end)
	})
	return s.lane
}

// after does something, with the mutex, unless the suspect has had its turn by
// then.
func (p *pool) after(d time.Duration, do func()) {
	s := &p.solitary
	s.turn++
	turn := s.turn
	s.timer = time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.turn == turn {
			do()
			p.rouse()
		}
	})
}

// end lets the others begin again, for as long at least as they had to wait.
func (s *solitary) end() {
	s.timer.Stop()
	s.turn++
	now := time.Now()
	s.next = now.Add(min(now.Sub(s.since), quietWait+solitude))
	s.lane, s.begun, s.late, s.hush = nil, false, false, false
}
