package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/routing"
)

const (
	group = "bench"
	// keysPerRun is how many partition keys the records of a run have.
	keysPerRun = 1000
	// preloadPipeline is how many records are stored in one pipeline before a run,
	// preloadBytes how many bytes at most.
	preloadPipeline = 500
	preloadBytes    = 1 << 20
	// indexBytes is how many bytes at the beginning of a payload carry the
	// record's number.
	indexBytes = 8
	// stall is how long a run may go without any progress before it is given up.
	stall = 30 * time.Second
	// pollPause is the pause between two looks at the pending lists.
	pollPause = 500 * time.Microsecond
)

// stream is a sharded stream of one run, with a group that begins at its
// beginning.
type stream struct {
	b       *bench
	prefix  string
	keys    []string // of the shards
	records int
	payload int

	// partition keys, and the shard that each belongs to.
	names  []string
	shards []int
}

// newStream creates the shards and makes the stream known to the coordinator.
func (b *bench) newStream(ctx context.Context, shards, records, payload int) (*stream, error) {
	b.jobs++
	s := &stream{b: b, prefix: "run" + strconv.Itoa(b.jobs), records: records, payload: payload}
	for i := range keysPerRun {
		name := "customer-" + strconv.Itoa(i)
		s.names = append(s.names, name)
		s.shards = append(s.shards, routing.Shard(name, shards))
	}
	for i := range shards {
		key := routing.StreamKey(s.prefix, i)
		s.keys = append(s.keys, key)
		if err := b.admin.XGroupCreateMkStream(ctx, key, group, "0").Err(); err != nil {
			return nil, fmt.Errorf("create %s: %w", key, err)
		}
	}
	return s, b.coord.declare(ctx, s.prefix, shards)
}

// remove deletes the stream at once: a server that frees memory in the
// background would disturb the next run.
func (s *stream) remove(ctx context.Context) error {
	_, err := s.b.admin.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range s.keys {
			pipe.Del(ctx, key)
		}
		return nil
	})
	return err
}

// key returns the partition key of record i, shard the Redis key of its shard.
func (s *stream) key(i int) string   { return s.names[i%keysPerRun] }
func (s *stream) shard(i int) string { return s.keys[s.shards[i%keysPerRun]] }

// body returns the payload of record i.
func (s *stream) body(i int) []byte {
	p := []byte(strings.Repeat("p", s.payload))
	putIndex(p, i)
	return p
}

func putIndex(payload []byte, i int) { binary.BigEndian.PutUint64(payload, uint64(i)) }

// indexOf returns the number of the record with this payload, -1 if it has none.
func indexOf[T string | []byte](payload T) int {
	if len(payload) < indexBytes {
		return -1
	}
	n := 0
	for _, b := range []byte(payload[:indexBytes]) {
		n = n<<8 | int(b)
	}
	return n
}

// layout writes a record the way that a candidate expects it.
type layout func(s *stream, i int, payload []byte) []any

// fill stores all records, in order.
func (s *stream) fill(ctx context.Context, as layout) error {
	part := max(1, min(preloadPipeline, preloadBytes/s.payload))
	for from := 0; from < s.records; from += part {
		pipe := s.b.admin.Pipeline()
		for i := from; i < min(from+part, s.records); i++ {
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: s.shard(i), Values: as(s, i, s.body(i))})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("fill %s: %w", s.prefix, err)
		}
	}
	return nil
}

// pending counts what was handed out and not acknowledged.
func (s *stream) pending(ctx context.Context) (n int64, err error) {
	answers := make([]*redis.XPendingCmd, len(s.keys))
	_, err = s.b.admin.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, key := range s.keys {
			answers[i] = pipe.XPending(ctx, key, group)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("look at what is pending: %w", err)
	}
	for _, a := range answers {
		n += a.Val().Count
	}
	return n, nil
}

// errStalled says that a run made no progress any more.
var errStalled = errors.New("no progress")

// awaitHandled waits until every record of l was handled. It returns errStalled
// when nothing happens any more, which the ledger then tells about.
func awaitHandled(ctx context.Context, l *ledger) error {
	tick := time.NewTicker(stall)
	defer tick.Stop()
	for before := int64(-1); ; {
		select {
		case <-l.complete:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		now := l.handled.Load()
		if now == before {
			return errStalled
		}
		before = now
	}
}

// awaitAcknowledged waits until nothing is pending.
func (s *stream) awaitAcknowledged(ctx context.Context) error {
	pause := time.NewTicker(pollPause)
	defer pause.Stop()
	for deadline := time.Now().Add(stall); ; {
		n, err := s.pending(ctx)
		switch {
		case err != nil:
			return err
		case n == 0:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%w: %d records stay pending", errStalled, n)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// audit reads the whole stream back as if it were handled.
func (s *stream) audit(ctx context.Context) (verdict, error) {
	l := newLedger(s.records, keysPerRun, nil)
	for _, key := range s.keys {
		for start := "-"; ; {
			page, err := s.b.admin.XRangeN(ctx, key, start, "+", preloadPipeline).Result()
			if err != nil {
				return verdict{}, fmt.Errorf("read %s back: %w", key, err)
			}
			for i := range page {
				payload, _ := page[i].Values[payloadField].(string)
				l.handle(indexOf(payload), nil)
			}
			if len(page) < preloadPipeline {
				break
			}
			start = "(" + page[len(page)-1].ID
		}
	}
	return l.verdict(), nil
}
