package consumer

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// outlet is the way of acknowledgements to one node. Each has its own pace: a node
// that does not answer holds up those of its own shards only.
type outlet struct {
	addr string
	// busy: a goroutine sends; again: there was more to send meanwhile, and hurried
	// that somebody waits for it. Guarded by the mutex of the acker.
	busy, again, hurried bool

	// The fields below belong to the goroutine that sends.
	pace    backoff
	ailment complaint
}

// maxOutlets bounds the nodes that are remembered. It only ever fills up where
// nodes come and go for ever.
const maxOutlets = 1000

// dispatch has each node's acknowledgements sent that is not busy with earlier ones.
func (a *acker) dispatch(ctx context.Context, hurried bool) {
	a.mu.Lock()
	waiting := make([]*ackQueue, 0, len(a.queues))
	for q := range a.queues {
		if q.waits() {
			waiting = append(waiting, q)
		}
	}
	a.mu.Unlock()
	byNode := map[string][]*ackQueue{}
	for _, q := range waiting {
		addr := a.servers.home(ctx, q.shard.Key)
		byNode[addr] = append(byNode[addr], q)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for addr, queues := range byNode {
		o := a.outlets[addr]
		if o == nil {
			if len(a.outlets) >= maxOutlets {
				a.forgetIdle()
			}
			o = &outlet{addr: addr, pace: redisBackoff()}
			a.outlets[addr] = o
		}
		if o.busy {
			o.again, o.hurried = true, o.hurried || hurried
			continue
		}
		o.busy = true
		a.sending.Go(func() { a.send(ctx, o, queues) })
	}
}

// forgetIdle drops the nodes that nothing is sent to; the caller holds the mutex.
func (a *acker) forgetIdle() {
	for addr, o := range a.outlets {
		if !o.busy {
			delete(a.outlets, addr)
		}
	}
}

// send sends what the queues of a node have. After an error it waits and ends: the
// shards may have another node by then.
func (a *acker) send(ctx context.Context, o *outlet, queues []*ackQueue) {
	for more := true; more; {
		var err error
		if more, err = a.flush(ctx, queues); err != nil {
			a.suffer(ctx, o, err)
			break
		}
		o.pace.reset()
		if attempts, since, say := o.ailment.over(); say {
			a.log.Info("records are acknowledged again", slog.String("node", o.addr), slog.Int("attempts", attempts),
				slog.Duration("after", time.Since(since).Round(time.Millisecond)))
		}
	}
	a.mu.Lock()
	again, hurried := o.again, o.hurried
	o.busy, o.again, o.hurried = false, false, false
	a.mu.Unlock()
	for _, q := range queues {
		again = again || q.waits()
	}
	// Without a lease nothing is sent, and the queues are about to be closed.
	if again && a.gate.left() > 0 {
		poke(a.wake)
	}
	if hurried {
		poke(a.hurry)
	}
}

// suffer logs trouble and waits it out.
func (a *acker) suffer(ctx context.Context, o *outlet, err error) {
	if ctx.Err() != nil {
		return
	}
	a.servers.look(ctx)
	pause := o.pace.pause()
	complain(a.log, "records could not be acknowledged", &o.ailment, a.servers.diagnose(err, a.stream), err, pause, slog.String("node", o.addr))
	sleep(ctx, nil, pause)
}

// refused lets the shard of a command rest that the server has refused. It was
// reached, so the others of the node go on.
func (a *acker) refused(ctx context.Context, q *ackQueue, err error) {
	a.servers.look(ctx)
	pause := q.rest()
	if !q.known() {
		complain(a.log, "records could not be acknowledged", &q.ailment, a.servers.diagnose(err, a.stream), err, pause, slog.Int("shard", q.shard.Index))
	}
}

// accepted ends the trouble of a shard, if there was one.
func (a *acker) accepted(q *ackQueue) {
	q.mu.Lock()
	q.pace.reset()
	q.mu.Unlock()
	if attempts, since, say := q.ailment.over(); say {
		a.log.Info("records are acknowledged again", slog.Int("shard", q.shard.Index), slog.Int("attempts", attempts),
			slog.Duration("after", time.Since(since).Round(time.Millisecond)))
	}
}

// ackCommand is one XACK.
type ackCommand struct {
	queue *ackQueue
	ids   []string
	group string
	cmd   *redis.IntCmd
	// written: it was handed to a connection.
	written bool
}

// MarshalBinary makes the command usable as its own argument, the group. The client
// asks for the bytes when it writes the command to a connection.
func (c *ackCommand) MarshalBinary() ([]byte, error) {
	c.written = true
	return []byte(c.group), nil
}

// outcome tells what became of the command in a pipeline that ended with whole. A
// pipeline that found no connection leaves its commands without an error, although
// none of them was sent.
func (c *ackCommand) outcome(whole error) error {
	err := c.cmd.Err()
	switch {
	case err == nil && !c.written:
		return whole
	case isGroupGone(err):
		// There is nothing to acknowledge any more; the worker notices.
		return nil
	}
	return err
}

// flush sends one XACK for each of the queues that has something, in one pipeline.
// It reports whether there is more to send.
func (a *acker) flush(ctx context.Context, queues []*ackQueue) (more bool, err error) {
	if a.gate.left() <= 0 {
		// No shard is ours for certain. Their queues will be closed, or go on
		// with the next tenure of the lease.
		return false, nil
	}
	commands := make([]*ackCommand, 0, len(queues))
	for _, q := range queues {
		if ids := q.take(); len(ids) > 0 {
			commands = append(commands, &ackCommand{queue: q, ids: ids, group: a.group})
		}
	}
	if len(commands) == 0 {
		return false, nil
	}
	ctx, done := context.WithTimeout(ctx, a.timeout)
	defer done()
	pipe := a.servers.shared.Pipeline()
	for _, c := range commands {
		args := make([]any, 3, 3+len(c.ids))
		args[0], args[1], args[2] = "xack", c.queue.shard.Key, c
		for _, id := range c.ids {
			args = append(args, id)
		}
		c.cmd = redis.NewIntCmd(ctx, args...)
		_ = pipe.Process(ctx, c.cmd)
	}
	sent := time.Now()
	_, whole := pipe.Exec(ctx)
	took := time.Since(sent)
	for _, c := range commands {
		failed := c.outcome(whole)
		c.queue.settle(c.ids, failed)
		notify(a.observing, Observer.Acknowledged, AcknowledgedEvent{Shard: c.queue.shard, Records: len(c.ids), RoundTrip: took, Err: failed})
		switch {
		case isReply(failed) && c.written:
			a.refused(ctx, c.queue, failed)
			continue
		case failed != nil:
			// One of them tells enough.
			err = failed
			continue
		}
		a.accepted(c.queue)
		a.stats.acknowledged.Add(uint64(c.cmd.Val()))
		more = more || len(c.ids) == ackBatch
	}
	return more, err
}
