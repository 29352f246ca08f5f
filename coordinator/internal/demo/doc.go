// Package demo runs the whole system for a while under trouble and accounts for
// every record.
//
// Two coordinators share a store and serve the API on the loopback interface, a
// producer publishes to the shards of a stream, and consumers, each a process of its
// own like the coordinators, handle the records. While traffic flows two consumers
// are added, one is killed, one is stopped, the stream is scaled out, a coordinator is
// killed and started again, and the stream is scaled in, until the shards that are
// removed were read to their ends and are gone. Where Redis is inside this process, its
// store cannot be shared: there is one coordinator, which is restarted. At the end what
// the producer was told, what the consumers told and what lies in Redis are compared:
// see account.go for what must hold.
//
// [Run] is the demo. [RunCoordinator], [RunConsumer] and [RunRedis] are the processes that it
// starts, as hidden commands of the same program; they end when their standard
// input ends, so none of them outlives the demo, however that ends.
package demo
