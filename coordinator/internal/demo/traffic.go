package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/producer"
)

const (
	// keys is how many keys the records are spread over.
	keys = 4096
	// publishEvery is the time between two batches, maxBatch bounds one.
	publishEvery = 10 * time.Millisecond
	maxBatch     = 2000
	// refreshEvery is how often the producer asks where to write. It is short, as the
	// routing leases are.
	refreshEvery = 200 * time.Millisecond
)

// traffic publishes records at a steady rate.
type traffic struct {
	producer *producer.Producer
	journal  *journal
	rate     int
	// bursts counts the records that were asked for beside the steady rate.
	bursts atomic.Int64
	// seqs counts the records of each key.
	seqs [keys]int
}

func newTraffic(o *Options, c *coordinators, b *backend, stream, group string, j *journal, log slog.Handler) (*traffic, error) {
	redis, err := redisOptions(b.url)
	if err != nil {
		return nil, err
	}
	p, err := producer.New(producer.Config{
		Coordinators: c.urls(0), Credentials: producer.BasicAuth(memberUser, c.passwords[memberUser]),
		Stream: stream, Group: group, Redis: redis, RefreshInterval: refreshEvery, Logger: slog.New(log),
	})
	if err != nil {
		return nil, err
	}
	return &traffic{producer: p, journal: j, rate: o.Rate}, nil
}

// burst has n more records published at once.
func (t *traffic) burst(n int) { t.bursts.Add(int64(n)) }

// run publishes until stop is closed, and then finishes what is under way; when
// ctx ends it breaks off.
func (t *traffic) run(ctx context.Context, stop <-chan struct{}) {
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	began, published := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-tick.C:
		}
		due := int(time.Since(began).Seconds()*float64(t.rate)) + int(t.bursts.Load()) - published
		if due > 0 {
			due = min(due, maxBatch)
			t.publish(ctx, due)
			published += due
		}
	}
}

// publish sends n records and takes down what becomes of each.
func (t *traffic) publish(ctx context.Context, n int) {
	contents, messages := make([]content, n), make([]producer.Message, n)
	for i := range messages {
		key := rand.IntN(keys)
		t.seqs[key]++
		contents[i] = content{key, t.seqs[key]}
		messages[i] = producer.Message{Key: keyName(key), Fields: []producer.Field{{Name: seqField, Value: strconv.Itoa(t.seqs[key])}}}
	}
	results, err := t.producer.PublishBatch(ctx, messages)
	at := t.journal.now()
	if results == nil { // the batch as a whole was refused
		for _, c := range contents {
			t.journal.failed(c, false, err)
		}
		return
	}
	for i, r := range results {
		if r.Err != nil {
			t.journal.failed(contents[i], errors.Is(r.Err, producer.ErrOutcomeUnknown), r.Err)
			continue
		}
		id, err := parseID(r.Receipt.ID)
		if err != nil {
			t.journal.failed(contents[i], true, fmt.Errorf("receipt: %w", err))
			continue
		}
		t.journal.stored(sent{place{r.Receipt.Shard, id}, contents[i], at})
	}
}

func (t *traffic) close(ctx context.Context) error { return t.producer.Close(ctx) }
