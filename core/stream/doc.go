// Package stream holds the record of one stream: how many shards it has, which
// groups read it, and what is still to be done to Redis and to the store so
// that all of this is true.
//
// The record is the authority for routing and for which groups exist. It is
// written first, then the world follows: Next derives the open steps from the
// record alone, so any coordinator can take them, again after a crash, and each
// of them can be repeated. The package is pure.
package stream
