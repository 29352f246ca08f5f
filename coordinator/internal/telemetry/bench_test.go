package telemetry

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// BenchmarkScrape is one scrape of 1,000 shards with 100 members that reads everything
// anew; over a Redis, and over streams that answer at once.
func BenchmarkScrape(b *testing.B) {
	b.Run("alone", func(b *testing.B) { scrapes(b, new(pretended)) })
	b.Run("redis", func(b *testing.B) { scrapes(b, filled(b)) })
}

const benchShards = 1000

func scrapes(b *testing.B, streams port.Inspector) {
	w := newWorld(b)
	w.stream(b, "orders", benchShards)
	w.settle(b, "orders", crowd(100)...)
	world := *w.Telemetry.scrape.world.Load()
	world.Streams = streams
	w.Watch(world)
	size := 0
	for b.Loop() {
		w.fresh()
		size = len(w.text(b))
	}
	b.ReportMetric(float64(size), "bytes")
	b.ReportMetric(float64(lines(w.text(b))), "lines")
}

// filled returns streams in a Redis that a group has read in part.
func filled(b *testing.B) port.Inspector {
	server := redistest.Start(b)
	client, err := redis.Open(b.Context(), redis.Config{URL: server.URL})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := client.Close(); err != nil {
			b.Error(err)
		}
	})
	streams := client.Streams()
	if err := streams.Provision(b.Context(), port.Provision{
		Prefix: "orders", End: benchShards, Groups: []string{"billing"}, Start: protocol.StartEarliest,
	}); err != nil {
		b.Fatal(err)
	}
	options, err := goredis.ParseURL(server.URL)
	if err != nil {
		b.Fatal(err)
	}
	writer := goredis.NewClient(options)
	defer func() { _ = writer.Close() }()
	_, err = writer.Pipelined(b.Context(), func(p goredis.Pipeliner) error {
		for i := range benchShards {
			key := routing.StreamKey("orders", i)
			for range 5 {
				p.XAdd(b.Context(), &goredis.XAddArgs{Stream: key, Values: map[string]any{"payload": "0123456789"}})
			}
			p.XReadGroup(b.Context(), &goredis.XReadGroupArgs{Group: "billing", Consumer: "c", Streams: []string{key, ">"}, Count: 2})
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	return streams
}
