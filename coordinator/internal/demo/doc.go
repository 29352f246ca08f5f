// Package demo runs the whole system for a while under trouble and accounts for
// every record.
//
// A coordinator serves the API on the loopback interface, a producer publishes
// to the shards of a stream, and consumers, each a process of its own, handle the
// records. While traffic flows two consumers are added, one is killed, one is
// stopped, and the coordinator is restarted. At the end what the producer was
// told, what the consumers told and what lies in Redis are compared: see
// account.go for what must hold.
//
// [Run] is the demo. [RunConsumer] and [RunRedis] are the processes that it
// starts, as hidden commands of the same program; they end when their standard
// input ends, so none of them outlives the demo, however that ends.
package demo
