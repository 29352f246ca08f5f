package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// flapEvery is the time between a join and the leave after it, and the other way
	// round.
	flapEvery = 100 * time.Millisecond
	// The members of the group that flaps begin within beatEvery; each of their
	// heartbeats is held for holdTime.
	beatEvery, holdTime = time.Second, 5 * time.Second
	// quietMembers and quietShards are those of the group that is measured; each of
	// its members sends a heartbeat every quietEvery.
	quietMembers, quietShards = 10, 100
	quietEvery                = 10 * time.Millisecond
	quietStream               = "quiet"
)

// flappingStage is a coordinator with a large group and a small one. All heartbeats
// go through HTTP.
type flappingStage struct {
	b      *bench
	c      *coordinator
	target *httpload.Target
	large  *httpload.Fleet
	quiet  []*protocol.Heartbeat
}

func openFlapping(ctx context.Context, b *bench) (_ stage, err error) {
	s := &flappingStage{b: b, large: httpload.NewFleet("member-", b.members)}
	if s.c, err = startCoordinator(ctx, plan{redis: b.redis.addr, http: true}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if s.target, err = httpload.NewTarget(s.c.url, "", ""); err != nil {
		return nil, err
	}
	if err := errors.Join(s.c.declare(ctx, stream, b.shards), s.c.declare(ctx, quietStream, quietShards)); err != nil {
		return nil, err
	}
	if err := s.large.Settle(ctx, b.shards, settleAtOnce, s.c.beat(stream, group)); err != nil {
		return nil, err
	}
	quiet := httpload.NewFleet("quiet-", quietMembers)
	if err := quiet.Settle(ctx, quietShards, quietMembers, s.c.beat(quietStream, group)); err != nil {
		return nil, err
	}
	s.quiet = quiet.Requests()
	return s, nil
}

func (s *flappingStage) close(ctx context.Context) error { return s.c.close(ctx) }

func (s *flappingStage) round(ctx context.Context, _ int) (measured, error) {
	alone, err := s.listen(ctx, s.b.sample)
	if err != nil {
		return nil, err
	}
	noise, stop := context.WithCancel(ctx)
	defer stop()
	var making sync.WaitGroup
	var errs [2]error
	flaps := 0
	making.Go(func() { errs[0] = s.live(noise) })
	making.Go(func() { flaps, errs[1] = s.flap(noise) })
	began, saves := time.Now(), s.c.store.saves.Load()
	beside, err := s.listen(ctx, 2*s.b.sample)
	took := time.Since(began)
	saves = s.c.store.saves.Load() - saves
	stop()
	making.Wait()
	if err := errors.Join(err, errs[0], errs[1]); err != nil {
		return nil, err
	}
	return measured{
		"p99": milliseconds(beside.Quantile(0.99)), "worst": milliseconds(beside.Max()), "p99 alone": milliseconds(alone.Quantile(0.99)),
		"flaps": float64(flaps) / took.Seconds(), "saves for each": float64(saves) / float64(max(1, flaps)),
	}, nil
}

// listen sends the heartbeats of the quiet group for a while.
func (s *flappingStage) listen(ctx context.Context, sample time.Duration) (*httpload.Histogram, error) {
	ctx, done := context.WithTimeout(ctx, sample)
	defer done()
	beat := httpload.NewHTTPBeat(s.target, quietStream, group, answerTimeout)
	defer beat.Close()
	var all httpload.Histogram
	var mu sync.Mutex
	var failed error
	var wait sync.WaitGroup
	for i, q := range s.quiet {
		wait.Go(func() {
			// One after the other, as the heartbeats of members come.
			time.Sleep(quietEvery * time.Duration(i) / time.Duration(len(s.quiet)))
			tick := time.NewTicker(quietEvery)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				sent := time.Now()
				r, err := beat.Beat(context.WithoutCancel(ctx), q)
				took := time.Since(sent)
				if err == nil && r.Status != protocol.StatusOK {
					err = fmt.Errorf("a heartbeat of the quiet group is answered %s: %s", r.Status, r.Reason)
				}
				mu.Lock()
				all.Record(took)
				failed = errors.Join(failed, err)
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wait.Wait()
	return &all, failed
}

// live lets the members of the large group live as those of the consumer module do:
// their heartbeats are held until there is something to hear.
func (s *flappingStage) live(ctx context.Context) error {
	beat := httpload.NewHTTPBeat(s.target, stream, group, answerTimeout)
	defer beat.Close()
	return s.large.Live(ctx, beatEvery, holdTime, beat.Beat)
}

// flap lets one more member join and leave again and again.
func (s *flappingStage) flap(ctx context.Context) (flaps int, err error) {
	beat := httpload.NewHTTPBeat(s.target, stream, group, answerTimeout)
	defer beat.Close()
	tick := time.NewTicker(flapEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		one := httpload.NewFleet(fmt.Sprintf("flap-%d-", flaps), 1).Requests()[0]
		for _, epoch := range []protocol.Epoch{protocol.EpochJoin, protocol.EpochLeave} {
			one.MemberEpoch = epoch
			r, err := beat.Beat(context.WithoutCancel(ctx), one)
			if err != nil {
				return flaps, err
			}
			if r.Status != protocol.StatusOK && r.Status != protocol.StatusRetry {
				return flaps, fmt.Errorf("a member that flaps is answered %s: %s", r.Status, r.Reason)
			}
			flaps++
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
	return flaps, nil
}
