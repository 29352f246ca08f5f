package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/producer"
)

const (
	// rawPipeline is how many records the ceiling stores in one pipeline.
	rawPipeline = 100
	// syncSlowness is how many times fewer records those get that wait for each
	// answer.
	syncSlowness = 4
	// syncCallers is how many goroutines publish at a time where one is not enough.
	syncCallers = 64
)

// writer is a way to produce.
type writer struct {
	name string
	// open gets ready, outside the time.
	open func(ctx context.Context, s *stream) (publish func(ctx context.Context, load []load) error, closeIt func() error, err error)
}

// load is one record, ready to be published.
type load struct {
	key     string // partition key
	shard   string // the Redis key of its shard
	payload []byte
}

func (s *stream) loads() []load {
	all := make([]load, s.records)
	for i := range all {
		all[i] = load{key: s.key(i), shard: s.shard(i), payload: s.body(i)}
	}
	return all
}

func syncCase(s settings, shards, payload int) benchCase {
	return produceCase(shape("produce one by one", shards, payload), shards, payload, recordsFor(s, payload, syncSlowness),
		[]writer{rscSync("rsc", 1), rawSync("raw", 1), rscSync(fmt.Sprintf("rsc, %d callers", syncCallers), syncCallers), rawSync(fmt.Sprintf("raw, %d callers", syncCallers), syncCallers), watermillWriter()},
		gate{ours: "rsc", peer: "raw", limit: syncOfRaw})
}

func pipelineCase(s settings, shards, payload int) benchCase {
	return produceCase(shape("produce many at a time", shards, payload), shards, payload, recordsFor(s, payload, 1),
		[]writer{rscFutures(), rscCallbacks(), rscBatch(), rawPipelined()},
		gate{ours: "rsc", peer: "raw", limit: asyncOfRaw})
}

func produceCase(name string, shards, payload, records int, writers []writer, gates ...gate) benchCase {
	c := benchCase{name: name, unit: perSecond, gates: gates}
	for _, w := range writers {
		c.candidates = append(c.candidates, candidate{w.name, func(ctx context.Context, b *bench) (sample, error) {
			return b.produce(ctx, w, shards, records, payload)
		}})
	}
	return c
}

// produce times one run, then reads back what was stored.
func (b *bench) produce(ctx context.Context, w writer, shards, records, payload int) (_ sample, err error) {
	s, err := b.newStream(ctx, shards, records, payload)
	if err != nil {
		return sample{}, err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx))) }()
	publish, closeWriter, err := w.open(ctx, s)
	if err != nil {
		return sample{}, err
	}
	loads := s.loads()
	before := takeUsage()
	err = publish(ctx, loads)
	took, cost := takeUsage().since(before, records)
	if err := errors.Join(err, closeWriter()); err != nil {
		return sample{}, err
	}
	v, err := s.audit(ctx)
	return sample{value: float64(records) / took.Seconds(), cost: cost, verdict: v}, err
}

// openProducer opens our producer and waits for its route.
func openProducer(ctx context.Context, s *stream) (*producer.Producer, func() error, error) {
	p, err := producer.New(producer.Config{ //nolint:contextcheck // it ends with Close, not with a context
		Transport: line{s.b.coord, s.prefix, group}, Stream: s.prefix, Group: group,
		Redis:  s.b.redis.options(),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, err
	}
	closeProducer := func() error {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer done()
		return p.Close(ctx)
	}
	pause := time.NewTicker(time.Millisecond)
	defer pause.Stop()
	for deadline := time.Now().Add(stall); ; <-pause.C {
		route, ready := p.Routing()
		if ready {
			return p, closeProducer, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, nil, errors.Join(errors.New("the producer got no route"), route.RefreshError, closeProducer())
		}
	}
}

// rscSync publishes one by one, in so many goroutines.
func rscSync(name string, callers int) writer {
	return writer{name, func(ctx context.Context, s *stream) (func(context.Context, []load) error, func() error, error) {
		p, closeProducer, err := openProducer(ctx, s)
		return func(ctx context.Context, loads []load) error {
			return inParallel(loads, callers, func(l load) error {
				_, err := p.Publish(ctx, producer.Message{Key: l.key, Payload: l.payload})
				return err
			})
		}, closeProducer, err
	}}
}

// inParallel lets each of so many goroutines publish the records of its share of
// the keys, in order.
func inParallel(loads []load, callers int, publish func(load) error) error {
	if callers == 1 {
		for _, l := range loads {
			if err := publish(l); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, callers)
	var running sync.WaitGroup
	for c := range callers {
		running.Go(func() {
			for i, l := range loads {
				if i%keysPerRun%callers != c {
					continue
				}
				if errs[c] = publish(l); errs[c] != nil {
					return
				}
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// rscFutures sends asynchronously, and looks at every future at the end.
func rscFutures() writer {
	return writer{"rsc", func(ctx context.Context, s *stream) (func(context.Context, []load) error, func() error, error) {
		p, closeProducer, err := openProducer(ctx, s)
		return func(ctx context.Context, loads []load) error {
			futures := make([]*producer.Future, len(loads))
			for i, l := range loads {
				var err error
				if futures[i], err = p.Send(ctx, producer.Message{Key: l.key, Payload: l.payload}); err != nil {
					return err
				}
			}
			for _, f := range futures {
				if _, err := f.Wait(ctx); err != nil {
					return err
				}
			}
			return nil
		}, closeProducer, err
	}}
}

// rscCallbacks sends asynchronously with a function that is told of each outcome.
func rscCallbacks() writer {
	return writer{"rsc, callbacks", func(ctx context.Context, s *stream) (func(context.Context, []load) error, func() error, error) {
		p, closeProducer, err := openProducer(ctx, s)
		return func(ctx context.Context, loads []load) error {
			var failed atomic.Pointer[error]
			note := func(r producer.Result) {
				if r.Err != nil {
					failed.CompareAndSwap(nil, &r.Err)
				}
			}
			for _, l := range loads {
				if err := p.SendFunc(ctx, producer.Message{Key: l.key, Payload: l.payload}, note); err != nil {
					return err
				}
			}
			if err := p.Flush(ctx); err != nil {
				return err
			}
			if err := failed.Load(); err != nil {
				return *err
			}
			return nil
		}, closeProducer, err
	}}
}

// rscBatch publishes in batches as large as the ceiling's pipelines.
func rscBatch() writer {
	return writer{"rsc, batches", func(ctx context.Context, s *stream) (func(context.Context, []load) error, func() error, error) {
		p, closeProducer, err := openProducer(ctx, s)
		return func(ctx context.Context, loads []load) error {
			batch := make([]producer.Message, 0, rawPipeline)
			for len(loads) > 0 {
				n := min(rawPipeline, len(loads))
				batch = batch[:0]
				for _, l := range loads[:n] {
					batch = append(batch, producer.Message{Key: l.key, Payload: l.payload})
				}
				if _, err := p.PublishBatch(ctx, batch); err != nil {
					return err
				}
				loads = loads[n:]
			}
			return nil
		}, closeProducer, err
	}}
}

// xadd is what go-redis users write.
func xadd(l *load) *redis.XAddArgs {
	return &redis.XAddArgs{Stream: l.shard, Values: []any{producer.KeyField, l.key, payloadField, l.payload}}
}

func rawSync(name string, callers int) writer {
	return writer{name, func(ctx context.Context, s *stream) (func(context.Context, []load) error, func() error, error) {
		client := s.b.redis.client(callers)
		return func(ctx context.Context, loads []load) error {
			return inParallel(loads, callers, func(l load) error { return client.XAdd(ctx, xadd(&l)).Err() })
		}, client.Close, client.Ping(ctx).Err()
	}}
}

// rawPipelined is the ceiling: one pipeline after the other on one connection.
func rawPipelined() writer {
	return writer{"raw", func(ctx context.Context, s *stream) (func(context.Context, []load) error, func() error, error) {
		client := s.b.redis.client(1)
		return func(ctx context.Context, loads []load) error {
			for len(loads) > 0 {
				n := min(rawPipeline, len(loads))
				pipe := client.Pipeline()
				for i := range loads[:n] {
					pipe.XAdd(ctx, xadd(&loads[i]))
				}
				if _, err := pipe.Exec(ctx); err != nil {
					return err
				}
				loads = loads[n:]
			}
			return nil
		}, client.Close, client.Ping(ctx).Err()
	}}
}

func watermillWriter() writer {
	return writer{"watermill", func(ctx context.Context, s *stream) (func(context.Context, []load) error, func() error, error) {
		client := s.b.redis.client(1)
		publisher, err := redisstream.NewPublisher(redisstream.PublisherConfig{Client: client}, watermill.NopLogger{})
		if err != nil {
			return nil, nil, errors.Join(err, client.Close())
		}
		return func(ctx context.Context, loads []load) error {
			for _, l := range loads {
				m := message.NewMessage(watermill.NewUUID(), l.payload)
				m.SetContext(ctx)
				if err := publisher.Publish(l.shard, m); err != nil {
					return err
				}
			}
			return nil
		}, publisher.Close, client.Ping(ctx).Err()
	}}
}
