package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/producer"
)

// sent is what a producer says about a record.
type sent struct {
	outcome outcome
	// at is when the answer came, shard and place where it was stored.
	at    time.Time
	shard int
	place position
}

// outcome is what is known of a record that was published.
type outcome int

const (
	// stored: Redis has confirmed it.
	stored outcome = iota
	// unknown: it may be stored.
	unknown
	// refused: it is certainly not stored, and was given up.
	refused
)

// feed publishes numbered records of many keys, and keeps what came of each. What
// is certainly not stored is published again, as an application would, so the
// order of a key is that of its numbers.
type feed struct {
	tb       testing.TB
	producer *producer.Producer
	prefix   string
	keys     int
	// row is how many records of a key come in a row, before it is the next key's turn.
	row int
	// batch is how many records are published together; 1 by themselves.
	batch int
	// async publishes with Send.
	async bool
	// padding is how many bytes are added to each record.
	padding int
	// order says what is asked of a record's handler.
	order func(n name) order

	mu      sync.Mutex
	outcome map[name]sent
	next    []int
	turn    int

	stop chan struct{}
	flow sync.WaitGroup
}

// newFeed makes a feed with keys of its own. change may alter the settings.
func (w *world) newFeed(prefix string, keys int, change func(*producer.Config)) *feed {
	w.t.Helper()
	cfg := producer.Config{
		Coordinators: []string{w.coordinator.URL},
		Credentials:  producer.BasicAuth("admin", "password"),
		Stream:       stream,
		Redis:        w.server.UniversalOptions(),
		Logger:       slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	p, err := producer.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	f := &feed{tb: w.t, producer: p, prefix: prefix, keys: keys, row: 1, batch: 50, outcome: map[name]sent{}, next: make([]int, keys)}
	w.t.Cleanup(func() {
		f.halt()
		ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		_ = p.Close(ctx)
	})
	w.feeds = append(w.feeds, f)
	return f
}

// draw numbers the next records, the keys taking turns.
func (f *feed) draw(count int) []name {
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]name, count)
	for i := range names {
		key := f.turn / f.row % f.keys
		names[i] = name{fmt.Sprintf("%s-%d", f.prefix, key), f.next[key]}
		f.next[key]++
		f.turn++
	}
	return names
}

func (f *feed) message(n name) producer.Message {
	var ord order
	if f.order != nil {
		ord = f.order(n)
	}
	return producer.Message{Key: n.key, Payload: payload(n.seq, ord, f.padding)}
}

// publish publishes the next records and returns when each has an outcome, or
// ctx has ended; those that were not stored then are refused.
func (f *feed) publish(ctx context.Context, count int) {
	for count > 0 {
		n := min(f.batch, count)
		f.push(ctx, f.draw(n))
		count -= n
	}
}

// push publishes some records until each has an outcome.
func (f *feed) push(ctx context.Context, names []name) {
	const pause = 20 * time.Millisecond
	for len(names) > 0 {
		results := f.attempt(ctx, names)
		var again []name
		for i, n := range names {
			if f.settle(n, results[i], ctx.Err() != nil) {
				again = append(again, n)
			}
		}
		if names = again; len(names) > 0 {
			time.Sleep(pause) // an application's own pause
		}
	}
}

// attempt publishes some records once, in the way of this feed.
func (f *feed) attempt(ctx context.Context, names []name) []producer.Result {
	messages := make([]producer.Message, len(names))
	for i, n := range names {
		messages[i] = f.message(n)
	}
	switch {
	case f.async:
		return f.send(ctx, messages)
	case len(messages) == 1:
		receipt, err := f.producer.Publish(ctx, messages[0])
		return []producer.Result{{Receipt: receipt, Err: err}}
	default:
		results, err := f.producer.PublishBatch(ctx, messages)
		if results == nil {
			results = make([]producer.Result, len(messages))
			for i := range results {
				results[i].Err = err
			}
		}
		return results
	}
}

// send publishes with futures. A message behind one of its key that failed is not
// sent: it would come before it.
func (f *feed) send(ctx context.Context, messages []producer.Message) []producer.Result {
	results := make([]producer.Result, len(messages))
	futures := make([]*producer.Future, len(messages))
	for i, m := range messages {
		future, err := f.producer.Send(ctx, m)
		if err != nil {
			results[i].Err = err
			// The rest is left for the next attempt, in its order.
			for j := i + 1; j < len(messages); j++ {
				results[j].Err = producer.ErrEarlierFailed
			}
			break
		}
		futures[i] = future
	}
	for i, future := range futures {
		if future == nil {
			continue
		}
		receipt, err := future.Wait(context.WithoutCancel(ctx))
		results[i] = producer.Result{Receipt: receipt, Err: err}
	}
	return results
}

// settle notes the outcome of a record, or returns true if it is to be published
// again.
func (f *feed) settle(n name, r producer.Result, last bool) (again bool) {
	s := sent{outcome: stored, at: time.Now()}
	switch {
	case r.Err == nil:
		s.shard, s.place = r.Receipt.Shard, parsePosition(r.Receipt.ID)
	case errors.Is(r.Err, producer.ErrOutcomeUnknown):
		s.outcome = unknown
	case errors.Is(r.Err, producer.ErrOvertaken) || last || errors.Is(r.Err, producer.ErrClosed):
		s.outcome = refused
	default:
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outcome[n] = s
	return false
}

// start lets records flow at a rate until halt.
func (f *feed) start(perSecond int) {
	f.stop = make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.tb.Context()))
	f.flow.Go(func() {
		defer cancel()
		<-f.stop
	})
	f.flow.Go(func() {
		began, count := time.Now(), 0
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-f.stop:
				return
			case <-pace.C:
			}
			due := int(time.Since(began).Seconds()*float64(perSecond)) - count
			if due <= 0 {
				continue
			}
			// What could not be sent meanwhile is not made up for.
			due = min(due, perSecond/10+1)
			f.publish(ctx, due)
			count = int(time.Since(began).Seconds() * float64(perSecond))
		}
	})
}

// count returns how many records have an outcome.
func (f *feed) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.outcome)
}

// halt ends the flow and waits until what is under way has an outcome.
func (f *feed) halt() {
	if f.stop == nil {
		return
	}
	close(f.stop)
	f.flow.Wait()
	f.stop = nil
}

// outcomes returns a copy of what is known by now.
func (f *feed) outcomes() map[name]sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[name]sent, len(f.outcome))
	for n, s := range f.outcome {
		all[n] = s
	}
	return all
}

// addForeign appends an entry that no producer of ours wrote.
func (w *world) addForeign(shard int, values ...string) {
	w.t.Helper()
	err := w.server.Client.XAdd(w.t.Context(), &redis.XAddArgs{Stream: shardKey(shard), NoMkStream: true, Values: values}).Err()
	if err != nil {
		w.t.Fatal(err)
	}
}
