package sim

import (
	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// createGroup makes the aggregate of a group unless there is one, and has it confirmed.
func (t *turn) createGroup(step stream.CreateGroupStep, then func(error)) {
	t.c.outside(func() error { return t.c.w.store.create(step.Name, t.s.Layout(), step.Again) }, func(err error) {
		if err != nil {
			then(err)
			return
		}
		t.c.confirm(0, step.Name, then)
	})
}

// confirm lets a group grant shards if the stream says that it is a new one, and takes
// it back if the stream does not want it any more.
func (c *coordinator) confirm(tries int, name string, then func(error)) {
	if tries >= maxTries {
		then(protocol.ErrConflict)
		return
	}
	store := c.w.store
	var at engine.Version
	var state group.State
	c.outside(func() (err error) {
		at, state, err = store.read(name)
		return err
	}, func(err error) {
		if err != nil || at.Revision == 0 {
			then(err)
			return
		}
		c.loadStream(func(s stream.State, _ streamVersion, err error) {
			if err != nil {
				then(err)
				return
			}
			g, _ := s.Group(name)
			switch {
			case !state.Unconfirmed():
				then(nil)
				return
			case s.Unwanted(name):
				c.outside(func() error {
					_, err := store.drop(name, at)
					return err
				}, then)
				return
			case g.Phase != stream.GroupCreating, g.Again && c.w.rules.On(rules.RecreatedGroupWaits):
				then(nil)
				return
			}
			c.saveGroup(name, at, state, group.Confirm{}, func(done bool, err error) {
				if done || err != nil {
					then(err)
					return
				}
				c.confirm(tries+1, name, then)
			})
		})
	})
}

// deleteGroup removes the aggregate of a group.
func (t *turn) deleteGroup(tries int, step stream.DeleteGroupStep, then func(stream.Command, error)) {
	c, store := t.c, t.c.w.store
	if tries >= maxTries {
		then(nil, protocol.ErrConflict)
		return
	}
	var at engine.Version
	var state group.State
	c.outside(func() (err error) {
		at, state, err = store.read(step.Name)
		return err
	}, func(err error) {
		if err != nil {
			then(nil, err)
			return
		}
		c.loadStream(func(s stream.State, _ streamVersion, err error) {
			if err != nil || !s.Goes(step.Name) {
				then(nil, err)
				return
			}
			done := step.Done
			if step.Force || len(state.Lives) > 0 {
				done = step.DoneHeld
			}
			dropped := false
			c.outside(func() (err error) {
				dropped, err = store.drop(step.Name, at)
				return err
			}, func(err error) {
				switch {
				case err != nil:
					then(nil, err)
				case !dropped:
					t.deleteGroup(tries+1, step, then)
				case step.DeleteData:
					c.outside(func() error {
						c.w.streams.removeGroup(step.Name, step.End)
						return nil
					}, func(err error) { then(done, err) })
				default:
					then(done, nil)
				}
			})
		})
	})
}

// changeGroup applies a command to a group past the engine.
func (c *coordinator) changeGroup(tries int, name string, cmd group.Command, then func(error)) {
	if tries >= maxTries {
		then(protocol.ErrConflict)
		return
	}
	var at engine.Version
	var state group.State
	c.outside(func() (err error) {
		at, state, err = c.w.store.read(name)
		return err
	}, func(err error) {
		if err == nil && at.Revision == 0 {
			err = protocol.ErrGroupNotFound
		}
		if err != nil {
			then(err)
			return
		}
		c.saveGroup(name, at, state, cmd, func(done bool, err error) {
			if done || err != nil {
				then(err)
				return
			}
			c.changeGroup(tries+1, name, cmd, then)
		})
	})
}

// saveGroup applies a command to a group as it was loaded, and saves it; done is false
// when the group has changed since, or perhaps.
func (c *coordinator) saveGroup(name string, at engine.Version, state group.State, cmd group.Command, then func(done bool, err error)) {
	next, r, events, err := group.Apply(state, group.Input{Now: c.w.wallNow(), ID: c.w.id("x"), Rules: c.w.rules}, state.LoadedFrom(at.Instance, cmd))
	if err != nil || !r.Changed {
		then(true, err)
		return
	}
	conflict := false
	c.outside(func() (err error) {
		conflict, err = c.w.store.saveGroup(name, at, next)
		return err
	}, func(err error) {
		if err != nil || conflict {
			then(false, nil)
			return
		}
		c.publish(name, events)
		then(true, nil)
	})
}
