// Package redis keeps the coordinator's records in Redis and prepares the
// streams there: a port.Store with its port.Signal, a port.Mutex, a port.Audit and a
// port.Streams on one server, on the master that Sentinels watch, or on a Redis Cluster.
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
//	P:{S:G}:admin:audit, P:{S}:admin:audit
//	                   list    who changed the group, or the stream: JSON, the newest
//	                           last, at most Config.AuditEntries
//	P:admin:audit      list    who tried to and was refused for who it was
//	P:groups           set     the names of all metadata keys
//	P:streams          set     the names of all stream record keys
//	P:store-id         string  random, drawn when the store was first opened
//	P:{…}:store-part   string  on a Cluster only: 64 of them, in each 64th of the
//	                           slots one, written before store-id
//	S:0 … S:N-1        stream  the shards themselves
//
// Only the mutexes expire. The index sets are written before and after the first
// save of a record and after its deletion, which is no one step where they are on
// another server: a name in them may stand for nothing, which lists pass over.
// Should they be lost, Store.RepairIndex makes them anew from the keys there are.
//
// The messages on the channel P:changes tell of each save and deletion of a group:
// revision, nonce and metadata key, the latter two quoted as in Go.
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
// everything, or nothing. The instance is the run id of the server that holds the
// record, which the script asks for itself; it changes with a restart, with a
// failover, and when the slot moves. Where INFO is forbidden or missing, the store's
// id stands in for it, and a restart is only noticed by what it lost.
//
// A master that starts empty in a Cluster that is otherwise intact is noticed by the
// store-part keys that are missing then: the store draws another id, as if it had
// been emptied as a whole. Groups that are still there are not touched by that.
//
// With Config.WaitReplicas, each write is followed by WAIT on its connection, and so
// is the load of a record that somebody else has written, which writes its revision
// again for that. Where too few replicas answer, the outcome is unknown.
//
// # Trouble
//
// No write of the store and the mutex is sent twice. One that was not answered is an
// error, and the record tells whether it took place. Calls end with their context or
// after Config.Timeout, whichever is first.
//
// All commands go to the server that holds the key, those on streams grouped by
// server, and follow MOVED and ASK, which say that nothing was carried out. A server
// that carries nothing out, because it loads, fails over or moves a slot, is waited
// for: with commands on streams until the context or Config.Patience ends, with the
// store's and the mutex's for a second. After a lost answer only what can be repeated
// without harm is sent again, and only where another server may have taken over.
package redis
