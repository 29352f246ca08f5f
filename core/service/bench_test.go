package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// BenchmarkHeartbeats measures steady heartbeats per second at the service port
// of one process: a coordinator and the memory store, with as many callers at
// once as the name says, each with a member of its own at a time.
func BenchmarkHeartbeats(b *testing.B) {
	for _, size := range []struct{ shards, members, callers int }{
		{10_000, 1_000, 1}, {10_000, 1_000, 16}, {10_000, 1_000, 1_000}, {10_000, 10_000, 1_000},
	} {
		b.Run(fmt.Sprintf("S%d/M%d/callers%d", size.shards, size.members, size.callers), func(b *testing.B) {
			heartbeats(b, size.shards, size.members, size.callers)
		})
	}
}

func heartbeats(b *testing.B, count, members, callers int) {
	c, err := service.New(
		service.Config{ID: "bench", MaxShards: count, Logger: slog.New(slog.DiscardHandler)},
		service.Ports{Store: memstore.New(), Mutex: new(memstore.Mutex)},
	)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	defer running.Wait()
	defer stop()
	if _, err := c.CreateStream(ctx, "orders", shards(count)); err != nil {
		b.Fatal(err)
	}
	all := make([]*beat, members)
	var wait sync.WaitGroup
	for i := range all {
		all[i] = &beat{id: fmt.Sprintf("member-%05d", i), incarnation: fmt.Sprintf("m-0123456789abcdef%08d", i)}
		wait.Go(func() {
			// Join, acknowledge, and once more, in case the first join came early.
			for range 3 {
				all[i].last = c.Heartbeat(ctx, "orders", "billing", all[i].next())
			}
		})
	}
	wait.Wait()
	for range 50 {
		g, err := c.Group(ctx, "orders", "billing")
		if err != nil {
			b.Fatal(err)
		}
		if g.State == protocol.GroupStable {
			break
		}
		for _, m := range all {
			m.last = c.Heartbeat(ctx, "orders", "billing", m.next())
		}
	}
	requests := make([]*protocol.Heartbeat, members)
	for i, m := range all {
		requests[i] = m.next()
	}
	var next, failed atomic.Int64
	began := time.Now()
	b.ResetTimer()
	for range callers {
		wait.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				if r := c.Heartbeat(ctx, "orders", "billing", requests[int(n)%members]); r.Status != protocol.StatusOK {
					failed.Add(1)
				}
			}
		})
	}
	wait.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/time.Since(began).Seconds(), "heartbeats/s")
	if failed.Load() > 0 {
		b.Errorf("%d of %d heartbeats were not OK", failed.Load(), b.N)
	}
	if err := c.Close(ctx); err != nil {
		b.Error(err)
	}
}
