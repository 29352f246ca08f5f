package protocol

import (
	"fmt"
	"strings"
)

// Error is a refusal: a stable code, a sentence that says what to do, and
// whether the same request can succeed later. Two errors are equal for
// errors.Is when their codes are.
type Error struct {
	// Code is stable and part of the API.
	Code string
	// Message is for people; it names the field or thing it speaks of.
	Message string
	// Retryable is true where the same request may succeed later.
	Retryable bool
}

// Error gives code and sentence.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Is makes an error equal to every other of the same code, so that a sentinel
// matches after a trip over the wire.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// With returns a copy of e with its own sentence.
func (e *Error) With(format string, args ...any) *Error {
	c := *e
	c.Message = fmt.Sprintf(format, args...)
	return &c
}

// The refusals of the admin and monitoring API. COMPAT is the existing
// implementation's contract: its codes are kept.
var (
	// ErrInvalidRequest: the request is malformed; the message names the field.
	ErrInvalidRequest = &Error{Code: "INVALID_REQUEST", Message: "the request is invalid"}
	// ErrGroupExists: create of a group that exists.
	ErrGroupExists = &Error{Code: "GROUP_ALREADY_EXISTS", Message: "the group exists already"}
	// ErrStreamExists: create of a stream that exists, or whose keys hold something else.
	ErrStreamExists = &Error{Code: "STREAM_PREFIX_ALREADY_EXISTS", Message: "the stream exists already"}
	// ErrGroupNotFound: the group was never created, or was deleted.
	ErrGroupNotFound = &Error{Code: "GROUP_NOT_FOUND", Message: "no such group: create it, or let a member join a stream that allows it"}
	// ErrStreamNotFound: the stream was never created, or was deleted.
	ErrStreamNotFound = &Error{Code: "STREAM_NOT_FOUND", Message: "no such stream: create it first"}
	// ErrMemberNotFound: the group has no such member now.
	ErrMemberNotFound = &Error{Code: "MEMBER_NOT_FOUND", Message: "no such member in the group: it may have left, list the members"}
	// ErrShardCountMismatch: a group was to be created with another shard count than its stream has.
	ErrShardCountMismatch = &Error{Code: "SHARD_COUNT_MISMATCH", Message: "the shard count belongs to the stream: leave it out, or scale the stream"}
	// ErrGroupHasMembers: delete of a group with live members, without force.
	ErrGroupHasMembers = &Error{Code: "GROUP_HAS_ACTIVE_MEMBERS", Message: "the group has live members: stop them, or delete with force"}
	// ErrStreamHasGroups: delete of a stream that still has groups.
	ErrStreamHasGroups = &Error{Code: "STREAM_HAS_GROUPS", Message: "the stream has groups: delete them first"}
	// ErrMigrationActive: the shard count is being changed already.
	ErrMigrationActive = &Error{Code: "ACTIVE_MIGRATION_EXISTS", Message: "the shard count is being changed already: wait for it, or roll it back"}
	// ErrMigrationNotFound: there is, or is remembered, no change of the shard count of that id.
	ErrMigrationNotFound = &Error{Code: "MIGRATION_NOT_FOUND", Message: "no such migration"}
	// ErrRollbackNotAllowed: the change has gone too far, or another one came after it.
	ErrRollbackNotAllowed = &Error{Code: "ROLLBACK_NOT_ALLOWED", Message: "the migration is done: scale the stream instead"}
	// ErrLimit: something would grow beyond its limit; the message names it.
	ErrLimit = &Error{Code: "LIMIT_EXCEEDED", Message: "a limit would be exceeded"}
	// ErrConflict: the record changed again and again while it was to be written.
	ErrConflict = &Error{Code: "STATE_VERSION_CONFLICT", Message: "the state changed at the same time: repeat the request", Retryable: true}
	// ErrStoreUnavailable: the metadata store cannot be reached.
	ErrStoreUnavailable = &Error{Code: "STORE_UNAVAILABLE", Message: "the metadata store cannot be reached: repeat the request", Retryable: true}
	// ErrRedisNotConfigured: streams are to be provisioned and no Redis is configured.
	ErrRedisNotConfigured = &Error{Code: "REDIS_NOT_CONFIGURED", Message: "no Redis is configured: set coordinator.redis.url, or switch coordinator.streams.provisioning-enabled off"}
	// ErrRedisUnavailable: the Redis that holds the streams does not answer, or not for
	// every shard.
	ErrRedisUnavailable = &Error{Code: "REDIS_UNAVAILABLE", Message: "the Redis that holds the streams does not answer for every shard: repeat the request, the coordinator's log says what is wrong", Retryable: true}
	// ErrProvisioning: a stream or consumer group could not be created in Redis.
	ErrProvisioning = &Error{Code: "REDIS_STREAM_PROVISIONING_FAILED", Message: "a stream could not be created in Redis", Retryable: true}
	// ErrMutexUnavailable: the group's mutex was not obtained in time.
	ErrMutexUnavailable = &Error{Code: "COORDINATOR_STATE_MUTEX_UNAVAILABLE", Message: "the state is locked by another coordinator: repeat the request", Retryable: true}
	// ErrTerminating: this coordinator shuts down.
	ErrTerminating = &Error{Code: "COORDINATOR_TERMINATING", Message: "this coordinator shuts down: repeat the request at another one", Retryable: true}
	// ErrCorrupt: a stored record cannot be read, or is missing where one must be; only this group or stream is affected.
	ErrCorrupt = &Error{Code: "METADATA_CORRUPT", Message: "a stored record is damaged: restore it from a backup, or delete it and create it again"}
	// ErrTooLarge: a body or a stored record is above its limit.
	ErrTooLarge = &Error{Code: "PAYLOAD_TOO_LARGE", Message: "the body is too large"}
	// ErrUnauthorized: credentials are missing or wrong.
	ErrUnauthorized = &Error{Code: "UNAUTHORIZED", Message: "credentials are missing or wrong"}
	// ErrForbidden: the user lacks the role.
	ErrForbidden = &Error{Code: "FORBIDDEN", Message: "the user lacks the role that this call needs"}
	// ErrRateLimit: requests come too fast; the answer says when to come again.
	ErrRateLimit = &Error{Code: "RATE_LIMIT_EXCEEDED", Message: "requests come too fast: wait", Retryable: true}
)

// complaints collects what is wrong with one value, in the order found.
type complaints []string

func (c *complaints) addf(field, format string, args ...any) {
	*c = append(*c, field+": "+fmt.Sprintf(format, args...))
}

func (c complaints) err() error {
	if len(c) == 0 {
		return nil
	}
	return ErrInvalidRequest.With("%s", strings.Join(c, "; "))
}
