// Package engine decides what a coordinator does for one group: what to load,
// what to renew, what to save, whom to answer and whom to let wait. It is pure:
// Step takes something that happened and returns effects; the runner (package
// service) only carries them out, and the simulator runs exactly this code.
//
// A steady heartbeat renews its lease at the cached revision and is answered
// from the cached state, all that wait at one moment in one round trip.
// Everything else is applied together to the cached state and saved with
// compare-and-set: first without the group's mutex, after a conflict under it.
// Nothing is answered before the store has confirmed the state that the answer
// is made from.
package engine
