package service

import (
	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// changed passes on what the signal tells. A group that has no runner here yet is
// found by the event loop.
func (c *Coordinator) changed(change port.Change) {
	if !change.Any {
		c.tell(change.Key, engine.Changed{Revision: change.Revision, Nonce: change.Nonce})
		return
	}
	c.mu.Lock()
	keys := make([]port.GroupKey, 0, len(c.groups))
	for key := range c.groups {
		keys = append(keys, key)
	}
	c.mu.Unlock()
	for _, key := range keys {
		c.tell(key, engine.Changed{})
	}
}

func (c *Coordinator) tell(key port.GroupKey, what engine.Changed) {
	if r := c.runner(key, false); r != nil {
		r.send(what)
		c.release(r)
	}
}
