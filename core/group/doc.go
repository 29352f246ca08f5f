// Package group is the heart of the coordinator: the state of one consumer
// group (its members, its epochs, the ledger of who may be reading which
// shard) and the rules by which it changes.
//
// The package is pure. Apply takes a state, an input (the time, verdicts on
// leases, a fresh random id) and a command, and returns the next state, the
// answers and the events; it never reads a clock and never blocks. Whatever can
// be decided without I/O is decided here, once.
//
// Two things must not be confused: the target says who should hold a shard, the
// ledger says who may be reading it now. A shard changes hands only through the
// ledger being empty for it.
package group
