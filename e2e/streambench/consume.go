package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// How many times fewer records slow candidates get, so that all runs take about
// as long.
const (
	naiveSlowness     = 4
	watermillSlowness = 10
)

const (
	// sleepers is how many handlers that wait run at a time.
	sleepers = 64
	// sleepRecords is how many records a run has in which one waits at a time.
	sleepRecords = 500
	sleepTime    = time.Millisecond
	spinTime     = 100 * time.Microsecond
	spinRecords  = 5000
)

func consumeCase(s settings, shards, payload int) benchCase {
	c := benchCase{name: shape("consume", shards, payload), unit: perSecond}
	add := func(r reader, slowness int) {
		n := recordsFor(s, payload, slowness)
		c.candidates = append(c.candidates, candidate{r.name, func(ctx context.Context, b *bench) (sample, error) {
			return b.consume(ctx, r, shards, n, payload, nil)
		}})
	}
	add(rscReader("rsc", 0), 1)
	add(loopReader("raw", rawCount, false), 1)
	add(loopReader("naive", naiveCount, true), naiveSlowness)
	add(watermillReader(), watermillSlowness)
	c.gates = append(c.gates, gate{ours: "rsc", peer: "raw", limit: consumeOfRaw})
	if payload <= smallPayload {
		c.gates = append(c.gates, gate{ours: "rsc", peer: "watermill", limit: consumeOfWatermill})
	}
	return c
}

// sleepCase has handlers that wait, as for a database.
func sleepCase() benchCase {
	work := func() { time.Sleep(sleepTime) }
	many, one := fmt.Sprintf("rsc, %d at a time", sleepers), "rsc, 1 at a time"
	run := func(r reader, n int) candidate {
		return candidate{r.name, func(ctx context.Context, b *bench) (sample, error) {
			return b.consume(ctx, r, 1, n, 200, work)
		}}
	}
	return benchCase{
		name: "handlers that wait 1 ms, 1 shard", unit: perSecond,
		candidates: []candidate{
			run(rscReader(many, sleepers), sleepRecords*sleepers/4),
			run(rscReader(one, 1), sleepRecords),
			run(loopReader("raw", rawCount, false), sleepRecords),
			run(watermillReader(), sleepRecords),
		},
		gates: []gate{{ours: many, peer: one, limit: manyOfOne}},
	}
}

// spinCase has handlers that compute.
func spinCase() benchCase {
	c := benchCase{name: "handlers that compute 100 µs, 1 shard", unit: perSecond}
	for _, r := range []reader{rscReader("rsc", 0), loopReader("raw", rawCount, false), watermillReader()} {
		c.candidates = append(c.candidates, candidate{r.name, func(ctx context.Context, b *bench) (sample, error) {
			return b.consume(ctx, r, 1, spinRecords, 200, spin)
		}})
	}
	return c
}

// spun keeps the compiler from leaving the work out.
var spun atomic.Uint64

// spinSteps is how many steps take spinTime, found out once.
var spinSteps = func() int {
	const steps = 1 << 20
	start := time.Now()
	spinFor(steps)
	return max(1, int(steps*float64(spinTime)/float64(time.Since(start))))
}()

func spin() { spinFor(spinSteps) }

func spinFor(steps int) {
	x := uint64(steps)
	for range steps {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	spun.Store(x)
}

// consume times one run.
func (b *bench) consume(ctx context.Context, r reader, shards, records, payload int, work func()) (_ sample, err error) {
	s, err := b.newStream(ctx, shards, records, payload)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx))) }()
	if err := s.fill(ctx, r.layout); err != nil {
		return sample{}, err
	}
	var before usage
	l := newLedger(records, keysPerRun, func() { before = takeUsage() })
	took, cost, err := s.consumeAll(ctx, r, l, work, &before)
	if err != nil {
		return sample{}, err
	}
	v := l.verdict()
	return sample{value: float64(int64(records)-v.lost) / took.Seconds(), cost: cost, verdict: v}, nil
}

// consumeAll lets r handle everything in s. The time counts from before, which
// may be set by the first handler.
func (s *stream) consumeAll(ctx context.Context, r reader, l *ledger, work func(), before *usage) (time.Duration, cost, error) {
	stop, err := r.start(ctx, s, func(i int) { l.handle(i, work) })
	if err != nil {
		return 0, cost{}, err
	}
	err = awaitHandled(ctx, l)
	if err == nil {
		err = s.awaitAcknowledged(ctx)
	}
	took, spent := takeUsage().since(*before, s.records)
	if errors.Is(err, errStalled) && l.started.Load() {
		// The verdict tells what is missing.
		err = nil
	}
	return took, spent, errors.Join(err, stop())
}

// takeoverRecords is how many records a dead consumer left.
const takeoverRecords = 5000

func takeoverCase(shards int) benchCase {
	c := benchCase{
		name: fmt.Sprintf("takeover of %d pending, %s", takeoverRecords, shardsText(shards)), unit: seconds,
		gates: []gate{{ours: "rsc", atMost: true, limit: takeoverSeconds}},
	}
	for _, r := range []reader{rscReader("rsc", 0), claimReader()} {
		c.candidates = append(c.candidates, candidate{r.name, func(ctx context.Context, b *bench) (sample, error) {
			return b.takeOver(ctx, r, shards)
		}})
	}
	return c
}

// takeOver times how long it takes from the start of r until everything that a
// dead consumer left was handled and acknowledged.
func (b *bench) takeOver(ctx context.Context, r reader, shards int) (_ sample, err error) {
	s, err := b.newStream(ctx, shards, takeoverRecords, 200)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx))) }()
	if err := s.fill(ctx, r.layout); err != nil {
		return sample{}, err
	}
	for _, key := range s.keys {
		err := b.admin.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: "dead", Streams: []string{key, ">"}, Count: takeoverRecords, Block: -1,
		}).Err()
		if err != nil && !errors.Is(err, redis.Nil) {
			return sample{}, fmt.Errorf("read as the dead consumer: %w", err)
		}
	}
	switch n, err := s.pending(ctx); {
	case err != nil:
		return sample{}, err
	case n != takeoverRecords:
		return sample{}, fmt.Errorf("%d records are pending, should be %d", n, takeoverRecords)
	}
	before := takeUsage()
	l := newLedger(takeoverRecords, keysPerRun, nil)
	took, cost, err := s.consumeAll(ctx, r, l, nil, &before)
	return sample{value: took.Seconds(), cost: cost, verdict: l.verdict()}, err
}

func latencyCase(s settings, shards int) benchCase {
	c := benchCase{
		name: "XADD to handler, 1,000 records/s, " + shardsText(shards), unit: milliseconds,
		gates: []gate{{ours: "rsc", peer: "raw", atMost: true, limit: latencyOfRaw}},
	}
	for _, r := range []reader{rscReader("rsc", 0), loopReader("raw", rawCount, false), watermillReader()} {
		c.candidates = append(c.candidates, candidate{r.name, func(ctx context.Context, b *bench) (sample, error) {
			return b.trickleInto(ctx, r, shards, int(s.trickle/trickleStep))
		}})
	}
	return c
}

const (
	// trickleStep is the time between two records.
	trickleStep = time.Millisecond
	// warmUp is the part of the records, one in so many, that comes before the
	// figures: until then candidates connect.
	warmUp = 4
)

// trickleInto stores a record every trickleStep and takes the time until r
// handles it.
func (b *bench) trickleInto(ctx context.Context, r reader, shards, records int) (_ sample, err error) {
	s, err := b.newStream(ctx, shards, records, 200)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx))) }()
	start := time.Now()
	sent := make([]atomic.Int64, records)
	took := make([]atomic.Int64, records)
	l := newLedger(records, keysPerRun, nil)
	before := takeUsage()
	stop, err := r.start(ctx, s, func(i int) {
		now := time.Since(start)
		if fresh := l.begin(i); i >= 0 && i < records {
			if fresh {
				took[i].Store(int64(now) - sent[i].Load())
			}
			l.end(i, fresh)
		}
	})
	if err != nil {
		return sample{}, err
	}
	err = s.trickle(ctx, r.layout, func(i int) { sent[i].Store(int64(time.Since(start))) })
	if err == nil {
		err = awaitHandled(ctx, l)
	}
	if errors.Is(err, errStalled) {
		err = nil
	}
	_, cost := takeUsage().since(before, records)
	if err := errors.Join(err, stop()); err != nil {
		return sample{}, err
	}
	var all []float64
	for i := records / warmUp; i < records; i++ {
		if d := took[i].Load(); d > 0 {
			all = append(all, float64(d)/float64(time.Millisecond))
		}
	}
	if len(all) == 0 {
		return sample{}, fmt.Errorf("%w: nothing was handled", errStalled)
	}
	slices.Sort(all)
	return sample{value: all[len(all)/2], p99: all[len(all)*99/100], cost: cost, verdict: l.verdict()}, nil
}

// trickle stores the records of s one by one; about is called before each.
func (s *stream) trickle(ctx context.Context, as layout, about func(i int)) error {
	start := time.Now()
	wait := time.NewTimer(0)
	defer wait.Stop()
	for i := range s.records {
		wait.Reset(time.Until(start.Add(time.Duration(i) * trickleStep)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		values := as(s, i, s.body(i))
		about(i)
		if err := s.b.admin.XAdd(ctx, &redis.XAddArgs{Stream: s.shard(i), Values: values}).Err(); err != nil {
			return fmt.Errorf("trickle into %s: %w", s.prefix, err)
		}
	}
	return nil
}
