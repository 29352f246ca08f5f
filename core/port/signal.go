package port

import "context"

// Change tells that a group was written or deleted, by whomever.
type Change struct {
	// Any is true when anything may have changed: it was not listened for a while.
	// The other fields are empty then.
	Any bool
	Key GroupKey
	// Revision and Nonce are those of the write; 0 and empty for a deletion.
	Revision int64
	Nonce    string
}

// Signal tells coordinators of each other's writes, within milliseconds where all
// goes well. It is a hint that saves waiting for the next tick: a change may be
// told late, more than once, in another order, or never.
type Signal interface {
	// Watch calls changed for every save and deletion of a group, also those of the
	// caller's own store, and with Any whenever it begins to listen, at first and
	// after each interruption. It does so one call after the other, until ctx ends,
	// and returns then. The calls must not block for long.
	Watch(ctx context.Context, changed func(Change))
}
