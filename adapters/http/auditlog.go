package httpapi

import (
	"context"
	"log/slog"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// auditLogger is the attribute "logger" of audit entries, by which they can be told
// from the rest of a log.
const auditLogger = "redis-stream-coordinator.audit"

// auditLog is a port.Audit that writes to a log.
type auditLog struct{ log *slog.Logger }

// LogAudit returns an audit that writes each entry as a line of log at level Info,
// whatever the level of log: a log that is set to warnings must not lose it.
func LogAudit(log *slog.Logger) port.Audit {
	return auditLog{slog.New(everyLevel{log.Handler()}).With("logger", auditLogger)}
}

// Record implements port.Audit.
func (a auditLog) Record(ctx context.Context, e port.AuditEntry) error {
	a.log.InfoContext(ctx, "audit", auditAttributes(&e)...)
	return nil
}

// everyLevel is a handler that nothing is too detailed for.
type everyLevel struct{ slog.Handler }

// Enabled reports true.
func (everyLevel) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs keeps the promise for the handler with attributes.
func (h everyLevel) WithAttrs(attrs []slog.Attr) slog.Handler {
	return everyLevel{h.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the promise for the handler with a group.
func (h everyLevel) WithGroup(name string) slog.Handler {
	return everyLevel{h.Handler.WithGroup(name)}
}
