package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// streamSide is what a coordinator does about the stream, beside its engines: the steps
// of package service, each of them a call of its own, before which the process may
// pause, and which another coordinator may have taken meanwhile. There is no mutex: it
// is not what makes the steps safe.
type streamSide struct {
	clock stream.Clock
	// seen is the latest version of the record, with the highest shard count, that was
	// ever seen.
	seen stream.WentBack
	// looked is when it last looked for shards that were created late.
	looked time.Duration
	// settling is true while it takes steps; waiting are those who have asked for it
	// meanwhile.
	settling bool
	waiting  []func(error)
	// doubts are groups that may have lost what they had adopted.
	doubts []stream.Command
}

const (
	// streamScan is how often a coordinator looks for open steps, lookInterval how often
	// for shards that were created late.
	streamScan   = time.Second
	lookInterval = 5 * time.Second
	// maxRounds and maxTries bound what is tried in one go.
	maxRounds = 64
	maxTries  = 8
)

// errUnknown: a reply was lost, the call may have taken place.
var errUnknown = errors.New("the reply was lost")

// startStreams begins to look at the stream, with a process that has just started.
func (c *coordinator) startStreams() {
	if c.w.streams == nil {
		return
	}
	c.streamSide = streamSide{looked: c.mono()}
	life := c.life
	c.w.after(c.w.between(0, streamScan), func() { c.scan(life) })
}

// scan takes open steps now and then, and looks at the groups that were created or
// deleted through others.
func (c *coordinator) scan(life int) {
	if c.life != life {
		return
	}
	c.w.settled = true
	c.w.after(c.w.between(streamScan/2, streamScan*3/2), func() { c.scan(life) })
	if !c.up || c.w.now < c.pausedUntil {
		return
	}
	for i, m := range c.minds {
		if m.engine.Idle() && c.w.store.groups[i].revision > 0 {
			m.wake++
			c.minds[i] = c.newMind(m.group)
			c.minds[i].happen(engine.Woke{})
		}
	}
	for i, m := range c.minds {
		s := &c.w.store.stream
		if _, known := s.Group(m.group); c.w.store.groups[i].revision > 0 && s.Exists() && !known && !slices.Contains(s.Deleted, m.group) {
			c.change(0, func(stream.State, error) {}, stream.EnsureGroup{Name: m.group, Found: true})
		}
	}
	if doubts := c.doubts; len(doubts) > 0 {
		c.doubts = nil
		c.change(0, func(_ stream.State, err error) {
			if err != nil {
				c.doubts = append(c.doubts, doubts...)
			}
		}, doubts...)
	}
	if !c.settling {
		c.settle(func(error) {})
	}
}

// outside makes a call of something outside the process: after a pause perhaps, with a
// reply that may get lost.
func (c *coordinator) outside(do func() error, then func(error)) {
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
		err := do()
		if err == nil && c.w.chance(c.w.shape.LostReply) {
			c.w.counts.LostReplies++
			err = errUnknown
		}
		c.maybePause()
		c.w.after(c.w.between(0, 10*time.Millisecond), func() {
			c.w.settled = true
			if c.up && c.life == life {
				c.do(func() { then(err) })
			}
		})
	})
}

// loadStream reads the stream's record.
func (c *coordinator) loadStream(then func(s stream.State, at streamVersion, err error)) {
	var s stream.State
	var at streamVersion
	c.outside(func() error {
		if c.w.store.away() {
			return errAway
		}
		s, at = c.w.store.stream, c.w.store.streamVersion()
		return nil
	}, func(err error) {
		if err == nil {
			c.seen.Version, c.seen.HighestCount = max(c.seen.Version, s.Version), max(c.seen.HighestCount, s.HighestCount)
			c.clock.Loaded(at.instance)
			c.clock.RoutesOver(c.mono(), &s)
		}
		then(s, at, err)
	})
}

// change applies commands to the stream's record and saves it once.
func (c *coordinator) change(tries int, then func(s stream.State, err error), cmds ...stream.Command) {
	if tries >= maxTries {
		then(stream.State{}, protocol.ErrConflict)
		return
	}
	c.loadStream(func(s stream.State, at streamVersion, err error) {
		if err != nil {
			then(s, err)
			return
		}
		next, r, _, err := stream.ApplyAll(s, stream.Input{Now: c.w.wallNow(), Rules: c.w.rules}, cmds...)
		if err != nil || !r.Changed {
			then(s, err)
			return
		}
		conflict := false
		c.outside(func() (err error) {
			conflict, err = c.w.store.saveStream(c.name, at, next)
			return err
		}, func(err error) {
			if err != nil || conflict {
				// Unknown, or somebody else was faster: every command can be applied again.
				c.change(tries+1, then, cmds...)
				return
			}
			then(next, nil)
		})
	})
}

// settle takes the open steps of the stream until none is left, or only time can help.
func (c *coordinator) settle(then func(error)) {
	if c.settling {
		c.waiting = append(c.waiting, then)
		return
	}
	c.settling = true
	c.round(0, func(err error) {
		c.settling = false
		then(err)
		if len(c.waiting) > 0 && !c.settling {
			next := c.waiting[0]
			c.waiting = slices.Delete(c.waiting, 0, 1)
			c.settle(next)
		}
	})
}

// round takes the steps that are open now.
func (c *coordinator) round(n int, then func(error)) {
	if n >= maxRounds {
		then(protocol.ErrConflict)
		return
	}
	c.loadStream(func(s stream.State, _ streamVersion, err error) {
		if err != nil {
			then(err)
			return
		}
		if seen := c.overtaken(&s); seen.Version > s.Version {
			c.change(0, func(_ stream.State, err error) {
				if err != nil {
					then(err)
					return
				}
				c.round(n+1, then)
			}, seen)
			return
		}
		in := stream.Input{Now: c.w.wallNow(), RoutesOver: c.clock.RoutesOver(c.mono(), &s), Rules: c.w.rules}
		if c.mono()-c.looked >= lookInterval {
			in.Look, c.looked = true, c.mono()
		}
		turn := &turn{c: c, s: s, in: in, steps: s.Next(in)}
		if len(turn.steps) == 0 {
			then(nil)
			return
		}
		turn.take(0, func(moved bool, err error) {
			if err != nil || !moved {
				then(err)
				return
			}
			c.round(n+1, then)
		})
	})
}

// overtaken is the latest version of the stream's record that was seen, or that a group is
// known to follow.
func (c *coordinator) overtaken(s *stream.State) stream.WentBack {
	if c.w.rules.Off(rules.LostWritesAreTold) {
		return stream.WentBack{}
	}
	seen := c.seen
	for _, m := range c.minds {
		if v, _ := m.engine.View(); v != nil && v.State.StreamVersion > s.Version {
			seen.Version, seen.HighestCount = max(seen.Version, v.State.StreamVersion), max(seen.HighestCount, v.State.ReadCount)
		}
	}
	return seen
}

// turn is one round of steps, which were found in one state of the record.
type turn struct {
	c     *coordinator
	s     stream.State
	in    stream.Input
	steps []stream.Step
	done  []stream.Command
	moved bool
}

// take carries out the steps from one on, and notes those that are done.
func (t *turn) take(i int, then func(moved bool, err error)) {
	if i == len(t.steps) {
		if len(t.done) == 0 {
			then(t.moved, nil)
			return
		}
		t.c.change(0, func(_ stream.State, err error) { then(t.moved, err) }, t.done...)
		return
	}
	step := t.steps[i]
	t.step(step, func(cmd stream.Command, waits bool, err error) {
		if _, adopts := step.(stream.AdoptStep); err != nil && !adopts {
			then(false, err)
			return
		}
		if err == nil {
			t.moved = t.moved || !waits
			if cmd != nil {
				t.done = append(t.done, cmd)
			}
		}
		t.take(i+1, then)
	})
}

// step carries one step out, as package service does.
func (t *turn) step(step stream.Step, then func(cmd stream.Command, waits bool, err error)) {
	c, redis := t.c, t.c.w.streams
	switch step := step.(type) {
	case stream.ProvisionStep:
		c.provision(step, step.First, func(err error) { then(step.Done, false, err) })
	case stream.CreateGroupStep:
		t.createGroup(step, func(err error) { then(step.Done, false, err) })
	case stream.AskGroupStep:
		cmd := step.Done
		c.outside(func() error {
			at, state, err := c.w.store.read(step.Name)
			if at.Revision != 0 && state.HasActive() {
				cmd = step.Refused
			}
			return err
		}, func(err error) { then(cmd, false, err) })
	case stream.DeleteGroupStep:
		t.deleteGroup(0, step, func(cmd stream.Command, err error) { then(cmd, false, err) })
	case stream.AdoptStep:
		c.changeGroup(0, step.Name, adopt(step.Layout), func(err error) { then(step.Done, false, err) })
	case stream.NoteStep:
		then(step.Done, false, nil)
	case stream.LookStep:
		var found []stream.Shard
		c.outside(func() error {
			found = redis.lookAt(step.Shards)
			return nil
		}, func(err error) {
			if err != nil {
				then(nil, false, err)
				return
			}
			c.restore(t.s.Restore(t.in, found), func(err error) {
				proven := t.s.Prove(t.in, found)
				if err != nil || len(proven.Proofs) == 0 {
					then(nil, true, err)
					return
				}
				then(proven, false, nil)
			})
		})
	case stream.RetireStep:
		t.retire(step, then)
	case stream.FindStep:
		var found []int
		c.outside(func() error {
			found = redis.find(step.First, step.End)
			return nil
		}, func(err error) {
			if err != nil || len(found) == 0 {
				then(nil, true, err)
				return
			}
			c.w.counts.Strays += len(found)
			then(stream.FoundStrays{Shards: found}, false, nil)
		})
	default:
		c.w.violate("%s does not know the step %T", c.name, step)
	}
}

// retire removes shards whose readers have let go.
func (t *turn) retire(step stream.RetireStep, then func(cmd stream.Command, waits bool, err error)) {
	c, redis := t.c, t.c.w.streams
	read := map[int]stream.Reader{}
	c.outside(func() error {
		for _, name := range step.Readers {
			at, state, err := c.w.store.read(name)
			if err != nil {
				return err
			}
			for _, r := range step.Shards {
				if member, reads := state.Reader(r.Shard); at.Revision != 0 && reads {
					read[r.Shard] = stream.Reader{Group: name, Member: member}
				}
			}
		}
		return nil
	}, func(err error) {
		if step = step.Without(read); err != nil || len(step.Shards) == 0 {
			then(nil, true, err)
			return
		}
		var noted stream.Retire
		c.outside(func() error {
			for _, r := range step.Shards {
				if redis.retire(r, step) {
					noted.Gone = append(noted.Gone, r.Shard)
					c.w.streams.books.unread(c.w, r.Shard, t.s.Version)
				} else {
					noted.Kept = append(noted.Kept, r.Shard)
				}
			}
			return nil
		}, func(err error) { then(noted, false, err) })
	})
}

func adopt(l stream.Layout) group.Adopt {
	return group.Adopt{ShardCount: l.ShardCount, ReadCount: l.ReadCount, Closed: l.Closed, StreamVersion: l.Version}
}

// restore brings groups of ours back to shards, one after the other.
func (c *coordinator) restore(steps []stream.ProvisionStep, then func(error)) {
	if len(steps) == 0 {
		then(nil)
		return
	}
	c.provision(steps[0], steps[0].First, func(err error) {
		if err != nil {
			then(err)
			return
		}
		c.restore(steps[1:], then)
	})
}

// provision makes shards exist from one on: not always in one go.
func (c *coordinator) provision(step stream.ProvisionStep, from int, then func(error)) {
	end := step.End
	if from+1 < end && c.w.chance(c.w.shape.CoordPause) {
		end = from + 1 + c.w.rng.IntN(end-from-1)
	}
	c.outside(func() error {
		for i := from; i < end; i++ {
			c.w.streams.provision(i, step.Groups, step.Start, step.Renew)
		}
		return nil
	}, func(err error) {
		if err != nil || end == step.End {
			then(err)
			return
		}
		c.provision(step, end, then)
	})
}

// routing tells a producer its route, from the record of that moment.
func (c *coordinator) routing(answer func(version int64, count int)) {
	if !c.up {
		return
	}
	c.do(func() {
		c.loadStream(func(s stream.State, _ streamVersion, err error) {
			if err == nil {
				answer(s.Version, s.ShardCount)
			}
		})
	})
}

// order carries out an operator's command.
func (c *coordinator) order(cmd stream.Command) {
	if !c.up {
		return
	}
	c.do(func() {
		c.change(0, func(_ stream.State, err error) {
			if err == nil {
				c.settle(func(error) {})
			}
		}, cmd)
	})
}
