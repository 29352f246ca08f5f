package consumer

import (
	"fmt"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// What Run and Close return, besides the cause of a context.
var (
	// ErrClosed: Run was called on a consumer that was closed, or ran before.
	ErrClosed = &protocol.Error{Code: "CONSUMER_CLOSED", Message: "the consumer was closed, or has run: make a new one"}
	// ErrStuck: a handler or a Lifecycle callback did not return after its
	// context had ended. Its goroutine still runs.
	ErrStuck = &protocol.Error{Code: "HANDLER_STUCK", Message: "a handler did not return after its context ended"}
)

// Why the context of a handler ended: context.Cause gives one of these.
var (
	// ErrLeaseEnded: no coordinator could be reached until the lease ran out.
	// Somebody else may read the shard from now on.
	ErrLeaseEnded = &protocol.Error{Code: "LEASE_ENDED", Message: "no coordinator answered until the lease ended"}
	// ErrFenced: the coordinator says that this incarnation of the member is
	// over. Somebody else may read the shard from now on.
	ErrFenced = &protocol.Error{Code: "FENCED", Message: "the coordinator says that this member is over"}
	// ErrGrantReplaced: the shard was granted anew; somebody else may have read
	// it in between.
	ErrGrantReplaced = &protocol.Error{Code: "GRANT_REPLACED", Message: "the shard was granted anew"}
	// ErrRevokeTimeout: the shard was revoked, and the time that handlers are
	// given to finish is up.
	ErrRevokeTimeout = &protocol.Error{Code: "REVOKE_TIMEOUT", Message: "the shard was revoked and the handler did not finish in time"}
	// ErrShutdownTimeout: the consumer shuts down, and the time that handlers
	// are given to finish is up.
	ErrShutdownTimeout = &protocol.Error{Code: "SHUTDOWN_TIMEOUT", Message: "the consumer shuts down and the handler did not finish in time"}
)

// errLetGo ends the context of a shard that was let go of in the ordinary way.
var errLetGo = &protocol.Error{Code: "LET_GO", Message: "the shard was let go of"}

// PanicError is the error of a handler that panicked.
type PanicError struct {
	// Value is what the handler panicked with, Stack where.
	Value any
	Stack []byte
}

// Error gives the value.
func (e *PanicError) Error() string { return fmt.Sprintf("handler panicked: %v", e.Value) }

// Unwrap gives the value, if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
