package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// portCallers is how many goroutines call the service port at the same time.
	portCallers = 1000
	// In the scene size both groups have so many callers.
	sizeCallers = 100
	// sizeTurns is how often the two take turns in a round.
	sizeTurns = 5
)

// servicePort is a coordinator with a settled group, called without HTTP.
type servicePort struct {
	c        *coordinator
	requests []*protocol.Heartbeat
}

func startPort(ctx context.Context, b *bench, members, shards int) (_ *servicePort, err error) {
	p := &servicePort{}
	if p.c, err = startCoordinator(ctx, plan{redis: b.redis.addr}); err != nil {
		return nil, err
	}
	if p.requests, err = p.c.settled(ctx, members, shards); err != nil {
		return nil, errors.Join(err, p.c.close(ctx))
	}
	return p, nil
}

// hammer sends heartbeats from so many goroutines at once, but no more than there are
// members: each has members of its own. It returns how many are answered in a second, and what one costs.
func (p *servicePort) hammer(ctx context.Context, callers int, sample time.Duration) (perSecond float64, cost time.Duration, err error) {
	callers = min(callers, len(p.requests))
	var answered, refused atomic.Int64
	var wait sync.WaitGroup
	before := takeUsage()
	until := before.at.Add(sample)
	for caller := range callers {
		wait.Go(func() {
			for i := caller; ; i += callers {
				if i >= len(p.requests) {
					i = caller
				}
				if time.Now().After(until) || ctx.Err() != nil {
					return
				}
				if r := p.c.Heartbeat(ctx, stream, group, p.requests[i]); r.Status == protocol.StatusOK {
					answered.Add(1)
				} else {
					refused.Add(1)
				}
			}
		})
	}
	wait.Wait()
	after := takeUsage()
	n := answered.Load()
	if refused.Load() > 0 || n == 0 {
		return 0, 0, fmt.Errorf("%d heartbeats were answered and %d refused: %w", n, refused.Load(), context.Cause(ctx))
	}
	return float64(n) / after.at.Sub(before.at).Seconds(), (after.cpu - before.cpu) / time.Duration(n), nil
}

type portStage struct {
	*servicePort

	b *bench
}

func openPort(ctx context.Context, b *bench) (stage, error) {
	p, err := startPort(ctx, b, b.members, b.shards)
	if err != nil {
		return nil, err
	}
	return portStage{p, b}, nil
}

func (s portStage) round(ctx context.Context, _ int) (measured, error) {
	rate, cost, err := s.hammer(ctx, portCallers, s.b.sample)
	return measured{"rsc": rate, "CPU with its callers": microseconds(cost)}, err
}

func (s portStage) close(ctx context.Context) error { return s.c.close(ctx) }

// sizeStage has two coordinators, with a small and a large group.
type sizeStage struct {
	b            *bench
	small, large *servicePort
}

func openSize(ctx context.Context, b *bench) (_ stage, err error) {
	s := &sizeStage{b: b}
	if s.small, err = startPort(ctx, b, b.smallMembers, b.smallMembers*b.shardsEach); err != nil {
		return nil, err
	}
	if s.large, err = startPort(ctx, b, b.largeMembers, b.largeMembers*b.shardsEach); err != nil {
		return nil, errors.Join(err, s.small.c.close(ctx))
	}
	return s, nil
}

func (s *sizeStage) close(ctx context.Context) error {
	return errors.Join(s.small.c.close(ctx), s.large.c.close(ctx))
}

// round lets the two take turns, so that a disturbance of the machine meets both.
func (s *sizeStage) round(ctx context.Context, n int) (measured, error) {
	var costs [2][]float64
	for turn := range sizeTurns {
		for i := range 2 {
			which := (i + turn + n) % 2
			p := []*servicePort{s.small, s.large}[which]
			_, cost, err := p.hammer(ctx, sizeCallers, s.b.sample/2)
			if err != nil {
				return nil, err
			}
			costs[which] = append(costs[which], microseconds(cost))
		}
	}
	return measured{"100 members": median(costs[0]), "10,000 members": median(costs[1])}, nil
}
