package reshard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/producer"
)

const (
	// feedTick is the time between two batches of a feed.
	feedTick = 5 * time.Millisecond
	// feedPause is how long an application waits before it publishes again what was not
	// stored.
	feedPause = 10 * time.Millisecond
	// feedEnd is how long the last records of a feed may take.
	feedEnd = 30 * time.Second
)

// feedPart is a feed: it publishes numbered records of some keys at a rate, and again
// what was certainly not stored.
type feedPart struct {
	// Name begins its keys.
	Name      string
	Keys      int
	PerSecond int
}

// The lines of a feed's journal:
//
//	s <key> <number> <shard> <unix ns>   stored
//	u <key> <number>                     nobody knows
//	r <key> <number>                     not stored, and given up at the end
//	z <unix ns>                          refused, as there are no shards
//	b <unix ns> <ns>                     a batch was due then, and settled so much later

// name is a record: the number of a key's.
type name struct {
	key    string
	number int
}

// feed runs a feed until ctx ends.
func (p part) feed(ctx context.Context, log *slog.Logger) (err error) {
	j, err := faultkit.OpenJournal(p.Journal)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	pub, err := producer.New(producer.Config{ //nolint:contextcheck // it outlives ctx, for what is under way at the end
		Coordinators: p.Coordinators, Credentials: producer.BasicAuth("admin", "password"),
		Stream: p.Stream, Redis: p.redis(), Logger: log,
	})
	if err != nil {
		return err
	}
	defer func() {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), feedEnd)
		defer done()
		err = errors.Join(err, pub.Close(ctx))
	}()
	f := &flow{feedPart: p.Feed, producer: pub, journal: j, next: make([]int, p.Feed.Keys)}
	f.run(ctx)
	return nil
}

// flow is a running feed.
type flow struct {
	*feedPart
	producer *producer.Producer
	journal  *faultkit.Journal
	// next numbers the records of each key, turn says whose is next.
	next []int
	turn int
}

func (f *flow) run(ctx context.Context) {
	// What is under way at the end gets a while more.
	last, done := context.WithCancel(context.WithoutCancel(ctx))
	defer done()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(feedEnd, done) })
	defer stop()

	pace := time.NewTicker(feedTick)
	defer pace.Stop()
	began, count := time.Now(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		due := int(time.Since(began).Seconds()*float64(f.PerSecond)) - count
		if due <= 0 {
			continue
		}
		// What could not be sent meanwhile is not made up for.
		f.publish(last, min(due, f.PerSecond/20+1))
		count = int(time.Since(began).Seconds() * float64(f.PerSecond))
	}
}

// publish publishes the next records until each has an outcome.
func (f *flow) publish(ctx context.Context, count int) {
	names := make([]name, count)
	for i := range names {
		key := f.turn % f.Keys
		names[i] = name{f.Name + "-" + strconv.Itoa(key), f.next[key]}
		f.next[key]++
		f.turn++
	}
	began := time.Now()
	for {
		names = f.attempt(ctx, names)
		if len(names) == 0 {
			break
		}
		time.Sleep(feedPause)
	}
	f.journal.Write(fmt.Appendf(nil, "b %d %d\n", began.UnixNano(), time.Since(began)))
}

// attempt publishes records once, and returns those that are to be published again.
func (f *flow) attempt(ctx context.Context, names []name) (again []name) {
	messages := make([]producer.Message, len(names))
	for i, n := range names {
		messages[i] = producer.Message{Key: n.key, Payload: strconv.AppendInt(nil, int64(n.number), 10)}
	}
	results, whole := f.producer.PublishBatch(ctx, messages)
	var lines []byte
	for i, n := range names {
		err := whole
		if results != nil {
			err = results[i].Err
		}
		switch {
		case err == nil:
			lines = fmt.Appendf(lines, "s %s %d %d %d\n", n.key, n.number, results[i].Receipt.Shard, time.Now().UnixNano())
		case errors.Is(err, producer.ErrOutcomeUnknown):
			lines = fmt.Appendf(lines, "u %s %d\n", n.key, n.number)
		case ctx.Err() != nil || errors.Is(err, producer.ErrOvertaken):
			lines = fmt.Appendf(lines, "r %s %d\n", n.key, n.number)
		default:
			again = append(again, n)
			if errors.Is(err, producer.ErrNoShards) {
				lines = fmt.Appendf(lines, "z %d\n", time.Now().UnixNano())
			}
		}
	}
	f.journal.Write(lines)
	return again
}
