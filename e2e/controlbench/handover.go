package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/producer"
)

const (
	handOverShards, handOverKeys = 16, 256
	// handOverMembers are there all the time, one more comes and goes.
	handOverMembers = 2
	// burstEvery and burst make the load: 5,000 records a second.
	burstEvery, burst = time.Millisecond, 5
	// memberLinger is how long a member stays after it was given its shards.
	memberLinger = 50 * time.Millisecond
)

// handOverStage is a stream under load, with consumers on it.
type handOverStage struct {
	b *bench
	c *coordinator
	n int
}

func openHandOver(ctx context.Context, b *bench) (stage, error) {
	c, err := startCoordinator(ctx, plan{redis: b.redis.addr, http: true, streams: true})
	if err != nil {
		return nil, err
	}
	return &handOverStage{b: b, c: c}, nil
}

func (s *handOverStage) close(ctx context.Context) error { return s.c.close(ctx) }

// relay notes who handled the last record of each shard, and when.
type relay struct {
	mu     sync.Mutex
	shards [handOverShards]runner
	gaps   httpload.Histogram
	// last is the number of the last record of each key.
	last     [handOverKeys]int64
	disorder int
	// news is poked when a shard has a new owner.
	news chan struct{}
}

type runner struct {
	token int64
	at    time.Time
}

// handle notes a record. A token that is higher than before is a new owner's first.
func (y *relay) handle(r consumer.Record) error {
	now := time.Now()
	key, err := strconv.Atoi(r.Key)
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(r.Values[producer.PayloadField], 10, 64)
	if err != nil {
		return err
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	if number <= y.last[key] {
		y.disorder++
	}
	y.last[key] = number
	switch x := &y.shards[r.Shard]; {
	case r.Token < x.token:
		// The old owner is still at it: there is no gap, but worse.
		y.disorder++
		return nil
	case r.Token > x.token:
		if x.token != 0 {
			y.gaps.Record(now.Sub(x.at))
		}
		select {
		case y.news <- struct{}{}:
		default:
		}
		fallthrough
	default:
		x.token, x.at = r.Token, now
	}
	return nil
}

// flows reports whether records of every shard were handled.
func (y *relay) flows() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return !slices.ContainsFunc(y.shards[:], func(x runner) bool { return x.token == 0 })
}

func (y *relay) count() uint64 {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.gaps.Count()
}

func (s *handOverStage) round(ctx context.Context, _ int) (_ measured, err error) {
	s.n++
	name := fmt.Sprintf("relay-%d", s.n)
	if err := s.c.declare(ctx, name, handOverShards); err != nil {
		return nil, err
	}
	y := &relay{news: make(chan struct{}, 1)}
	var all []*running
	defer func() { err = errors.Join(err, leaveAll(ctx, all, true)) }()
	for i := range handOverMembers {
		r, err := s.consume(ctx, name, memberName(i), y)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	load, stop := context.WithCancel(ctx)
	loaded := make(chan error, 1)
	go func() { loaded <- s.produce(load, name) }()
	// A visitor that came before the first record would be one of the first owners.
	err = y.await(ctx, y.flows)
	for y.count() < s.b.handOvers && err == nil {
		err = s.visit(ctx, name, y)
	}
	stop()
	if err := errors.Join(err, <-loaded); err != nil {
		return nil, err
	}
	y.mu.Lock()
	defer y.mu.Unlock()
	return measured{
		"p99": milliseconds(y.gaps.Quantile(0.99)), "median": milliseconds(y.gaps.Quantile(0.5)),
		"hand-overs": float64(y.gaps.Count()), "records out of order": float64(y.disorder),
	}, nil
}

func (s *handOverStage) consume(ctx context.Context, stream, id string, y *relay) (*running, error) {
	return start(ctx, consumer.Config{
		Coordinators: []string{s.c.url}, Stream: stream, Group: group, MemberID: id,
		Redis:   redis.UniversalOptions{Addrs: []string{s.b.redis.addr}},
		Handler: func(_ context.Context, r consumer.Record) error { return y.handle(r) },
	})
}

// visit lets one more member come, take its shards, and go again.
func (s *handOverStage) visit(ctx context.Context, stream string, y *relay) error {
	const moves = handOverShards / (handOverMembers + 1)
	before := y.count()
	r, err := s.consume(ctx, stream, "visitor", y)
	if err != nil {
		return err
	}
	err = y.awaitCount(ctx, before+moves)
	if err == nil {
		time.Sleep(memberLinger) // under load, as it was before
	}
	return errors.Join(err, r.leave(ctx), y.awaitCount(ctx, before+2*moves))
}

// awaitCount waits until so many hand-overs are over.
func (y *relay) awaitCount(ctx context.Context, n uint64) error {
	return y.await(ctx, func() bool { return y.count() >= n })
}

func (y *relay) await(ctx context.Context, done func() bool) error {
	ctx, stop := context.WithTimeoutCause(ctx, answerTimeout, errors.New("shards were not handed over in time"))
	defer stop()
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-y.news:
		}
	}
	return nil
}

// produce publishes records of all keys in turn until ctx ends.
func (s *handOverStage) produce(ctx context.Context, stream string) (err error) {
	p, err := producer.New(producer.Config{ //nolint:contextcheck // it ends with Close, not with a context
		Coordinators: []string{s.c.url}, Credentials: producer.BasicAuth(user, password), Stream: stream,
		Redis: redis.UniversalOptions{Addrs: []string{s.b.redis.addr}}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer done()
		err = errors.Join(err, p.Close(ctx))
	}()
	var keys [handOverKeys]string
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	tick := time.NewTicker(burstEvery)
	defer tick.Stop()
	for n := int64(1); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for range burst {
			_, err := p.Send(context.WithoutCancel(ctx), producer.Message{Key: keys[n%handOverKeys], Payload: strconv.AppendInt(nil, n, 10)})
			if err != nil {
				return err
			}
			n++
		}
	}
}
