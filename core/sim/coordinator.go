package sim

import (
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// coordinator is a process around an engine. It can pause before each of its
// steps, crash, and start again knowing nothing.
type coordinator struct {
	w    *world
	name string
	up   bool
	// life counts the starts; what belongs to an earlier one is dropped.
	life int
	// minds are its engines, one for each group, in the order of the shape's groups.
	minds []*mind
	// born and rate make up its monotonic clock.
	born        time.Duration
	rate        float64
	pausedUntil time.Duration
	// inbox holds what is to be done after a pause.
	inbox []func()
	waits map[uint64]func(protocol.HeartbeatResponse)
	next  uint64
	streamSide
}

// mind is the engine of one group.
type mind struct {
	c      *coordinator
	group  string
	engine *engine.Engine
	wake   int
}

func (c *coordinator) start() {
	c.up, c.life = true, c.life+1
	c.born = c.w.now
	c.rate = c.w.clockRate()
	c.pausedUntil = 0
	c.inbox = nil
	c.waits = map[uint64]func(protocol.HeartbeatResponse){}
	c.minds = make([]*mind, len(c.w.groups))
	for i, name := range c.w.groups {
		c.minds[i] = c.newMind(name)
	}
	c.w.logf("%s starts", c.name)
	for _, m := range c.minds {
		m.happen(engine.Woke{})
	}
	c.listens()
	c.startStreams()
}

func (c *coordinator) newMind(group string) *mind {
	return &mind{c: c, group: group, engine: engine.New(engine.Config{
		Stream: "s", Group: group, TickInterval: c.w.shape.Tick, Timings: c.w.shape.Timings, Rules: c.w.rules,
	})}
}

// mind returns the engine of a group.
func (c *coordinator) mind(group string) *mind { return c.minds[slices.Index(c.w.groups, group)] }

func (c *coordinator) crash() {
	c.w.logf("%s crashes", c.name)
	c.w.counts.CoordCrashes++
	c.up = false
	life := c.life
	c.w.after(c.w.between(10*time.Millisecond, c.w.shape.Timings.Lease), func() {
		if !c.up && c.life == life {
			c.start()
		}
	})
}

// clockRate draws how fast a clock runs.
func (w *world) clockRate() float64 {
	return 1 + (2*w.rng.Float64()-1)*w.shape.Drift
}

func (c *coordinator) mono() time.Duration {
	return time.Duration(float64(c.w.now-c.born) * c.rate)
}

// real converts a time on the coordinator's clock.
func (c *coordinator) real(mono time.Duration) time.Duration {
	return c.born + time.Duration(float64(mono)/c.rate) + 1
}

// receive takes a heartbeat in; answer is called when there is one.
func (c *coordinator) receive(group string, q *protocol.Heartbeat, answer func(protocol.HeartbeatResponse)) {
	if !c.up {
		return
	}
	c.next++
	c.waits[c.next] = answer
	c.mind(group).happen(engine.Arrived{ID: c.next, Request: q})
}

// do runs something in the process, now or after a pause.
func (c *coordinator) do(what func()) {
	if c.w.now < c.pausedUntil {
		c.inbox = append(c.inbox, what)
		return
	}
	what()
}

// wallNow is what every coordinator takes for the time of day.
func (w *world) wallNow() time.Time { return wallStart.Add(w.now.Truncate(time.Millisecond)) }

// happen tells the engine something, now or after a pause.
func (m *mind) happen(what engine.Happening) {
	m.c.do(func() {
		in := engine.Input{Mono: m.c.mono(), Now: m.c.w.wallNow(), ID: m.c.w.id("n")}
		for _, effect := range m.engine.Step(in, what) {
			m.carryOut(effect)
		}
	})
}

// wakeUp goes on after a pause.
func (c *coordinator) wakeUp() {
	if !c.up || c.w.now < c.pausedUntil {
		return
	}
	inbox := c.inbox
	c.inbox = nil
	for _, what := range inbox {
		c.do(what)
	}
}

// maybePause stops the process before its next step, in one of many.
func (c *coordinator) maybePause() {
	if c.w.now < c.pausedUntil || !c.w.chance(c.w.shape.CoordPause) {
		return
	}
	t := c.w.shape.Timings
	long := c.w.between(t.HeartbeatInterval/2, t.Lease)
	if c.w.rng.IntN(3) == 0 {
		long = c.w.between(t.Lease, 2*t.Lease)
	}
	c.pausedUntil = c.w.now + long
	c.w.counts.CoordPauses++
	c.w.logf("%s pauses for %s", c.name, long.Truncate(time.Millisecond))
	life := c.life
	c.w.after(long, func() {
		if c.life == life {
			c.wakeUp()
		}
	})
}

func (m *mind) carryOut(effect engine.Effect) {
	c, store := m.c, m.c.w.store
	switch e := effect.(type) {
	case engine.Answer:
		c.w.watch.answered(c.w, m.group, c.name, &e.Response)
		if answer, waits := c.waits[e.ID]; waits {
			delete(c.waits, e.ID)
			answer(e.Response)
		}
	case engine.WakeAt:
		m.wake++
		wake, life := m.wake, c.life
		c.w.after(c.real(e.Mono)-c.w.now, func() {
			c.w.settled = true
			if c.up && c.life == life && m.wake == wake {
				m.happen(engine.Woke{})
			}
		})
	case engine.Load:
		m.call(func() engine.Happening { return store.load(m.group, e) }, func() engine.Happening { return engine.Loaded{Err: errAway} })
	case engine.Renew:
		m.call(func() engine.Happening { return store.renew(m.group, e) }, func() engine.Happening { return engine.Renewed{Outcome: engine.Unknown} })
	case engine.Save:
		m.call(func() engine.Happening { return store.save(m.group, e) }, func() engine.Happening { return engine.Saved{Outcome: engine.Unknown} })
	case engine.Ensure:
		m.ensure(0)
	case engine.Publish:
		c.publish(m.group, e.Events)
	case engine.Complain:
		c.w.violate("%s complains: %v", c.name, e.Err)
	case engine.Unlock:
	}
}

// call carries a store call out: after a pause perhaps, with a reply that may
// get lost.
func (m *mind) call(do, lost func() engine.Happening) {
	c := m.c
	c.maybePause()
	life := c.life
	ask := max(c.pausedUntil-c.w.now, 0) + c.w.between(0, 10*time.Millisecond)
	if c.w.chance(c.w.shape.Middle / 4) {
		ask += c.w.between(0, c.w.shape.Timings.HeartbeatInterval)
	}
	c.w.after(ask, func() {
		c.w.settled = true
		if c.life != life || (!c.up && c.w.rng.IntN(2) == 0) {
			// It crashed before it could ask, or while the request was on its way.
			return
		}
		reply := do()
		if lost != nil && c.w.chance(c.w.shape.LostReply) {
			c.w.counts.LostReplies++
			reply = lost()
		}
		c.maybePause()
		c.w.after(c.w.between(0, 10*time.Millisecond), func() {
			c.w.settled = true
			if c.up && c.life == life && reply != nil {
				m.happen(reply)
			}
		})
	})
}

// publish counts and tells what happened.
func (c *coordinator) publish(name string, events []group.Event) {
	for _, e := range events {
		switch e := e.(type) {
		case group.MemberJoined:
			c.w.counts.Joins++
			if e.Replaced && c.w.watch.rejoins[e.Incarnation] {
				c.w.violate("%s/%s displaces another process although it only comes back", e.Member, e.Incarnation)
			}
			c.w.logf("%s: %s/%s joined in %d", c.name, e.Member, e.Incarnation, e.Epoch)
		case group.MemberEnded:
			c.w.counts.ended(e.Reason)
			c.w.logf("%s: %s/%s ended: %s %s", c.name, e.Member, e.Incarnation, e.Reason, e.Detail)
		case group.ShardGranted:
			c.w.counts.Grants++
			c.w.logf("%s: shard %d granted to %s in %d", c.name, e.Shard, e.Member, e.Epoch)
		case group.ShardRevoked:
			c.w.counts.Revokes++
			c.w.logf("%s: shard %d revoked from %s in %d", c.name, e.Shard, e.Member, e.Epoch)
		case group.ShardReleased:
			if e.Cause == group.ByTimeout {
				c.w.watch.late(e.Member, c.w.now)
			}
			c.w.logf("%s: shard %d released by %s, %s", c.name, e.Shard, e.Member, e.Cause)
		case group.CorrectionOpened:
			c.doubts = append(c.doubts, stream.GroupWentBack{Name: name})
			c.w.counts.Corrections++
			c.w.logf("%s: correction %d: %s", c.name, e.Jump, e.Reason)
		case group.CorrectionEnded:
			c.doubts = append(c.doubts, stream.GroupWentBack{Name: name})
			c.w.logf("%s: correction %d has ended", c.name, e.Jump)
		case group.TargetChanged:
			c.w.counts.Targets++
			c.w.counts.Moves += e.Moves
		}
	}
}

// maxEnsure bounds how often the steps to a group are begun.
const maxEnsure = 8

// ensure takes the steps to a group, as the service does: each of them is a call
// of the store of its own, before which the process may pause, and which another
// coordinator may have taken meanwhile.
func (m *mind) ensure(tried int) {
	if m.c.w.streams != nil {
		m.ensureSettled()
		return
	}
	done := func(err error) engine.Happening { return engine.Ensured{Err: err} }
	again := func() engine.Happening {
		if tried >= maxEnsure {
			return done(protocol.ErrConflict)
		}
		m.ensure(tried + 1)
		return nil
	}
	s := m.c.w.store
	var seen stream.State
	var at int64
	m.call(func() engine.Happening {
		if s.away() {
			return done(errAway)
		}
		seen, at = s.stream, s.streamRevision
		g, there := seen.Group(m.group)
		switch {
		case there && g.Phase == stream.GroupLive && s.group(m.group).revision == 0:
			return done(errLost)
		case there && g.Phase == stream.GroupLive:
			return done(nil)
		}
		m.call(func() engine.Happening {
			if there {
				if err := s.create(m.group, seen.Layout(), g.Again); err != nil {
					return done(err)
				}
				if ok, err := s.changeStream(at, stream.GroupCreated{Name: m.group}); !ok || err != nil {
					return again()
				}
				// Nothing has changed since it was seen, and all of this is one step here.
				if !g.Again || m.c.w.rules.Off(rules.RecreatedGroupWaits) {
					s.confirm(m.group)
				}
				return done(nil)
			}
			if _, err := s.changeStream(at, stream.EnsureGroup{Name: m.group, ByJoin: true}); err != nil {
				return done(err)
			}
			return again()
		}, nil)
		return nil
	}, nil)
}

// ensureSettled takes the steps to a group where the stream has others, too.
func (m *mind) ensureSettled() {
	c := m.c
	done := func(err error) { m.happen(engine.Ensured{Err: err}) }
	c.change(0, func(s stream.State, err error) {
		if g, there := s.Group(m.group); err != nil || (there && g.Phase == stream.GroupLive) {
			if err == nil && c.w.store.group(m.group).revision == 0 {
				err = errLost
			}
			done(err)
			return
		}
		c.settle(done)
	}, stream.EnsureGroup{Name: m.group, ByJoin: true})
}
