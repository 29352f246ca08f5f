package cli

import (
	"context"
	"log/slog"
	"os"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/server"
)

// reloader has a running server take over settings that were changed.
type reloader struct {
	server *server.Server
	log    *slog.Logger
	level  *slog.LevelVar
	// load reads the settings again, with the warnings about them.
	load func() (config.Config, []string, error)
}

// run reloads at each signal until ctx ends.
func (r *reloader) run(ctx context.Context, hangups <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			r.reload(ctx)
		}
	}
}

// reload takes over what can be changed, and says what has come of it. Keys are logged,
// values are not: among them are passwords.
func (r *reloader) reload(ctx context.Context) {
	next, warnings, err := r.load()
	if err != nil {
		r.log.ErrorContext(ctx, "the settings cannot be used, so nothing was changed", "err", err)
		return
	}
	for _, w := range warnings {
		r.log.WarnContext(ctx, "about the settings", "warning", w)
	}
	changed, left, err := r.server.Reload(next)
	if err != nil {
		r.log.ErrorContext(ctx, "the settings cannot be taken over, so nothing was changed", "err", err)
		return
	}
	if err := r.level.UnmarshalText([]byte(next.Log.Level)); err != nil {
		r.log.ErrorContext(ctx, "the log's level was not changed", "err", err)
	}
	if len(left) > 0 {
		r.log.WarnContext(ctx, "some settings were changed that count from the next start on", "keys", left)
	}
	r.log.InfoContext(ctx, "the settings were read again", "changed", changed)
}
