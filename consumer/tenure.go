package consumer

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// tenure is the time in which one shard is ours, from its assignment until it is
// let go of.
type tenure struct {
	shard Shard
	// began is when it was assigned, asked when it was revoked or lost.
	began, asked time.Time
	// cancel ends all work on the shard.
	cancel context.CancelCauseFunc

	// told is closed by the first of revoke and lose.
	told     chan struct{}
	once     sync.Once
	deadline time.Time
	late     error
	lost     error
}

// newTenure begins a tenure; the context that it returns ends with all work on
// the shard.
func newTenure(ctx context.Context, s Shard) (context.Context, *tenure) {
	t := &tenure{shard: s, began: time.Now(), told: make(chan struct{})}
	ctx, t.cancel = context.WithCancelCause(ctx)
	return ctx, t
}

// revoke asks for the shard; late is the cause that the context ends with at the
// deadline.
func (t *tenure) revoke(deadline time.Time, late error) {
	t.once.Do(func() {
		t.deadline, t.late, t.asked = deadline, late, time.Now()
		close(t.told)
	})
}

// lose takes the shard away, also while it is being let go of.
func (t *tenure) lose(cause error) {
	t.cancel(cause)
	t.once.Do(func() {
		t.lost, t.asked = cause, time.Now()
		close(t.told)
	})
}

// run calls the lifecycle's methods, and returns when the shard is let go of.
func (t *tenure) run(ctx context.Context, l Lifecycle, log *slog.Logger, o *observing) {
	defer t.cancel(errLetGo)
	notify(o, Observer.ShardAssigned, ShardAssignedEvent{Shard: t.shard})
	t.guard(log, "Assigned", func() { l.Assigned(ctx, t.shard) })
	<-t.told
	if t.lost != nil {
		t.guard(log, "Lost", func() { l.Lost(t.shard, t.lost) })
		notify(o, Observer.ShardLost, ShardLostEvent{Shard: t.shard, Held: t.asked.Sub(t.began), Stopped: time.Since(t.asked), Cause: t.lost})
		return
	}
	work := ctx
	ctx, done := context.WithDeadlineCause(ctx, t.deadline, t.late)
	defer done()
	// The handlers' context ends at the deadline too.
	stop := context.AfterFunc(ctx, func() { t.cancel(context.Cause(ctx)) })
	defer stop()
	t.guard(log, "Revoked", func() { l.Revoked(ctx, t.shard) })
	notify(o, Observer.ShardRevoked, ShardRevokedEvent{
		Shard: t.shard, Held: time.Since(t.began), Drained: time.Since(t.asked), Cause: context.Cause(work),
	})
}

// guard keeps a panic of an application's callback from ending the process.
func (t *tenure) guard(log *slog.Logger, method string, call func()) {
	defer func() {
		if v := recover(); v != nil {
			log.Error("a lifecycle callback panicked", slog.String("method", method), slog.Int("shard", t.shard.Index),
				slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
		}
	}()
	call()
}
