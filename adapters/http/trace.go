package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"
)

// logRequests writes a line for each request at debug.
func (a *api) logRequests(c *gin.Context) {
	if !a.log.Enabled(c.Request.Context(), slog.LevelDebug) {
		return
	}
	start := time.Now()
	c.Next()
	var user string
	if p := principalOf(c); p != nil {
		user = p.username
	}
	a.log.DebugContext(c.Request.Context(), "request",
		"method", c.Request.Method, "route", c.FullPath(), "path", c.Request.URL.Path, "status", c.Writer.Status(),
		"bytes", c.Writer.Size(), "duration_ms", float64(time.Since(start).Microseconds())/1000, "user", user)
}

// recoverPanics answers 500 for a handler that panics, and logs where.
func (a *api) recoverPanics(c *gin.Context) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if v == http.ErrAbortHandler { //nolint:errorlint // the sentinel is compared as net/http does
			panic(v)
		}
		a.logPanic(c, v)
		if c.Writer.Written() {
			// Too late for a status: break the connection off, so that the
			// caller does not take half an answer for a whole one.
			panic(http.ErrAbortHandler)
		}
		a.refuse(c, fmt.Errorf("%w: panic: %v", errFailed, v))
	}()
	c.Next()
}

func (a *api) logPanic(c *gin.Context, v any) {
	a.log.ErrorContext(c.Request.Context(), "panic in a request",
		"method", c.Request.Method, "route", c.FullPath(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
}
