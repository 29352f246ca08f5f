package service

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

const (
	// countUpTo is how many entries of a shard are counted from either end where
	// positions do not tell what is undelivered.
	countUpTo = 256
	// lookTTL is how long one look at a group's shards serves everybody who asks for
	// the backlog or for rows of dashboards.
	lookTTL = time.Second
	// rateWindow is the least time over which rates are taken.
	rateWindow = 5 * time.Second
	// maxLooks bounds the groups whose last look is kept.
	maxLooks = 1024
)

// looks keeps the last look at the shards of each group that somebody asked for.
type looks struct {
	mu     sync.Mutex
	groups map[port.GroupKey]*look
	// failing is true from the first failure to the next good look, so that an outage
	// is two lines in the log.
	failing bool
}

// look is what was last seen of the shards of a group.
type look struct {
	// turn lets one caller at a time ask Redis; the others use its answer.
	turn  chan struct{}
	users int

	// What follows belongs to who has the turn.
	known bool
	at    time.Duration
	wall  time.Time
	// of are the indexes of shards.
	of     []int
	shards []port.ShardState
	// older and newer are what rates are taken from.
	older, newer sample
}

// sample is how far shards had come at a time.
type sample struct {
	at     time.Duration
	shards []port.ShardState
}

// seen is one look at a group's shards.
type seen struct {
	at     time.Time
	shards []port.ShardState
	rates  []protocol.ShardRates
}

// inspect asks Redis for shards of a group.
// Errors: protocol.ErrRedisNotConfigured, ErrRedisUnavailable.
func (c *Coordinator) inspect(ctx context.Context, key port.GroupKey, shards []int, q port.ShardQuery) ([]port.ShardState, error) {
	if c.ports.Inspector == nil {
		return nil, protocol.ErrRedisNotConfigured
	}
	ctx, done := context.WithTimeoutCause(ctx, c.cfg.CallTimeout, errors.New("no answer in time"))
	defer done()
	for _, shard := range shards {
		q.Keys = append(q.Keys, routing.StreamKey(key.Stream, shard))
	}
	q.Group, q.CountUpTo = key.Group, countUpTo
	states, err := c.ports.Inspector.InspectShards(ctx, q)
	if err == nil {
		for i := range states {
			if states[i].Err != nil {
				err = states[i].Err
				break
			}
		}
		c.noteLook(key, err)
		return states, nil
	}
	c.noteLook(key, err)
	return nil, fmt.Errorf("look at the shards of %s: %w (%w)", key, protocol.ErrRedisUnavailable, err)
}

// noteLook logs when Redis begins to fail and when it is back.
func (c *Coordinator) noteLook(key port.GroupKey, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	c.looks.mu.Lock()
	was := c.looks.failing
	c.looks.failing = err != nil
	c.looks.mu.Unlock()
	switch {
	case err != nil && !was:
		c.cfg.Logger.Warn("streams cannot be looked at", "stream", key.Stream, "group", key.Group, "err", err)
	case err == nil && was:
		c.cfg.Logger.Info("streams can be looked at again")
	}
}

// lookAt returns what the shards of a group held a moment ago: at most lookTTL.
func (c *Coordinator) lookAt(ctx context.Context, key port.GroupKey, shards []int) (seen, error) {
	l := c.looks.take(key)
	defer c.looks.leave(l)
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return seen{}, context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	now := c.ports.Clock.Mono()
	if !l.known || now-l.at >= lookTTL || !slices.Equal(l.of, shards) {
		states, err := c.inspect(ctx, key, shards, port.ShardQuery{Memory: true, Place: true})
		if err != nil {
			return seen{}, err
		}
		if !slices.Equal(l.of, shards) {
			l.older, l.newer = sample{}, sample{}
		}
		l.known, l.at, l.wall, l.of, l.shards = true, now, c.ports.Clock.Wall().UTC(), shards, states
		l.sample(now)
	}
	return seen{at: l.wall, shards: l.shards, rates: l.rates()}, nil
}

// sample keeps what was seen for rates to come.
func (l *look) sample(now time.Duration) {
	s := sample{now, l.shards}
	switch {
	case l.newer.shards == nil:
		l.newer = s
	case now-l.newer.at >= rateWindow:
		l.older, l.newer = l.newer, s
	}
}

// rates compares the last look with one that is at least rateWindow old, or with
// the first where there is no such yet.
func (l *look) rates() []protocol.ShardRates {
	rates := make([]protocol.ShardRates, len(l.shards))
	from := l.older
	if from.shards == nil {
		from = l.newer
	}
	seconds := (l.at - from.at).Seconds()
	if seconds <= 0 {
		return rates
	}
	for i := range rates {
		if i < len(from.shards) {
			rates[i] = rate(&from.shards[i], &l.shards[i], seconds)
		}
	}
	return rates
}

// rate is that of one shard between two looks: of what was added, and of what was
// handed out, which is that less what the group has more to read.
func rate(a, b *port.ShardState, seconds float64) (r protocol.ShardRates) {
	if !a.Exists || !b.Exists || a.Added < 0 || b.Added < a.Added {
		return r
	}
	added := float64(b.Added - a.Added)
	perSecond := func(n float64) *float64 {
		v := math.Round(max(0, n)/seconds*100) / 100
		return &v
	}
	r.Produced = perSecond(added)
	if a.Group != nil && b.Group != nil && a.Group.Exact && b.Group.Exact {
		r.Consumed = perSecond(added - float64(b.Group.Undelivered-a.Group.Undelivered))
	}
	return r
}

// take returns the look of a group, to be given back with leave.
func (l *looks) take(key port.GroupKey) *look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups == nil {
		l.groups = map[port.GroupKey]*look{}
	}
	one, there := l.groups[key]
	if !there {
		l.makeRoom()
		one = &look{turn: make(chan struct{}, 1)}
		l.groups[key] = one
	}
	one.users++
	return one
}

func (l *looks) leave(one *look) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one.users--
}

// makeRoom drops the looks that nobody uses at the moment once there are too many:
// they may be of groups that are gone, and cost one question to Redis to have again.
func (l *looks) makeRoom() {
	if len(l.groups) < maxLooks {
		return
	}
	for key, one := range l.groups {
		if one.users == 0 {
			delete(l.groups, key)
		}
	}
}
