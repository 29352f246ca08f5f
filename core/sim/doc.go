// Package sim runs coordinators, members and a store through schedules full of
// faults, in virtual time and in one goroutine. The coordinators are the real
// engine, group and stream, the members the real client half of the protocol; only
// the network, the clocks, the store and the Redis of the streams are models. After
// every step it checks what must never happen, and once the faults end, what must come
// to be.
//
// Where the shard count changes there are records, too: producers write them by routes
// that they may use for a while, readers claim, handle and acknowledge them, and what
// either sends may take effect long after it was sent.
//
// A seed decides everything: the shape of the schedule, the rates of the faults
// (each kind is off in half of the seeds, since too many at once hide what each
// would show), every delay and every loss. The same seed gives the same trace,
// byte for byte.
package sim
