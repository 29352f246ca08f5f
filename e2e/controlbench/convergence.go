package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// stormTime is within what the members of a storm start.
const stormTime = 100 * time.Millisecond

// slow are timings with an interval that nobody is to wait for.
var slow = protocol.Timings{HeartbeatInterval: 5 * time.Second, Lease: 15 * time.Second, RebalanceTimeout: time.Minute}

// groupsStage is a coordinator on which each measurement has a stream of its own.
type groupsStage struct {
	b *bench
	c *coordinator
	n int
	// play takes the figures of one round.
	play func(ctx context.Context, s *groupsStage) (measured, error)
}

func openConvergence(ctx context.Context, b *bench) (stage, error) {
	return openGroups(ctx, b, slow, converge)
}

func openStorm(ctx context.Context, b *bench) (stage, error) {
	return openGroups(ctx, b, protocol.Timings{}, storm)
}

func openGroups(ctx context.Context, b *bench, t protocol.Timings, play func(context.Context, *groupsStage) (measured, error)) (stage, error) {
	c, err := startCoordinator(ctx, plan{redis: b.redis.addr, timings: t, http: true})
	if err != nil {
		return nil, err
	}
	return &groupsStage{b: b, c: c, play: play}, nil
}

func (s *groupsStage) close(ctx context.Context) error { return s.c.close(ctx) }

func (s *groupsStage) round(ctx context.Context, _ int) (measured, error) { return s.play(ctx, s) }

// stream makes a stream of its own for a measurement.
func (s *groupsStage) stream(ctx context.Context, shards int) (string, error) {
	s.n++
	name := fmt.Sprintf("orders-%d", s.n)
	return name, s.c.declare(ctx, name, shards)
}

// converge times what members of the consumer module see of a start, a join and a
// leave.
func converge(ctx context.Context, s *groupsStage) (measured, error) {
	var starts, joins, leaves httpload.Histogram
	detours := 0
	for range s.b.cycles {
		c, err := s.cycle(ctx)
		if err != nil {
			return nil, err
		}
		starts.Record(c.start)
		joins.Record(c.join)
		leaves.Record(c.leave)
		detours += c.detours
	}
	p99 := func(h *httpload.Histogram) float64 { return milliseconds(h.Quantile(0.99)) }
	return measured{"start": p99(&starts), "join": p99(&joins), "leave": p99(&leaves), "detours": float64(detours)}, nil
}

type cycle struct {
	start, join, leave time.Duration
	// detours are the assignments beyond those that were needed.
	detours int
}

func (s *groupsStage) cycle(ctx context.Context) (c cycle, err error) {
	name, err := s.stream(ctx, s.b.groupShards)
	if err != nil {
		return c, err
	}
	w := httpload.NewWatch(s.b.groupShards)
	var all []*running
	defer func() { err = errors.Join(err, leaveAll(ctx, all, false)) }()
	// await returns how long it took, and counts what was beyond need.
	await := func(since time.Time, need int) (time.Duration, error) {
		t, err := awaitBalance(ctx, w)
		c.detours += t.Assigned - need
		return t.Balanced.Sub(since), err
	}
	w.Want(s.b.groupMembers)
	began := time.Now()
	for i := range s.b.groupMembers {
		r, err := follow(ctx, w, s.c.url, name, memberName(i))
		if err != nil {
			return c, err
		}
		all = append(all, r)
	}
	if c.start, err = await(began, s.b.groupShards); err != nil {
		return c, fmt.Errorf("start: %w", err)
	}
	// So that nobody has anything else to say.
	if err := s.quiet(ctx, name); err != nil {
		return c, err
	}
	w.Want(s.b.groupMembers + 1)
	began = time.Now()
	late, err := follow(ctx, w, s.c.url, name, memberName(s.b.groupMembers))
	if err != nil {
		return c, err
	}
	if c.join, err = await(began, s.b.groupShards/(s.b.groupMembers+1)); err != nil {
		return c, errors.Join(fmt.Errorf("join: %w", err), late.leave(ctx))
	}
	if err := s.quiet(ctx, name); err != nil {
		return c, errors.Join(err, late.leave(ctx))
	}
	w.Want(s.b.groupMembers)
	began = time.Now()
	if err := late.leave(ctx); err != nil {
		return c, err
	}
	if c.leave, err = await(began, s.b.groupShards/(s.b.groupMembers+1)); err != nil {
		return c, fmt.Errorf("leave: %w", err)
	}
	return c, nil
}

func awaitBalance(ctx context.Context, w *httpload.Watch) (httpload.Tally, error) {
	ctx, done := context.WithTimeoutCause(ctx, answerTimeout, errors.New("the shards are not balanced in time"))
	defer done()
	return w.Await(ctx)
}

// quiet waits until the coordinator says that the group is stable.
func (s *groupsStage) quiet(ctx context.Context, stream string) error {
	ctx, done := context.WithTimeoutCause(ctx, answerTimeout, errors.New("the group does not become stable"))
	defer done()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		g, err := s.c.Group(ctx, stream, group)
		if err != nil {
			return err
		}
		if g.State == protocol.GroupStable {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// storm times a start of many members, one shortly after the other. They are of the
// cheap kind: this process has to be all of them at once, and in life no two of them
// share a processor.
func storm(ctx context.Context, s *groupsStage) (_ measured, err error) {
	name, err := s.stream(ctx, s.b.stormShards)
	if err != nil {
		return nil, err
	}
	target, err := httpload.NewTarget(s.c.url, "", "")
	if err != nil {
		return nil, err
	}
	beat := httpload.NewHTTPBeat(target, name, group, answerTimeout)
	defer beat.Close()
	w := httpload.NewWatch(s.b.stormShards)
	w.Want(s.b.stormMembers)
	fleet := httpload.NewFleet("member-", s.b.stormMembers)
	fleet.Tell(w)
	saves := s.c.store.saves.Load()
	life, end := context.WithCancel(ctx)
	lived := make(chan error, 1)
	began := time.Now()
	go func() { lived <- fleet.Live(life, stormTime, holdTime, beat.Beat) }()
	t, err := awaitBalance(ctx, w)
	if err == nil {
		// The last acknowledgements count too.
		err = s.quiet(ctx, name)
	}
	saved := s.c.store.saves.Load() - saves
	end()
	again := max(t.Released, t.Assigned-s.b.stormShards)
	return measured{"balanced": milliseconds(t.Balanced.Sub(began)), "revocations": float64(again), "saves": float64(saved)}, errors.Join(err, <-lived)
}
