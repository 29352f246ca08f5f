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
// # Waiting or not
//
// [Producer.Publish] returns when the record is stored, and [Producer.PublishBatch] when
// that is decided for each of its messages. [Producer.Send] returns as soon as
// the message is taken: its [Future] tells the outcome, [Producer.SendFunc] calls back,
// and [Producer.Flush] waits for everything. What was taken travels in pipelines, at
// most two under way to a node at a time, each with what gathered while those before were
// answered; there is no delay while the way is free. What is buffered is bounded:
// when the bound is reached, Send waits.
//
// # What an error means
//
// Every error of Publish, and the outcome of each other message that is not
// stored, is a [*PublishError]. Its Outcome is NotApplied when the record is certainly not in the stream, and
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
// when the second call starts after the first returned, when they stand in
// one batch in that order, or when Send took them in that order, as long as the
// shard count stays the same. Between Send and the other two there is order only
// when the future is done before the other call starts.
//
// The messages of one key in a batch form a chain, and so do those that Send
// has taken. When one of them fails for good, or its outcome is unknown, those
// behind it that were not sent yet are not sent: they fail with ErrEarlierFailed. What
// Send takes after the future of the failed message is done begins a new chain.
//
// Messages that travel in one pipeline are
// already on their way together, so a server that changes its mind in the middle
// (a failover, memory that becomes free) can refuse one message and store a later
// one of the same key. The refused one is then never sent again, because
// that would put it behind its successor: it fails with ErrOvertaken, and the
// caller decides.
//
// A record whose outcome is unknown can still be stored after the call returned,
// for instance by a server that was frozen with the request in its socket, and
// then also behind later records of its key.
//
// # Bounded streams
//
// Config.MaxStreamLength bounds the records of a shard. By default there is no
// bound. At the bound a record is refused (ErrStreamFull), or the oldest ones
// are dropped and counted, those apart that some consumer group had not been given:
// nothing unread goes unseen. The decision is made where the record is stored,
// by a script, so it holds with any number of producers.
package producer
