package httpapi

import (
	"errors"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Refusals that only HTTP knows.
var (
	errNoRoute = &protocol.Error{Code: "ROUTE_NOT_FOUND", Message: "there is no such path: check it against the API's description, a trailing slash counts"}
	errMethod  = &protocol.Error{Code: "METHOD_NOT_ALLOWED", Message: "the path does not take this method: the Allow header lists those that it takes"}
	errMedia   = &protocol.Error{Code: "UNSUPPORTED_MEDIA_TYPE", Message: "the body must be JSON: send Content-Type: application/json"}
	errFailed  = &protocol.Error{Code: "INTERNAL_ERROR", Message: "the coordinator failed on this request: its log says why"}
)

// statuses maps codes to HTTP statuses; a code that is not listed is a 500.
var statuses = map[string]int{
	protocol.ErrInvalidRequest.Code: http.StatusBadRequest,
	protocol.ErrUnauthorized.Code:   http.StatusUnauthorized,
	protocol.ErrForbidden.Code:      http.StatusForbidden,

	protocol.ErrGroupNotFound.Code:  http.StatusNotFound,
	protocol.ErrStreamNotFound.Code: http.StatusNotFound,
	protocol.ErrMemberNotFound.Code: http.StatusNotFound,
	errNoRoute.Code:                 http.StatusNotFound,
	errMethod.Code:                  http.StatusMethodNotAllowed,

	protocol.ErrGroupExists.Code:        http.StatusConflict,
	protocol.ErrStreamExists.Code:       http.StatusConflict,
	protocol.ErrShardCountMismatch.Code: http.StatusConflict,
	protocol.ErrGroupHasMembers.Code:    http.StatusConflict,
	protocol.ErrStreamHasGroups.Code:    http.StatusConflict,
	protocol.ErrConflict.Code:           http.StatusConflict,
	protocol.ErrMigrationActive.Code:    http.StatusConflict,

	protocol.ErrMigrationNotFound.Code:  http.StatusNotFound,
	protocol.ErrRollbackNotAllowed.Code: http.StatusUnprocessableEntity,

	protocol.ErrTooLarge.Code:  http.StatusRequestEntityTooLarge,
	errMedia.Code:              http.StatusUnsupportedMediaType,
	protocol.ErrLimit.Code:     http.StatusUnprocessableEntity,
	protocol.ErrRateLimit.Code: http.StatusTooManyRequests,

	protocol.ErrStoreUnavailable.Code:   http.StatusServiceUnavailable,
	protocol.ErrRedisNotConfigured.Code: http.StatusServiceUnavailable,
	protocol.ErrRedisUnavailable.Code:   http.StatusServiceUnavailable,
	protocol.ErrProvisioning.Code:       http.StatusServiceUnavailable,
	protocol.ErrMutexUnavailable.Code:   http.StatusServiceUnavailable,
	protocol.ErrTerminating.Code:        http.StatusServiceUnavailable,

	protocol.ErrCorrupt.Code: http.StatusInternalServerError,
	errFailed.Code:           http.StatusInternalServerError,
}

// retryAfterSeconds is when a refusal that is worth repeating may be repeated.
const retryAfterSeconds = "1"

// refuse answers with an error and ends the request. Only the code and the
// sentence of a *protocol.Error leave the process; what it wraps, and every
// other error, goes to the log.
func (a *api) refuse(c *gin.Context, err error) {
	var e *protocol.Error
	if !errors.As(err, &e) {
		e = errFailed
	}
	status, ok := statuses[e.Code]
	if !ok {
		status = http.StatusInternalServerError
	}
	if status >= http.StatusInternalServerError {
		a.logFailure(c, status, err)
	}
	c.Set(refusalKey{}, e.Code)
	var d *delayed
	switch {
	case status == http.StatusUnauthorized:
		c.Header("WWW-Authenticate", challenge)
	case errors.As(err, &d):
		c.Header("Retry-After", strconv.Itoa(seconds(d.wait)))
	case e.Retryable && status == http.StatusServiceUnavailable:
		c.Header("Retry-After", retryAfterSeconds)
	}
	a.send(c, reply{status: status, body: protocol.ErrorBody{Status: statusName(status), ErrorCode: e.Code, Message: e.Message}})
}

// delayed is a refusal of what may be repeated after a while.
type delayed struct {
	refusal *protocol.Error
	wait    time.Duration
}

func (d *delayed) Error() string { return d.refusal.Error() }
func (d *delayed) Unwrap() error { return d.refusal }

// later refuses what comes too fast.
func later(wait time.Duration, format string, args ...any) error {
	return &delayed{protocol.ErrRateLimit.With(format, args...), wait}
}

// seconds rounds a wait up for people and headers, to 1 at least.
func seconds(wait time.Duration) int { return max(1, int(math.Ceil(wait.Seconds()))) }

// logFailure tells the log what the caller is not told. A caller who went away
// caused the failure itself, mostly.
func (a *api) logFailure(c *gin.Context, status int, err error) {
	level := slog.LevelWarn
	switch {
	case c.Request.Context().Err() != nil:
		level = slog.LevelDebug
	case status == http.StatusInternalServerError:
		level = slog.LevelError
	}
	a.log.Log(c.Request.Context(), level, "request failed",
		"method", c.Request.Method, "route", c.FullPath(), "path", c.Request.URL.Path, "status", status, "err", err)
}

// statusName gives an HTTP status in the form of a constant, such as CONFLICT.
func statusName(status int) string {
	if status == http.StatusRequestEntityTooLarge {
		return "PAYLOAD_TOO_LARGE"
	}
	return strings.ReplaceAll(strings.ToUpper(http.StatusText(status)), " ", "_")
}
