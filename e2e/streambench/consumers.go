package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill-redisstream/pkg/redisstream"
	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/producer"
)

const (
	payloadField = producer.PayloadField
	// rawCount is what the ceiling reads and acknowledges at a time, naiveCount
	// what the naive loop reads.
	rawCount, naiveCount = 100, 10
	// peerBlock is how long the peers' reads block: it only bounds how long they
	// take to stop.
	peerBlock = 100 * time.Millisecond
	// stopTimeout bounds the stop of a candidate after its run.
	stopTimeout = 60 * time.Second
)

// reader is a way to consume.
type reader struct {
	name   string
	layout layout
	// start begins to call handle with the number of each record of s, and returns
	// what ends that and waits.
	start func(ctx context.Context, s *stream, handle func(i int)) (stop func() error, err error)
}

// plainLayout is that of our producer.
func plainLayout(s *stream, i int, payload []byte) []any {
	return []any{producer.KeyField, s.key(i), payloadField, payload}
}

// rscReader is our consumer, with so many handlers at a time; 0 means its default.
func rscReader(name string, concurrency int) reader {
	return reader{name: name, layout: plainLayout, start: func(ctx context.Context, s *stream, handle func(int)) (func() error, error) {
		return startConsumer(ctx, rscConfig(s, concurrency, handle))
	}}
}

func rscConfig(s *stream, concurrency int, handle func(int)) consumer.Config {
	return consumer.Config{
		Concurrency: concurrency,
		Transport:   line{s.b.coord, s.prefix, group}, Stream: s.prefix, Group: group, MemberID: "bench",
		Redis:  s.b.redis.options(),
		Logger: slog.New(slog.DiscardHandler),
		Handler: func(_ context.Context, r consumer.Record) error {
			handle(indexOf(r.Values[payloadField]))
			return nil
		},
	}
}

func startConsumer(ctx context.Context, cfg consumer.Config) (func() error, error) {
	c, err := consumer.New(cfg)
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	return func() error {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer done()
		return errors.Join(c.Close(ctx), <-ended)
	}, nil
}

// loopReader reads by hand: count records at a time from each shard, with one
// XACK for all of them, or one each.
func loopReader(name string, count int64, ackEach bool) reader {
	return reader{name: name, layout: plainLayout, start: func(ctx context.Context, s *stream, handle func(int)) (func() error, error) {
		client := s.b.redis.client(len(s.keys) + 1)
		ctx, cancel := context.WithCancel(ctx)
		errs := make([]error, len(s.keys))
		var running sync.WaitGroup
		for i, key := range s.keys {
			running.Go(func() { errs[i] = readLoop(ctx, client, key, count, ackEach, handle) })
		}
		return func() error {
			cancel()
			running.Wait()
			return errors.Join(errors.Join(errs...), client.Close())
		}, nil
	}}
}

func readLoop(ctx context.Context, client redis.UniversalClient, key string, count int64, ackEach bool, handle func(int)) error {
	// A command that is broken off would leave the run in doubt.
	commands := context.WithoutCancel(ctx)
	ids := make([]string, 0, count)
	for ctx.Err() == nil {
		streams, err := client.XReadGroup(commands, &redis.XReadGroupArgs{
			Group: group, Consumer: "bench", Streams: []string{key, ">"}, Count: count, Block: peerBlock,
		}).Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		ids = ids[:0]
		for i := range streams[0].Messages {
			m := &streams[0].Messages[i]
			payload, _ := m.Values[payloadField].(string)
			handle(indexOf(payload))
			if !ackEach {
				ids = append(ids, m.ID)
				continue
			}
			if err := client.XAck(commands, key, group, m.ID).Err(); err != nil {
				return fmt.Errorf("acknowledge in %s: %w", key, err)
			}
		}
		if ackEach {
			continue
		}
		if err := client.XAck(commands, key, group, ids...).Err(); err != nil {
			return fmt.Errorf("acknowledge in %s: %w", key, err)
		}
	}
	return nil
}

// watermillReader is watermill-redisstream with its defaults: a subscription for
// each shard.
func watermillReader() reader {
	return reader{name: "watermill", layout: watermillLayout, start: func(ctx context.Context, s *stream, handle func(int)) (func() error, error) {
		// Reads block in the pool, and acknowledgements and claims need connections too.
		client := s.b.redis.client(3*len(s.keys) + 2)
		subscriber, err := redisstream.NewSubscriber(redisstream.SubscriberConfig{
			Client: client, ConsumerGroup: group, Consumer: "bench", DisableIndefiniteInitialBlock: true,
		}, watermill.NopLogger{})
		if err != nil {
			return nil, errors.Join(err, client.Close())
		}
		var running sync.WaitGroup
		for _, key := range s.keys {
			messages, err := subscriber.Subscribe(ctx, key)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("subscribe to %s: %w", key, err), subscriber.Close())
			}
			running.Go(func() {
				for m := range messages {
					handle(indexOf([]byte(m.Payload)))
					m.Ack()
				}
			})
		}
		return func() error {
			err := subscriber.Close() // its client too
			running.Wait()
			return err
		}, nil
	}}
}

// watermillLayout is what its default marshaller makes of a message without
// metadata. The id is as long as a UUID.
func watermillLayout(_ *stream, i int, payload []byte) []any {
	return []any{redisstream.UUIDHeaderKey, fmt.Sprintf("00000000-0000-4000-8000-%012d", i), "metadata", "", payloadField, payload}
}
