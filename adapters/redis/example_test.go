package redis_test

import (
	"context"
	"fmt"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func Example() {
	ctx := context.Background()
	err := func() error {
		client, err := redis.Open(ctx, redis.Config{URL: "redis://127.0.0.1:6379"})
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }()
		store, err := client.Store(ctx)
		if err != nil {
			return err
		}
		instance, err := store.Ping(ctx)
		if err != nil {
			return err
		}
		fmt.Println("the store is", instance)
		return client.Streams().Provision(ctx, port.Provision{
			Prefix: "orders", End: 8, Groups: []string{"billing"}, Start: protocol.StartEarliest,
		})
	}()
	if err != nil {
		fmt.Println(err)
	}
}
