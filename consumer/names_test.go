package consumer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func (b *bed) names(shard int) (names []string) {
	b.tb.Helper()
	found, err := b.redis.XInfoConsumers(context.Background(), key(shard), group).Result()
	if err != nil {
		b.tb.Fatal(err)
	}
	for i := range found {
		names = append(names, found[i].Name)
	}
	return names
}

// TestNamesOfDeadMembers: a member died with 500 records in hand in each shard,
// and many have left their names behind before it. Under load the names go, and
// no record with them.
func TestNamesOfDeadMembers(t *testing.T) {
	t.Parallel() // it is mostly waiting
	// The lease is not to end: it lasts longer than a machine stands still. Names go after
	// two of them.
	b := newBed(t, 2, protocol.Timings{HeartbeatInterval: 100 * time.Millisecond, Lease: 6 * time.Second, RebalanceTimeout: 6 * time.Second})
	ctx := context.Background()
	b.add(1000)
	for i := range b.shards {
		if err := b.redis.XReadGroup(ctx, &redis.XReadGroupArgs{Group: group, Consumer: "dead", Streams: []string{key(i), ">"}, Count: 500}).Err(); err != nil {
			t.Fatal(err)
		}
		for n := range 150 {
			if err := b.redis.XGroupCreateConsumer(ctx, key(i), group, fmt.Sprintf("dead-%d", n)).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	l, r := newJournal(), new(recorder)
	cfg := b.config("a", l.handler("a", func(context.Context, consumer.Record) error {
		time.Sleep(8 * time.Millisecond)
		return nil
	}))
	cfg.Observer, cfg.BatchSize, cfg.MaxWait = r, 20, -1
	start(t, cfg)
	for deadline := time.Now().Add(2 * patience); ; {
		b.add(2)
		time.Sleep(20 * time.Millisecond)
		if len(b.names(0)) == 1 && len(b.names(1)) == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d and %d names are left", len(b.names(0)), len(b.names(1)))
		}
	}
	l.await(t, b.next)
	if _, again := l.handled(); again != 0 {
		t.Errorf("%d records were handled twice", again)
	}
	eventually(t, "all names were told of", func() bool {
		removed := 0
		for _, e := range of[consumer.NamesRemovedEvent](r) {
			removed += len(e.Names)
		}
		return removed == 302
	})
	if names := b.names(0); len(names) != 1 || names[0] != "a" {
		t.Errorf("names left: %v", names)
	}
}
