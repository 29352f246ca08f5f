package producer

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// kind is what one attempt to store a message came to.
type kind int

const (
	// unsent: the message was not tried in this pass.
	unsent kind = iota
	// stored: it has an id.
	stored
	// missing: it was not stored, the stream's key does not exist.
	missing
	// redirected: it was not stored, another node of the cluster is to be asked.
	redirected
	// passing: it was not stored, for a reason that passes.
	passing
	// refused: it was not stored and will not be.
	refused
	// uncertain: it was sent and nothing was heard.
	uncertain
)

// troubles reports an outcome that any other message to the same node is likely
// to share.
func (k kind) troubles() bool { return k == passing || k == uncertain }

// verdict is the judgement of one attempt.
type verdict struct {
	kind kind
	// err is what to report should this be the last attempt.
	err *PublishError
	// addr and ask belong to redirected.
	addr string
	ask  bool
}

// passingCodes are the error codes of a Redis that will answer differently after
// a while: failover, start, lack of memory or disk, a running script, one that was
// forgotten in the middle of a pipeline.
var passingCodes = map[string]bool{
	"LOADING": true, "READONLY": true, "CLUSTERDOWN": true, "TRYAGAIN": true, "MASTERDOWN": true,
	"NOREPLICAS": true, "NOSCRIPT": true, "OOM": true, "MISCONF": true, "BUSY": true,
}

// judge says what became of an XADD that failed with err. written tells whether
// any of it was handed to a connection; before that, nothing can have been
// stored whatever the error is. ctx is the caller's.
func judge(ctx context.Context, err error, written bool) verdict {
	var reply redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return verdict{kind: missing, err: ErrShardMissing}
	case errors.As(err, &reply):
		return judgeReply(err, reply.Error(), written)
	case written:
		return verdict{kind: uncertain, err: ErrOutcomeUnknown.because(err)}
	case errors.Is(err, redis.ErrClosed):
		return verdict{kind: refused, err: ErrClosed.because(err)}
	case ctx.Err() != nil:
		return verdict{kind: refused, err: ErrCanceled.because(context.Cause(ctx))}
	}
	return verdict{kind: passing, err: ErrRedisUnavailable.because(err)}
}

// judgeReply judges an error reply of the server, which may also have come while
// the connection was set up.
func judgeReply(err error, text string, written bool) verdict {
	code, rest, _ := strings.Cut(text, " ")
	if code == "" || strings.ToUpper(code) != code {
		// Not how Redis words a refusal. A proxy in between speaks for itself, and
		// it may have lost the answer of a server that did execute the command.
		if written {
			return verdict{kind: uncertain, err: ErrOutcomeUnknown.because(err)}
		}
		return verdict{kind: passing, err: ErrRedisUnavailable.because(err)}
	}
	if addr, ok := redis.IsMovedError(err); ok && written {
		return verdict{kind: redirected, addr: addr, err: ErrRedisRefused.because(err)}
	}
	if addr, ok := redis.IsAskError(err); ok && written {
		return verdict{kind: redirected, addr: addr, ask: true, err: ErrRedisRefused.because(err)}
	}
	if code == fullCode {
		return verdict{kind: refused, err: ErrStreamFull.because(err)}
	}
	if passingCodes[code] || strings.HasPrefix(rest, "max number of clients") {
		passes := ErrRedisRefused.because(err)
		passes.Retryable = true
		return verdict{kind: passing, err: passes}
	}
	refusal := ErrRedisRefused.because(err)
	switch code {
	case "NOPERM":
		refusal = refusal.with("the Redis user lacks a permission: allow it on every node, with ACL SETUSER")
	case "NOAUTH", "WRONGPASS":
		refusal = refusal.with("Redis refused the login: check Redis.Username and Redis.Password")
	}
	return verdict{kind: refused, err: refusal}
}
