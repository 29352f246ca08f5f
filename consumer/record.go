package consumer

import "context"

// KeyField is the field in which a record carries its partition key.
const KeyField = "rsc-key"

// Record is one record of a shard.
type Record struct {
	// Stream is the stream's prefix, Shard the index of the shard. The record
	// lies under the Redis key "Stream:Shard".
	Stream string
	Shard  int
	// ID is the record's id in the shard, such as "1700000000000-0".
	ID string
	// Key is the partition key, empty in a record that carries none.
	Key string
	// Values are the record's fields, KeyField included. They belong to the
	// handler.
	Values map[string]string
	// Token is the fencing token of the shard: it rises with each new owner.
	Token int64
	// Deliveries counts how often Redis has handed the record out, this time
	// included: 1 for a new record, more for one that an earlier owner, or an
	// earlier life of this one, left unacknowledged.
	Deliveries int
}

// Handler handles one record. Handlers of different shards run at the same time;
// those of one shard one after the other, in order.
//
// When it returns nil the record is acknowledged. An error, or a panic, makes
// the consumer call it again for the same record after a pause that grows from
// 100 ms to 10 s; the records behind it wait.
//
// ctx ends when the work must end: the shard is lost, or it is to be let go of
// and time is up (context.Cause tells, see ErrLeaseEnded and its neighbours).
// The handler must return then. What it returns does not matter any more; the
// record will be handed out again.
type Handler func(ctx context.Context, r Record) error
