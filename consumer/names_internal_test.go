package consumer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
)

// TestNamesUnderReaders: names are removed as fast as can be, without regard to
// when they were used last, while their consumers read, blocked and not. Nothing
// that was delivered is lost.
func TestNamesUnderReaders(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	t.Cleanup(func() { _ = client.Close() })
	ctx := t.Context()
	const key, total, least = "s:0", 3000, 30
	if err := client.XGroupCreateMkStream(ctx, key, "billing", "0").Err(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var tidying, working sync.WaitGroup
	var removed atomic.Int32
	tidying.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			names, err := namesScript.Run(ctx, client, []string{key}, "billing", "own", 0, nameBatch).StringSlice()
			if err != nil {
				t.Error(err)
				return
			}
			removed.Add(int32(len(names)))
		}
	})
	var added atomic.Bool
	working.Go(func() {
		defer added.Store(true)
		for i := range total {
			// Not much faster than names are removed, or the test shows little.
			for int(removed.Load()) < i*least/total && !t.Failed() {
				time.Sleep(time.Millisecond)
			}
			if err := client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"n", "1"}}).Err(); err != nil {
				t.Error(err)
			}
		}
	})
	var mu sync.Mutex
	delivered, open := map[string]bool{}, map[string]bool{}
	for _, name := range []string{"c1", "c2", "c3"} {
		working.Go(func() {
			for acks := true; ; acks = !acks {
				last := added.Load()
				got, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
					Group: "billing", Consumer: name, Streams: []string{key, ">"}, Count: 5, Block: 300 * time.Millisecond,
				}).Result()
				if errors.Is(err, redis.Nil) && !last {
					continue
				}
				if errors.Is(err, redis.Nil) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				for _, m := range got[0].Messages {
					mu.Lock()
					delivered[m.ID] = true
					open[m.ID] = !acks
					mu.Unlock()
					if acks {
						if err := client.XAck(ctx, key, "billing", m.ID).Err(); err != nil {
							t.Error(err)
						}
					}
				}
				if !acks {
					// What one leaves is another's, so names own nothing again and again.
					for _, m := range got[0].Messages {
						if err := client.XClaim(ctx, &redis.XClaimArgs{Stream: key, Group: "billing", Consumer: "keeps", Messages: []string{m.ID}}).Err(); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	working.Wait()
	close(stop)
	tidying.Wait()
	pending, err := client.XPendingExt(context.Background(), &redis.XPendingExtArgs{Stream: key, Group: "billing", Start: "-", End: "+", Count: total}).Result()
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	for _, o := range open {
		if o {
			want++
		}
	}
	if len(delivered) != total || len(pending) != want {
		t.Errorf("%d of %d delivered; %d are pending, want %d", len(delivered), total, len(pending), want)
	}
	t.Logf("%d names were removed under %d records", removed.Load(), total)
}

func TestNamesLeavesItsOwnAndTheBusy(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	t.Cleanup(func() { _ = client.Close() })
	ctx := t.Context()
	const key = "s:0"
	run := func(idle time.Duration, batch int) []string {
		t.Helper()
		names, err := namesScript.Run(ctx, client, []string{key}, "billing", "own", idle.Milliseconds(), batch).StringSlice()
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
		return names
	}
	if got := run(0, nameBatch); len(got) != 0 {
		t.Errorf("without the stream: %v", got)
	}
	if err := client.XGroupCreateMkStream(ctx, key, "billing", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"n", "1"}}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "billing", Consumer: "busy", Streams: []string{key, ">"}}).Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"own", "old-1", "old-2", "old-3"} {
		if err := client.XGroupCreateConsumer(ctx, key, "billing", name).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if got := run(time.Hour, nameBatch); len(got) != 0 {
		t.Errorf("young names were removed: %v", got)
	}
	if got := run(0, 2); len(got) != 2 {
		t.Errorf("a batch of 2 removed %v", got)
	}
	if got := run(0, nameBatch); len(got) != 1 {
		t.Errorf("the rest is %v", got)
	}
	left, err := client.XInfoConsumers(ctx, key, "billing").Result()
	if err != nil || len(left) != 2 || left[0].Pending+left[1].Pending != 1 {
		t.Errorf("left: %+v, %v", left, err)
	}
}
