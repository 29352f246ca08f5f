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
	// Values are the record's fields, KeyField included; of a name that occurs more
	// than once it has the last value. A handler may keep them,
	// but not change them: it gets the same map when the record is tried again, and
	// a dead letter is made from it.
	Values map[string]string
	// Token is the fencing token of the shard: it rises with each new owner.
	Token int64
	// Deliveries counts how often a handler has begun with the record, this time
	// included, whether or not it came to an end. It is kept in Redis: 1 for a new
	// record, more for one that failed here, or that an earlier owner, or an earlier
	// life of this one, left unacknowledged. A record that a member had merely read
	// when it let go in order does not count for it; of one that ended without a
	// goodbye it does.
	Deliveries int
}

// Handler handles one record. Up to Config.Concurrency of them run at the same
// time, for records of different keys; those of one key in one shard run one after
// the other, in the order of their ids. See Config.OrderBy.
//
// When it returns nil the record is acknowledged. An error, a panic, or the end of its goroutine, makes the
// consumer call it again for the same record after a pause, see Config.Retry; the
// records of its key wait, those of other keys go on. After Retry.MaxDeliveries, or
// at once if the error comes from Reject, the record is moved to the dead-letter
// stream, if there is to be one: see Config.DeadLetter. RetryAfter chooses the
// pause.
//
// ctx ends when the work must end: the shard is lost, or it is to be let go of
// and time is up (context.Cause tells, see ErrLeaseEnded and its neighbours).
// The handler must return then. What it returns does not matter any more; the
// record will be handed out again.
type Handler func(ctx context.Context, r Record) error
