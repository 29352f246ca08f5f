// Package bench loads a coordinator with members that speak the real protocol over
// HTTP, and says what it bears and what it costs: throughput, latency, the work of the
// store, processor time and memory.
//
// There are two kinds of load. Keepalives are sent as fast as they are answered, by
// members that have settled and have nothing to say; this is for throughput. With
// Options.Wait the members are those of the consumer module, whose heartbeats the
// coordinator holds until there is something to hear, while one more member of each
// group comes and goes; this is for how soon changes arrive.
package bench
