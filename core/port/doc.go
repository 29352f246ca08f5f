// Package port holds what the core asks of the world: a store for its records,
// a mutex, the streams in Redis, an audit, a clock and fresh ids. Adapters implement
// these interfaces; package porttest is the suite that every store passes.
//
// The store deals in bytes and keys. What they mean is the business of group,
// stream and engine.
package port
