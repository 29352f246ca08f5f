package service

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

const (
	// maxRounds bounds the rounds of steps that are taken in one go. A stream of the
	// largest size that is scaled to zero takes less than half of it.
	maxRounds = 256
	// scansAtOnce bounds the streams whose steps are taken at the same time, so that
	// one that hangs does not keep the others waiting.
	scansAtOnce = 8
)

// settle takes the open steps of a stream until none is left, or only time can help.
// It is safe to run on several coordinators: each step can be repeated. The record is
// read when it is our turn, since another coordinator may just have taken the steps.
func (c *Coordinator) settle(ctx context.Context, prefix string) (stream.State, error) {
	leave, err := c.enter(ctx, prefix)
	if err != nil {
		return stream.State{}, err
	}
	defer leave()
	for range maxRounds {
		s, at, err := c.loadStream(ctx, prefix)
		if err != nil {
			return stream.State{}, err
		}
		steps := s.Next(c.streamInput(&s, true))
		if len(steps) == 0 {
			c.troubled(prefix, nil)
			return s, nil
		}
		moved, err := c.take(ctx, &s, at, steps)
		if err != nil {
			c.logTrouble(ctx, prefix, err)
			return s, err
		}
		if !moved {
			c.troubled(prefix, nil)
			return s, nil
		}
	}
	return stream.State{}, fmt.Errorf("settle stream %s: %w", prefix, protocol.ErrConflict)
}

// take carries steps out, in order, and notes those that are done; moved is false when
// none of them led on. A group that cannot follow does not keep the rest from going on.
func (c *Coordinator) take(ctx context.Context, s *stream.State, at port.Version, steps []stream.Step) (moved bool, err error) {
	var done []stream.Command
	var lagging []error
	for _, step := range steps {
		cmd, waits, err := c.step(ctx, s, at, step)
		if _, adopts := step.(stream.AdoptStep); adopts && err != nil {
			lagging = append(lagging, err)
			continue
		}
		if err != nil {
			return false, err
		}
		moved = moved || !waits
		if cmd != nil {
			done = append(done, cmd)
		}
	}
	if len(done) > 0 {
		if _, err := c.changeStream(ctx, s.Prefix, done...); err != nil {
			return false, err
		}
	}
	if !moved {
		return false, errors.Join(lagging...)
	}
	return true, nil
}

// step carries one step out and returns the command that notes it, if any. waits is
// true when there was nothing to be done yet.
func (c *Coordinator) step(ctx context.Context, s *stream.State, at port.Version, step stream.Step) (cmd stream.Command, waits bool, err error) {
	switch step := step.(type) {
	case stream.ProvisionStep:
		return step.Done, false, c.provision(ctx, s.Prefix, step)
	case stream.CreateGroupStep:
		return step.Done, false, c.createAggregate(ctx, s, step)
	case stream.AskGroupStep:
		cmd, err := c.askGroup(ctx, s.Prefix, step)
		return cmd, false, err
	case stream.DeleteGroupStep:
		cmd, err := c.deleteAggregate(ctx, s.Prefix, step)
		return cmd, false, err
	case stream.DeleteStreamStep:
		return nil, false, c.removeStream(ctx, s.Prefix, at, step)
	case stream.AdoptStep:
		return step.Done, false, c.changeGroup(ctx, port.GroupKey{Stream: s.Prefix, Group: step.Name}, adopt(step.Layout))
	case stream.NoteStep:
		return step.Done, false, nil
	case stream.LookStep:
		return c.prove(ctx, s, step)
	case stream.RetireStep:
		return c.retire(ctx, s.Prefix, step)
	case stream.FindStep:
		return c.find(ctx, s.Prefix, step)
	}
	return nil, false, fmt.Errorf("stream %s: unknown step %T", s.Prefix, step)
}

func adopt(l stream.Layout) group.Adopt {
	return group.Adopt{ShardCount: l.ShardCount, ReadCount: l.ReadCount, Closed: l.Closed, StreamVersion: l.Version}
}

func (c *Coordinator) provision(ctx context.Context, prefix string, step stream.ProvisionStep) error {
	if c.ports.Streams == nil {
		return nil
	}
	return c.ports.Streams.Provision(ctx, port.Provision{
		Prefix: prefix, First: step.First, End: step.End, Groups: step.Groups, Start: step.Start, Renew: step.Renew,
	})
}

// scanStreams takes the open steps of all streams: what a coordinator that was
// killed has left behind, and what had to wait for its time.
func (c *Coordinator) scanStreams(ctx context.Context) {
	call, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	prefixes, err := c.ports.Store.ListStreams(call)
	if err != nil {
		c.storeTrouble(ctx, "list streams", err)
		return
	}
	c.forgetOthers(prefixes)
	// What is wrong with it was logged, and is no reason for the others to wait: one of
	// several servers may be away.
	_ = c.importStreams(ctx, prefixes)
	var scans sync.WaitGroup
	defer scans.Wait()
	free := make(chan struct{}, scansAtOnce)
	for _, prefix := range prefixes {
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		scans.Go(func() {
			defer func() { <-free }()
			c.scanStream(ctx, prefix)
		})
	}
}

func (c *Coordinator) scanStream(ctx context.Context, prefix string) {
	if err := c.tellDoubts(ctx, prefix); err != nil {
		c.logTrouble(ctx, prefix, err)
		return
	}
	s, _, err := c.loadStream(ctx, prefix)
	if err == nil {
		s, err = c.overtaken(ctx, s)
	}
	if err == nil && len(s.Next(c.streamInput(&s, false))) == 0 && !c.mayHaveStrays(&s) {
		return
	}
	if err != nil {
		c.logTrouble(ctx, prefix, err)
		return
	}
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	_, err = c.settle(ctx, prefix)
	if err != nil {
		c.logTrouble(ctx, prefix, err)
	}
}

// logTrouble tells operators that the steps of a stream cannot be taken; of the same
// trouble, now and then.
func (c *Coordinator) logTrouble(ctx context.Context, prefix string, err error) {
	if ctx.Err() == nil && c.troubled(prefix, err) {
		c.cfg.Logger.WarnContext(ctx, "stream is not settled, which is tried again", "stream", prefix, "err", err)
	}
}
