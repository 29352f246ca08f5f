package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
)

// keepalives settles the groups and fires.
func (b *run) keepalives(ctx context.Context) (*Result, error) {
	r := b.begin()
	b.Progress(fmt.Sprintf("%d members join", b.Groups*b.Members))
	began := time.Now()
	guns, err := b.settle(ctx)
	if err != nil {
		return nil, err
	}
	r.Settled = Duration(time.Since(began))
	b.Progress(fmt.Sprintf("keepalives for %s", b.Duration))
	var sum *httpload.Result
	err = b.measure(ctx, r, func(ctx context.Context) error {
		if sum, err = b.fire(ctx, guns); err != nil {
			return err
		}
		r.heartbeats(sum)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, b.settled(ctx)
}

// settle lets all groups join, one after the other, and returns their keepalives.
func (b *run) settle(ctx context.Context) ([]*httpload.Gun, error) {
	guns := make([]*httpload.Gun, b.Groups)
	fleets := make([]*httpload.Fleet, b.Groups)
	for g := range guns {
		target, _ := b.target(g)
		fleets[g] = httpload.NewFleet("member-", b.Members)
		beat := httpload.NewHTTPBeat(target, b.stream, groupName(g), answerTimeout)
		err := fleets[g].Settle(ctx, b.Shards, min(settleAtOnce, b.Members), beat.Beat)
		beat.Close()
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", groupName(g), err)
		}
		if guns[g], err = httpload.NewGun(target, b.stream, groupName(g), fleets[g].Requests(), answerTimeout); err != nil {
			return nil, err
		}
	}
	return guns, nil
}

// fire fires all guns for the duration.
func (b *run) fire(ctx context.Context, guns []*httpload.Gun) (*httpload.Result, error) {
	results := make([]*httpload.Result, len(guns))
	errs := make([]error, len(guns))
	var firing sync.WaitGroup
	for i, gun := range guns {
		share := (b.Connections + i) / len(guns) // all of them, as evenly as can be
		firing.Go(func() { results[i], errs[i] = gun.FireFor(ctx, max(1, share), b.Duration) })
	}
	firing.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	sum := &httpload.Result{}
	for i, r := range results {
		if errs[i] != nil {
			return nil, errs[i]
		}
		sum.Add(r)
	}
	return sum, nil
}
