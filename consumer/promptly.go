package consumer

import (
	"context"
	"time"
)

// promptly sends a command that a record waits for, on the connections that all
// shards share. It returns when ctx has ended at the latest, with its cause: a server
// that does not answer must not hold up a shard whose time is up. The command may be
// carried out all the same, so it must be one that does no harm then.
func promptly[T any](ctx context.Context, w *worker, timeout time.Duration, command func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	if ctx.Err() != nil {
		return answer{}.value, context.Cause(ctx)
	}
	call, done := context.WithTimeout(plain(ctx), timeout)
	came := make(chan answer, 1)
	// The poller waits for it, after it has closed the connections.
	w.p.running.Go(func() {
		defer done()
		value, err := command(call)
		came <- answer{value, err}
	})
	select {
	case a := <-came:
		return a.value, a.err
	case <-ctx.Done():
		return answer{}.value, context.Cause(ctx)
	}
}
