// Package producer publishes records to a sharded Redis Stream.
//
// A stream is a set of Redis Streams named prefix:0 … prefix:N-1, its shards. A
// [Producer] asks the coordinator how many shards there are, picks the shard of
// each record by the record's partition key, and appends the record to that
// shard. Records of one key therefore keep their order, and the stream can grow
// over the nodes of a Redis Cluster.
//
//	p, err := producer.New(producer.Config{
//		Coordinators: []string{"http://127.0.0.1:8080"},
//		Credentials:  producer.BasicAuth("admin", "password"),
//		Stream:       "orders",
//		Redis:        redis.UniversalOptions{Addrs: []string{"127.0.0.1:6379"}},
//	})
//	if err != nil {
//		return err
//	}
//	defer p.Close(context.Background())
//	receipt, err := p.Publish(ctx, producer.Message{Key: "customer-7", Payload: body})
//
// # The route and its lease
//
// What the coordinator answers may be used for a limited time, its routing
// lease. It is refreshed in the background; while the coordinator is away the
// producer goes on with what it has until the lease ends, and then refuses to
// publish (ErrRoutingExpired) rather than write to shards that may have been
// given up meanwhile. It resumes by itself.
//
// # What an error means
//
// Every error of Publish, and of each message of a batch, is a [*PublishError].
// Its Outcome is NotApplied when the record is certainly not in the stream, and
// Unknown when it may be: the request left, and no answer came back. A producer
// never sends a record again after an unknown outcome unless
// Config.RetryUncertain says so, and it does not let the Redis client do so
// either. A record that was certainly not stored, for a reason that passes (no
// connection, a failover, a server that is loading), is sent again by itself for
// up to Config.RetryFor.
//
// # Order
//
// Two messages of one key are stored in the order in which they were published
// when the second call starts after the first returned, or when they stand in
// one batch in that order, as long as the shard count stays the same.
//
// In a batch the messages of one key form a chain. When one of them fails for
// good, or its outcome is unknown, those behind it that were not sent yet are
// not sent: they fail with ErrEarlierFailed. Messages that travel in one pipeline are
// already on their way together, so a server that changes its mind in the middle
// (a failover, memory that becomes free) can refuse one message and store a later
// one of the same key. The refused one is then never sent again, because
// that would put it behind its successor: it fails with ErrOvertaken, and the
// caller decides.
//
// A record whose outcome is unknown can still be stored after the call returned,
// for instance by a server that was frozen with the request in its socket, and
// then also behind later records of its key.
package producer
