// Package consumer reads the shards of a sharded Redis Stream as a member of a
// consumer group. A coordinator says which shards this member reads; the module
// keeps its lease, takes over what earlier owners left, hands the records to a
// handler in order, acknowledges them, and lets a shard go when it is to move.
//
//	c, err := consumer.New(consumer.Config{
//		Coordinators: []string{"http://127.0.0.1:8080"},
//		Stream:       "orders",
//		Group:        "billing",
//		Redis:        redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}},
//		Handler: func(ctx context.Context, r consumer.Record) error {
//			return bill(ctx, r.Values)
//		},
//	})
//	if err != nil {
//		return err
//	}
//	return c.Run(ctx)
//
// # What is promised
//
// One reader per shard; at least once; in order within the records of a shard that
// have the same key, through errors, retries and hand-overs, unless a handler
// outlives the rebalance timeout or its member's lease. Then records may be handled twice and at the same time, and
// Record.Token tells which handler is the newer one: it rises with each new
// owner of the shard, so an application can fence its own database with it.
//
// A handler must therefore be able to handle a record again. It must return when
// its context ends: that means that the shard is lost, or that time is up.
//
// # Keys, failures and dead letters
//
// Records of different keys are handled side by side, up to Config.Concurrency of
// them; those of one key one after the other. One whose handler fails is tried again
// after a pause, see Config.Retry, while other keys go on. With Config.DeadLetter it
// is moved to a stream of its own after some deliveries, also when its handler ends
// the process each time: deliveries are counted in Redis, before a handler begins.
//
// # Reading for yourself
//
// An application that reads in its own way sets Config.Lifecycle instead of
// Config.Handler. It then gets assignment, revocation and tokens only, and
// Config.Redis is not used.
package consumer
