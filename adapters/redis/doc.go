// Package redis keeps the coordinator's records in Redis and prepares the
// streams there: a port.Store and a port.Mutex on one server, and a port.Streams
// on one server, on the master that Sentinels watch, or on a Redis Cluster.
//
// # Keys
//
// P is Config.KeyPrefix, G the name of a group, S the prefix of a stream. What
// stands in braces is the hash tag that keeps the keys of one group, or one
// stream, in one slot of a cluster; no command touches two slots.
//
//	P:{S:G}:metadata   hash    one group: aggregate, revision, nonce,
//	                           schemaVersion, layoutVersion, updatedAt
//	P:{S:G}:live       hash    incarnation → stamp, its proof of life
//	P:{S:G}:report     hash    incarnation → what it last said of itself
//	P:{S:G}:mutex      string  token of the holder, expires
//	P:{S}:stream       hash    one stream: record, revision, nonce, layoutVersion
//	P:{S}:stream-mutex string  token of the holder, expires
//	P:groups           set     the names of all metadata keys
//	P:streams          set     the names of all stream record keys
//	P:store-id         string  random, drawn when the store was first opened
//	S:0 … S:N-1        stream  the shards themselves
//
// Only the mutexes expire. The index sets are written before the first save of
// a record and after its deletion: a crash between leaves a name in them that
// stands for nothing, which lists pass over, but never a record that no list
// shows.
//
// # Names
//
// In a key, the characters : { } % of a group's name are percent-encoded, so
// two pairs of stream and group never share a key. (Prefixes hold no braces.)
// Programs that came before this one did not encode them, and wrote no nonce.
// Such a record is found under its old key, told from others by the names
// inside its aggregate, and moved to its key when it is loaded for the first
// time; those programs must not be running any more.
//
// # Versions
//
// A save, a renewal and a deletion are one script each: it compares instance,
// revision, nonce and stamps with what the caller relies on and writes
// everything, or nothing. The instance is the run id of the server, which the
// script asks for itself; it changes with a restart and with a failover. Where
// INFO is forbidden or missing, the store's id stands in for it, and a restart
// is only noticed by what it lost.
//
// # Trouble
//
// No command of the store and the mutex is sent twice. A write that was not
// answered is an error, and the record tells whether it took place. Calls end with
// their context or after Config.Timeout, whichever is first.
//
// Commands on streams go to the server that holds the key, grouped by server, and
// follow MOVED and ASK. A server that carries nothing out, because it loads, fails
// over or moves a slot, is waited for until the context or Config.Patience ends.
// After a lost answer only what can be repeated without harm is sent again, and
// only where another server may have taken over.
package redis
