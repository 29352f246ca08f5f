package port

import "context"

// Mutex keeps coordinators from colliding on one group or stream. It is not
// what makes a write safe: that is the store's compare-and-set.
type Mutex interface {
	// LockGroup takes the mutex of a group; LockStream that of a stream. They
	// wait until ctx ends, or for as long as the mutex is configured to. The
	// returned function releases it, also after ctx has ended; it is called
	// exactly once, and a mutex that was lost meanwhile is left alone.
	// Errors: protocol.ErrMutexUnavailable, or the cause of ctx.
	LockGroup(ctx context.Context, key GroupKey) (unlock func(), err error)
	LockStream(ctx context.Context, prefix string) (unlock func(), err error)
}
