package producer

import (
	"fmt"
	"strings"
)

// Outcome says what became of a message that was not confirmed.
type Outcome string

// The two outcomes of a failed publish.
const (
	// NotApplied: the record is certainly not in the stream. The message may be
	// published again.
	NotApplied Outcome = "NOT_APPLIED"
	// Unknown: the record may be in the stream, now or in a moment. Publishing
	// the message again may store it twice.
	Unknown Outcome = "UNKNOWN"
)

// PublishError is the error of Publish, of Send and its futures, and of each
// message of PublishBatch. Two
// of them are equal for errors.Is when their codes are, so they can be tested
// against the sentinels of this package; errors.Is and errors.As also see the
// cause.
type PublishError struct {
	// Outcome is NotApplied or Unknown, never empty.
	Outcome Outcome
	// Code is stable and part of the API.
	Code string
	// Message is for people and says what to do.
	Message string
	// Retryable is true where publishing the same message again may succeed.
	Retryable bool
	// StreamKey is the shard's key in Redis; empty when no shard was chosen.
	StreamKey string
	// Err is the cause, such as an error of the Redis client; may be nil.
	Err error
}

// Error gives the shard, the code, the sentence and the cause.
func (e *PublishError) Error() string {
	var b strings.Builder
	if e.StreamKey != "" {
		fmt.Fprintf(&b, "publish to %s: ", e.StreamKey)
	}
	fmt.Fprintf(&b, "%s: %s", e.Code, e.Message)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Is makes an error equal to every other of the same code.
func (e *PublishError) Is(target error) bool {
	t, ok := target.(*PublishError)
	return ok && t.Code == e.Code
}

// Unwrap returns the cause.
func (e *PublishError) Unwrap() error { return e.Err }

// because returns a copy of e with a cause.
func (e *PublishError) because(err error) *PublishError {
	c := *e
	c.Err = err
	return &c
}

// with returns a copy of e with its own sentence.
func (e *PublishError) with(format string, args ...any) *PublishError {
	c := *e
	c.Message = fmt.Sprintf(format, args...)
	return &c
}

// The errors of this package. Those found on a message carry more: the shard,
// the cause, and often a sentence of their own.
var (
	// ErrInvalidMessage: the message cannot be a record; the text says why.
	ErrInvalidMessage = &PublishError{Outcome: NotApplied, Code: "INVALID_MESSAGE",
		Message: "the message cannot be published as it is"}
	// ErrMessageTooLarge: the message exceeds Config.MaxMessageBytes.
	ErrMessageTooLarge = &PublishError{Outcome: NotApplied, Code: "MESSAGE_TOO_LARGE",
		Message: "the message is larger than MaxMessageBytes"}
	// ErrBatchTooLarge: more messages in one PublishBatch than MaxBatchMessages.
	// No message of the batch was sent.
	ErrBatchTooLarge = &PublishError{Outcome: NotApplied, Code: "BATCH_TOO_LARGE",
		Message: "the batch has too many messages: publish it in parts"}
	// ErrNoSuchShard: the message names a shard that the stream does not have.
	ErrNoSuchShard = &PublishError{Outcome: NotApplied, Code: "NO_SUCH_SHARD",
		Message: "the stream has no such shard"}
	// ErrNoShards: the stream has zero shards at the moment, so nothing can be stored.
	// Publishing goes on within a second when it has some again: as long as somebody
	// publishes, the coordinator is asked every 400 ms.
	ErrNoShards = &PublishError{Outcome: NotApplied, Code: "NO_SHARDS", Retryable: true,
		Message: "the stream has no shards, so nothing can be stored: scale it up, and publish again"}
	// ErrNoRouting: the context ended before the coordinator was reached for the
	// first time. Nothing can be published without it.
	ErrNoRouting = &PublishError{Outcome: NotApplied, Code: "NO_ROUTING", Retryable: true,
		Message: "no routing was obtained yet: check that the coordinator runs and that Coordinators names it"}
	// ErrRoutingRefused: the coordinator refuses to tell the routing; the cause
	// says why and is a *protocol.Error.
	ErrRoutingRefused = &PublishError{Outcome: NotApplied, Code: "ROUTING_REFUSED", Retryable: true,
		Message: "the coordinator refuses to tell the routing: check that the stream exists and that the credentials may read it"}
	// ErrRoutingExpired: the routing lease ended because no coordinator could be
	// reached for that long. Publishing resumes by itself when one is back.
	ErrRoutingExpired = &PublishError{Outcome: NotApplied, Code: "ROUTING_EXPIRED", Retryable: true,
		Message: "the routing lease is over and the coordinator could not renew it: publish again when a coordinator is reachable"}
	// ErrShardMissing: the shard's key does not exist in Redis, and the
	// coordinator still names it.
	ErrShardMissing = &PublishError{Outcome: NotApplied, Code: "SHARD_MISSING", Retryable: true,
		Message: "the shard's key does not exist in Redis although the coordinator names it: " +
			"check that producer and coordinator use the same Redis and database, and have the coordinator provision the stream again"}
	// ErrRedisUnavailable: no connection to Redis could be had, or the one in use
	// broke before this message was sent.
	ErrRedisUnavailable = &PublishError{Outcome: NotApplied, Code: "REDIS_UNAVAILABLE", Retryable: true,
		Message: "the message was not sent, no usable connection to Redis: check the address and the server, and the pool size under load"}
	// ErrRedisRefused: Redis answered with an error. Retryable tells a state that
	// passes (READONLY, LOADING, OOM, …) from one that does not.
	ErrRedisRefused = &PublishError{Outcome: NotApplied, Code: "REDIS_REFUSED",
		Message: "Redis refused the record"}
	// ErrCanceled: the context ended before the message was sent.
	ErrCanceled = &PublishError{Outcome: NotApplied, Code: "CANCELED", Retryable: true,
		Message: "the context ended before the message was sent"}
	// ErrEarlierFailed: an earlier message of the same key, in the same batch
	// or taken by Send before, failed or has an unknown outcome, so this one was not
	// sent.
	ErrEarlierFailed = &PublishError{Outcome: NotApplied, Code: "EARLIER_FAILED", Retryable: true,
		Message: "not sent, to keep the order: an earlier message of its key failed"}
	// ErrOvertaken: Redis refused this message and, in the same pipeline, stored a
	// later one of its key. It is not sent again, as it would come out of order.
	ErrOvertaken = &PublishError{Outcome: NotApplied, Code: "OVERTAKEN", Retryable: true,
		Message: "refused while a later message of its key was stored: publishing it again puts it behind that one"}
	// ErrOutcomeUnknown: the message was sent and no answer came back. It is the
	// only error with Outcome Unknown.
	ErrOutcomeUnknown = &PublishError{Outcome: Unknown, Code: "OUTCOME_UNKNOWN", Retryable: true,
		Message: "the record was sent and the answer was lost: it may or may not be stored, and publishing it again may store it twice"}
	// ErrBufferFull: TrySend found no room; see Config.MaxBufferedMessages.
	ErrBufferFull = &PublishError{Outcome: NotApplied, Code: "BUFFER_FULL", Retryable: true,
		Message: "the buffer of messages under way is full: more is sent than Redis takes, send again later or wait with Send"}
	// ErrStreamFull: the shard has Config.MaxStreamLength records and the policy is
	// RefuseWhenFull.
	ErrStreamFull = &PublishError{Outcome: NotApplied, Code: "STREAM_FULL", Retryable: true,
		Message: "the shard has as many records as MaxStreamLength allows: its consumers are behind, or nothing trims what they are done with (retention is off)"}
	// ErrClosed: the producer is closed.
	ErrClosed = &PublishError{Outcome: NotApplied, Code: "CLOSED",
		Message: "the producer is closed"}
)

// BatchError sums up a batch in which at least one message failed. The errors of
// the messages stand in the results.
type BatchError struct {
	// Messages is the size of the batch.
	Messages int
	// NotApplied and Unknown count the failed messages by outcome.
	NotApplied, Unknown int
	// FirstIndex is the index of the first message that failed, First its error.
	FirstIndex int
	First      *PublishError
}

// Error counts the failures and quotes the first.
func (e *BatchError) Error() string {
	text := fmt.Sprintf("%d of %d messages failed", e.NotApplied+e.Unknown, e.Messages)
	if e.Unknown > 0 {
		text += fmt.Sprintf(" (%d with unknown outcome)", e.Unknown)
	}
	return fmt.Sprintf("%s, first message %d: %v", text, e.FirstIndex, e.First)
}

// Is matches ErrOutcomeUnknown when the outcome of any message is unknown.
func (e *BatchError) Is(target error) bool {
	return e.Unknown > 0 && ErrOutcomeUnknown.Is(target)
}

// Unwrap returns the error of the first message that failed.
func (e *BatchError) Unwrap() error { return e.First }
