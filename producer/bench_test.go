package producer_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

const (
	benchShards  = 16
	benchKeys    = 1000
	benchPayload = 200
	benchBatch   = 100 // messages of a pipeline
)

// bench holds a producer and a bare client of the same server.
type bench struct {
	server *redistest.Server
	p      *producer.Producer
	raw    *redis.Client
	keys   []string
	body   []byte
}

func newBench(b *testing.B) *bench {
	b.Helper()
	server := redistest.Start(b)
	provision(b, server.Client, benchShards)
	raw := redis.NewClient(&redis.Options{Addr: server.Addr})
	b.Cleanup(func() { _ = raw.Close() })
	out := &bench{server: server, p: open(b, newCoordinator(benchShards), server.Addr), raw: raw, body: []byte(strings.Repeat("x", benchPayload))}
	for i := range benchKeys {
		out.keys = append(out.keys, fmt.Sprintf("customer-%d", i))
	}
	return out
}

// args is what a careful user writes by hand: the same record, on the same shard.
func (x *bench) args(i int) *redis.XAddArgs {
	key := x.keys[i%len(x.keys)]
	return &redis.XAddArgs{
		Stream: routing.StreamKey(stream, routing.Shard(key, benchShards)), NoMkStream: true,
		Values: []any{producer.KeyField, key, producer.PayloadField, x.body},
	}
}

func (x *bench) rawSync(tb testing.TB, n int) {
	for i := range n {
		if err := x.raw.XAdd(tb.Context(), x.args(i)).Err(); err != nil {
			tb.Fatal(err)
		}
	}
}

func (x *bench) sync(tb testing.TB, n int) {
	for i := range n {
		if _, err := x.p.Publish(tb.Context(), producer.Message{Key: x.keys[i%len(x.keys)], Payload: x.body}); err != nil {
			tb.Fatal(err)
		}
	}
}

func (x *bench) rawBatches(tb testing.TB, n int) {
	const size = benchBatch
	for from := 0; from < n; from += size {
		pipe := x.raw.Pipeline()
		for i := from; i < from+size; i++ {
			pipe.XAdd(tb.Context(), x.args(i))
		}
		if _, err := pipe.Exec(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
}

func (x *bench) batches(tb testing.TB, n int) {
	const size = benchBatch
	messages := make([]producer.Message, size)
	for from := 0; from < n; from += size {
		for i := range messages {
			messages[i] = producer.Message{Key: x.keys[(from+i)%len(x.keys)], Payload: x.body}
		}
		if _, err := x.p.PublishBatch(tb.Context(), messages); err != nil {
			tb.Fatal(err)
		}
	}
}

// async sends everything and waits for the last confirmation.
func (x *bench) async(tb testing.TB, n int) {
	failed := make(chan error, 1)
	for i := range n {
		err := x.p.SendFunc(tb.Context(), producer.Message{Key: x.keys[i%len(x.keys)], Payload: x.body}, func(r producer.Result) {
			if r.Err != nil {
				select {
				case failed <- r.Err:
				default:
				}
			}
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := x.p.Flush(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	select {
	case err := <-failed:
		tb.Fatal(err)
	default:
	}
}

// trim empties the shards, so that memory does not grow with the rounds.
func (x *bench) trim(tb testing.TB) (records int64) {
	for shard := range benchShards {
		n, err := x.server.Client.XTrimMaxLen(tb.Context(), routing.StreamKey(stream, shard), 0).Result()
		if err != nil {
			tb.Fatal(err)
		}
		records += n
	}
	return records
}

// BenchmarkPublish shows the cost of one message, beside a bare XADD.
func BenchmarkPublish(b *testing.B) {
	x := newBench(b)
	for _, c := range []struct {
		name string
		run  func(n int)
	}{
		{"producer", func(n int) { x.sync(b, n) }},
		{"raw", func(n int) { x.rawSync(b, n) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			c.run(b.N)
			b.StopTimer()
			x.trim(b)
		})
	}
}

// BenchmarkPublishBatch shows the cost of one message in batches of 100, beside
// a bare pipeline.
func BenchmarkPublishBatch(b *testing.B) {
	const size = benchBatch
	x := newBench(b)
	for _, c := range []struct {
		name string
		run  func(n int)
	}{
		{"producer", func(n int) { x.batches(b, n) }},
		{"raw", func(n int) { x.rawBatches(b, n) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			c.run((b.N + size - 1) / size * size)
			b.StopTimer()
			x.trim(b)
		})
	}
}

// BenchmarkSend shows the cost of one message of Send, beside a bare pipeline of
// 100.
func BenchmarkSend(b *testing.B) {
	const size = benchBatch
	x := newBench(b)
	for _, c := range []struct {
		name string
		run  func(n int)
	}{
		{"producer", func(n int) { x.async(b, n) }},
		{"raw", func(n int) { x.rawBatches(b, n) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			c.run((b.N + size - 1) / size * size)
			b.StopTimer()
			x.trim(b)
		})
	}
}

// BenchmarkLimit shows the cost of one message of Send under each policy, with
// shards that are full of records which no group has been given.
func BenchmarkLimit(b *testing.B) {
	const length = 1000
	for _, c := range []struct {
		name   string
		length int64
		policy producer.FullPolicy
	}{
		{"none", 0, ""},
		{"refuse", 1 << 40, producer.RefuseWhenFull},
		{"drop", length, producer.DropWhenFull},
		{"drop-exactly", length, producer.DropWhenFullExactly},
	} {
		b.Run(c.name, func(b *testing.B) {
			server := redistest.Start(b)
			provision(b, server.Client, benchShards)
			x := &bench{server: server, body: []byte(strings.Repeat("x", benchPayload)), p: open(b, newCoordinator(benchShards), server.Addr, limited(c.length, c.policy))}
			for i := range benchKeys {
				x.keys = append(x.keys, fmt.Sprintf("customer-%d", i))
			}
			x.async(b, 2*length*benchShards)
			b.ReportAllocs()
			before := serverCPU(b, server)
			b.ResetTimer()
			x.async(b, b.N)
			b.StopTimer()
			b.ReportMetric((serverCPU(b, server)-before)*1e6/float64(b.N), "server-µs/op")
		})
	}
}

// serverCPU returns the seconds of CPU that a server has used.
func serverCPU(tb testing.TB, server *redistest.Server) float64 {
	sum := 0.0
	for line := range strings.Lines(server.Client.Info(tb.Context(), "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name != "used_cpu_sys" && name != "used_cpu_user" {
			continue
		}
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil {
			tb.Fatal(err)
		}
		sum += seconds
	}
	return sum
}

// BenchmarkAgainstRaw runs the producer and the bare client in turn and reports
// the median of their ratios (above 1: the producer is faster), which means more
// than two numbers from different moments of a busy machine. Run it with
// -benchtime=1x. Every round counts what was stored.
func BenchmarkAgainstRaw(b *testing.B) {
	const rounds = 7
	x := newBench(b)
	for _, c := range []struct {
		name      string
		n         int
		ours, raw func(n int)
	}{
		{"sync", 5_000, func(n int) { x.sync(b, n) }, func(n int) { x.rawSync(b, n) }},
		{"batch100", 50_000, func(n int) { x.batches(b, n) }, func(n int) { x.rawBatches(b, n) }},
		{"async", 50_000, func(n int) { x.async(b, n) }, func(n int) { x.rawBatches(b, n) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			timed := func(run func(n int)) float64 {
				began := time.Now()
				run(c.n)
				took := time.Since(began)
				if got := x.trim(b); got != int64(c.n) {
					b.Fatalf("%d records are stored, want %d", got, c.n)
				}
				return float64(c.n) / took.Seconds()
			}
			for range b.N {
				var ratios, ours, raws []float64
				for round := range rounds {
					var o, r float64
					if round%2 == 0 {
						o, r = timed(c.ours), timed(c.raw)
					} else {
						r, o = timed(c.raw), timed(c.ours)
					}
					ratios, ours, raws = append(ratios, o/r), append(ours, o), append(raws, r)
				}
				median := func(v []float64) float64 { slices.Sort(v); return v[len(v)/2] }
				b.ReportMetric(median(ratios), "ratio")
				b.ReportMetric(median(ours), "msg/s")
				b.ReportMetric(median(raws), "raw-msg/s")
			}
		})
	}
}
