package service

import (
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// publish tells logs and subscribers what happened to a group.
func (c *Coordinator) publish(key port.GroupKey, events []group.Event) {
	if len(events) == 0 {
		return
	}
	log := c.cfg.Logger.With("coordinator", c.cfg.ID, "stream", key.Stream, "group", key.Group)
	for _, e := range events {
		logGroupEvent(log, e)
	}
	c.doubt(key, events)
	if c.cfg.OnGroupEvents != nil {
		c.cfg.OnGroupEvents(key, events)
	}
}

// publishStream tells logs and subscribers what happened to a stream.
func (c *Coordinator) publishStream(prefix string, events []stream.Event) {
	if len(events) == 0 {
		return
	}
	log := c.cfg.Logger.With("coordinator", c.cfg.ID, "stream", prefix)
	for _, e := range events {
		logStreamEvent(log, e)
	}
	if c.cfg.OnStreamEvents != nil {
		c.cfg.OnStreamEvents(prefix, events)
	}
}
