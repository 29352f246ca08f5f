package sim

import (
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
)

// signal tells every coordinator that a group was written or deleted, where the shape
// has signals; its own saves reach a coordinator, too.
func (w *world) signal(group string, what engine.Changed) {
	if !w.shape.Signals {
		return
	}
	for _, c := range w.coords {
		copies := 1
		switch {
		case w.chance(w.shape.Lose):
			continue
		case w.chance(w.shape.Repeat):
			copies++
		}
		life := c.life
		for range copies {
			late := w.between(0, 20*time.Millisecond)
			if w.chance(w.shape.Middle) {
				late = w.between(0, w.shape.Timings.HeartbeatInterval)
			}
			w.after(late, func() {
				w.settled = true
				if c.up && c.life == life {
					w.counts.Signals++
					c.mind(group).happen(what)
				}
			})
		}
	}
}

// listens tells a coordinator that has just begun to listen that anything may have
// happened.
func (c *coordinator) listens() {
	if !c.w.shape.Signals {
		return
	}
	for _, m := range c.minds {
		m.happen(engine.Changed{})
	}
}
