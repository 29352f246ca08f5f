package consumer

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"
)

// handleAll handles records in order until reading stops. What is left then
// stays pending, for the next owner.
func (w *worker) handleAll(ctx context.Context, batch []Record) {
	if len(batch) == 0 {
		return
	}
	w.mu.Lock()
	w.inHand += len(batch)
	if last := batch[len(batch)-1].ID; parseID(w.row.LastDeliveredID).less(parseID(last)) {
		w.row.LastDeliveredID = last
	}
	w.row.UpdatedAt = time.Now().UTC().Format(time.RFC3339Nano)
	w.mu.Unlock()
	left := len(batch)
	for i := range batch {
		if !w.mayWork(ctx) || !w.handle(ctx, batch[i]) {
			break
		}
		left--
		w.mu.Lock()
		w.inHand--
		w.mu.Unlock()
	}
	w.mu.Lock()
	w.inHand -= left
	w.mu.Unlock()
	if left > 0 {
		// They were read and not handled: if the tenure goes on after all, they
		// are found on the pending list.
		w.sweepAt = time.Time{}
	}
}

// handle calls the handler until it returns nil. It reports false when the
// record was not handled because work must end.
func (w *worker) handle(ctx context.Context, r Record) bool {
	trouble := handlerBackoff()
	for attempt := 1; ; attempt++ {
		err := w.call(ctx, r)
		if lost(ctx) {
			// It may be somebody else's record by now.
			return false
		}
		if err == nil {
			w.p.stats.handled.Add(1)
			if id := parseID(r.ID); w.committed.less(id) {
				w.committed = id
			}
			w.acks.add(r.ID)
			return true
		}
		w.p.stats.failed.Add(1)
		if w.stopping(ctx) {
			w.log.Warn("a record was not handled before its shard was let go of", slog.String("id", r.ID), slog.Any("err", err))
			return false
		}
		pause := trouble.pause()
		attrs := []any{slog.String("id", r.ID), slog.Int("attempt", attempt), slog.Duration("retry_in", pause), slog.Any("err", err)}
		if p, ok := err.(*PanicError); ok { //nolint:errorlint // only the panic of this very call has a stack worth showing
			attrs = append(attrs, slog.String("stack", string(p.Stack)))
		}
		w.log.Warn("the handler failed", attrs...)
		if !w.sleep(ctx, pause) || !w.mayWork(ctx) {
			return false
		}
	}
}

// call calls the handler once; a panic is an error.
func (w *worker) call(ctx context.Context, r Record) (err error) {
	w.setBusy(true)
	defer func() {
		w.setBusy(false)
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return w.p.cfg.Handler(ctx, r)
}

func (w *worker) setBusy(busy bool) {
	w.mu.Lock()
	w.busy = busy
	w.mu.Unlock()
}
