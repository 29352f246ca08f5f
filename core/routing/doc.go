// Package routing maps a partition key to a shard, a shard to the key of its
// Redis Stream, and a key to its Redis Cluster slot.
//
// The mapping is part of the wire contract: producers in other languages
// compute it too, and records of one partition key meet in one shard only if
// all of them agree bit by bit. It therefore never changes. A partition key is
// hashed as the bytes it consists of, without any normalisation: two spellings
// of one character are two keys.
//
// The package is pure, imports the standard library only, and allocates
// nothing but the names it returns.
package routing
