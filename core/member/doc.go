// Package member is the client half of the protocol: what a member of a group
// does with each answer, with the passing of time, and with what the
// application tells it. The consumer module drives it with real clocks and
// HTTP, the simulator with virtual ones.
//
// The package is pure. Apply takes a state, an input (both clocks and a fresh
// random id) and a command; it returns the next state, what the driver is to do
// now (send a request, abandon one, wake up later) and what happened, in order:
// which shards may be read, which are to be let go, and which must be dropped
// at once.
//
// Three rules carry the promise that no shard has two readers:
//
//   - one request is outstanding, and only the answer to the latest request of
//     the present incarnation counts;
//   - the lease runs from the moment the request was sent, less a margin, and
//     ends when either clock says so;
//   - a lease that ended is never resumed: the incarnation is given up, all of
//     its shards are dropped, and the member joins again as a new one.
package member
