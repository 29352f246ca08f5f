package producer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

// remover takes the shards of a stream away and keeps what was in them, so that every
// record can be accounted for at the end.
type remover struct {
	tb     testing.TB
	client redis.UniversalClient
	kept   []string
}

// remove takes the keys of the shards first to end away, each in one step.
func (r *remover) remove(first, end int) {
	r.tb.Helper()
	for shard := first; shard < end; shard++ {
		kept := fmt.Sprintf("kept:%d:%d", len(r.kept), shard)
		if err := r.client.Rename(r.tb.Context(), routing.StreamKey(stream, shard), kept).Err(); err != nil {
			r.tb.Fatal(err)
		}
		r.kept = append(r.kept, kept)
	}
}

// contents returns the payloads by id and partition key of every stream that there is and
// was, in their order.
func (r *remover) contents(shards int) (streams [][]redis.XMessage) {
	r.tb.Helper()
	keys := slices.Clone(r.kept)
	for shard := range shards {
		keys = append(keys, routing.StreamKey(stream, shard))
	}
	for _, key := range keys {
		records, err := r.client.XRange(r.tb.Context(), key, "-", "+").Result()
		if err != nil {
			r.tb.Fatal(err)
		}
		streams = append(streams, records)
	}
	return streams
}

// expectOrder fails the test unless every stream has the records of each key in the order
// of their payloads, which count up; it returns how many times each payload of each key is
// stored.
func expectOrder(tb testing.TB, streams [][]redis.XMessage) map[string]int {
	tb.Helper()
	stored := map[string]int{}
	for _, records := range streams {
		last := map[string]int{}
		for _, r := range records {
			key, body := fmt.Sprint(r.Values[producer.KeyField]), fmt.Sprint(r.Values[producer.PayloadField])
			n, err := strconv.Atoi(body)
			if err != nil {
				tb.Fatal(err)
			}
			if before, known := last[key]; known && n <= before {
				tb.Errorf("key %s: %d behind %d", key, n, before)
			}
			last[key] = n
			stored[key+"/"+body]++
		}
	}
	return stored
}

// The shard count changes several times under load. The producer has a route of up to 30 s
// ago each time, and removed shards are gone at once: nothing is refused, nothing is
// stored twice or nowhere, and each key keeps its order in each shard.
func TestReshardingUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 8)
	c := newCoordinator(8)
	p := open(t, c, server.Addr)
	const publishers, keysEach = 6, 5
	var published [publishers + 1]int // by publisher; the last one sends
	var worst [publishers]time.Duration
	var progress [publishers + 1]atomic.Int64
	stop := make(chan struct{})
	over := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	var load sync.WaitGroup
	for i := range publishers {
		load.Go(func() {
			for ; !over(); published[i]++ {
				n := published[i]
				began := time.Now()
				if _, err := p.Publish(t.Context(), message(fmt.Sprintf("p%d.%d", i, n%keysEach), strconv.Itoa(n))); err != nil {
					t.Errorf("publisher %d, message %d: %v", i, n, err)
					return
				}
				worst[i] = max(worst[i], time.Since(began))
				progress[i].Add(1)
			}
		})
	}
	load.Go(func() {
		for ; !over(); published[publishers]++ {
			n := published[publishers]
			err := p.SendFunc(t.Context(), message(fmt.Sprintf("s.%d", n%keysEach), strconv.Itoa(n)), func(r producer.Result) {
				if r.Err != nil {
					t.Errorf("message %d of Send: %v", n, r.Err)
				}
				progress[publishers].Add(1)
			})
			if err != nil {
				t.Errorf("Send: %v", err)
				return
			}
		}
	})
	// onward waits until everybody has stored something since.
	onward := func(what string) {
		t.Helper()
		var before [publishers + 1]int64
		for i := range progress {
			before[i] = progress[i].Load()
		}
		eventually(t, what, func() bool {
			if t.Failed() {
				return true
			}
			for i := range progress {
				if progress[i].Load() < before[i]+20 {
					return false
				}
			}
			return true
		})
		// No message meets two changes.
		if err := p.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	r := &remover{tb: t, client: server.Client}
	onward("8 shards are written to")
	count := 8
	for _, to := range []int{12, 5, 9, 2, 8} {
		for shard := count; shard < to; shard++ {
			if err := server.Client.XGroupCreateMkStream(t.Context(), routing.StreamKey(stream, shard), "g", "0").Err(); err != nil {
				t.Fatal(err)
			}
		}
		c.set(func(c *coordinator) { c.shards = to })
		if to < count {
			r.remove(to, count)
		}
		// A route to shards that are still there is as good as before: more of them are
		// used when it is refreshed.
		count = to
		onward(fmt.Sprintf("%d shards are written to", to))
	}
	close(stop)
	load.Wait()
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	total := 0
	stored := expectOrder(t, r.contents(count))
	for _, n := range published {
		total += n
	}
	twice := 0
	for _, n := range stored {
		twice += n - 1
	}
	if len(stored) != total || twice > 0 {
		t.Errorf("%d records are stored, %d of them more than once; %d were published", len(stored), twice, total)
	}
	t.Logf("%d records through 5 changes; the slowest of each publisher took %v", total, worst)
}

// A stream that is scaled to zero refuses what is published, certainly and in words that
// say why, whichever way it is published; with shards again it goes on by itself, long
// before the route would have been refreshed.
func TestScaleToZeroAndBack(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 4)
	c := seldom(newCoordinator(4))
	p := open(t, c, server.Addr, refreshSeldom)
	ways := map[string]func(n int) error{
		"Publish": func(n int) error {
			_, err := p.Publish(t.Context(), message("publish", strconv.Itoa(n)))
			return err
		},
		"PublishBatch": func(n int) error {
			_, err := p.PublishBatch(t.Context(), []producer.Message{message("batch", strconv.Itoa(n))})
			return err
		},
		"Send": func(n int) error {
			f, err := p.Send(t.Context(), message("send", strconv.Itoa(n)))
			if err == nil {
				_, err = f.Wait(t.Context())
			}
			return err
		},
	}
	for way, publish := range ways {
		if err := publish(0); err != nil {
			t.Fatalf("%s: %v", way, err)
		}
	}
	r := &remover{tb: t, client: server.Client}
	c.set(func(c *coordinator) { c.shards = 0 })
	r.remove(0, 4)
	for n := 1; n <= 3; n++ {
		for way, publish := range ways {
			err := publish(n)
			wantError(t, err, producer.ErrNoShards, "scale it up")
			if e := details(t, err); !e.Retryable {
				t.Errorf("%s: %+v is not worth another try", way, e)
			}
		}
	}
	if failed := p.Stats().Failed; len(failed) != 1 || failed[producer.ErrNoShards.Code] == 0 {
		t.Errorf("failures by code: %v", failed)
	}

	provision(t, server.Client, 3)
	c.set(func(c *coordinator) { c.shards = 3 })
	back := time.Now()
	n := 4
	for way, publish := range ways {
		eventually(t, way+" goes on", func() bool {
			n++
			err := publish(n)
			if err != nil && !errors.Is(err, producer.ErrNoShards) {
				t.Fatalf("%s: %v", way, err)
			}
			return err == nil
		})
	}
	expectOrder(t, r.contents(3))
	t.Logf("all ways of publishing went on %s after there were shards again", time.Since(back).Round(time.Millisecond))
}

// While somebody waits for shards, the coordinator is not asked by each of many.
func TestManyPublishersWithoutShards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCoordinator(0)
		p := open(t, c, "127.0.0.1:1")
		synctest.Wait() // the routing is there
		before := c.asked()
		ctx, done := context.WithTimeout(t.Context(), time.Second)
		defer done()
		var callers sync.WaitGroup
		var refused atomic.Int64
		for range 50 {
			callers.Go(func() {
				for ctx.Err() == nil {
					_, err := p.Publish(context.WithoutCancel(ctx), message("k", "x"))
					if !errors.Is(err, producer.ErrNoShards) {
						t.Errorf("got %v", err)
						return
					}
					refused.Add(1)
					time.Sleep(time.Millisecond)
				}
			})
		}
		callers.Wait()
		// 400 ms lie between two requests.
		if n := c.asked() - before; n < 2 || n > 3 || refused.Load() < 50_000 {
			t.Errorf("%d requests for %d refusals in a second", n, refused.Load())
		}
	})
}

// BenchmarkResharding measures what a change of the shard count costs those who publish:
// the time that a call takes in the moments around it, with a route that is older than the
// change and shards that are gone.
func BenchmarkResharding(b *testing.B) {
	server := redistest.Start(b)
	for name, to := range map[string]int{"out": 12, "in": 5} {
		b.Run(name, func(b *testing.B) {
			var took []time.Duration
			for range b.N {
				server.Client.FlushAll(b.Context())
				provision(b, server.Client, 12)
				c := newCoordinator(8)
				p := open(b, c, server.Addr)
				took = append(took, aroundChange(b, p, func() {
					c.set(func(c *coordinator) { c.shards = to })
					for shard := to; shard < 12; shard++ {
						server.Client.Unlink(b.Context(), routing.StreamKey(stream, shard))
					}
				})...)
			}
			slices.SortFunc(took, cmp.Compare)
			b.ReportMetric(took[len(took)/2].Seconds()*1e3, "p50-ms")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e3, "p99-ms")
			b.ReportMetric(took[len(took)-1].Seconds()*1e3, "max-ms")
		})
	}
}

// aroundChange publishes 5,000 records a second while change happens, and returns how
// long each call took in the second after it.
func aroundChange(b *testing.B, p *producer.Producer, change func()) (took []time.Duration) {
	const publishers, every = 10, 2 * time.Millisecond
	var mu sync.Mutex
	var load sync.WaitGroup
	var counts atomic.Bool
	ctx, stop := context.WithCancel(b.Context())
	for i := range publishers {
		load.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				<-tick.C
				began := time.Now()
				if _, err := p.Publish(context.WithoutCancel(ctx), message(fmt.Sprintf("k%d.%d", i, n%100), strings.Repeat("x", 100))); err != nil {
					b.Error(err)
					return
				}
				if counts.Load() {
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
				}
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	counts.Store(true)
	change()
	time.Sleep(time.Second)
	stop()
	load.Wait()
	return took
}
