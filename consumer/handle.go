package consumer

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"
)

// gateRetry is the pause of a record while the lease is over and we are about to
// be told.
const gateRetry = 10 * time.Millisecond

// attempt works on the entry in front of a lane: it calls the handler, or moves
// the record to the dead-letter stream.
func (w *worker) attempt(ctx context.Context, e *entry) (v verdict) {
	if !w.mayWork(ctx) {
		return verdict{again: true, after: gateRetry}
	}
	if e.doom == nil && w.exhausted(e) {
		if e.doom = errNeverEnded; e.ended {
			e.doom = errFailed
		}
	}
	if e.doom != nil {
		return w.bury(ctx, e)
	}
	if !e.owed {
		if w.lanes.orphaned(e) {
			// It was deleted with its stream.
			return verdict{}
		}
		// Before the handler begins, or one that ends the process would not count.
		if pause := w.starts.wait(); pause > 0 {
			return verdict{again: true, after: pause}
		}
		there, err := w.raise(ctx, e)
		switch {
		case err != nil:
			return verdict{again: true, after: w.cannotBegin(ctx, err)}
		case !there:
			// It was acknowledged or deleted since it was claimed.
			return verdict{}
		case !w.mayWork(ctx):
			return verdict{again: true, after: gateRetry}
		}
	}
	e.owed, e.recovered = false, false
	if e.suspect {
		w.p.stats.suspects.Add(1)
	}
	var begun time.Time
	if w.p.observing != nil {
		begun = time.Now()
	}
	err := errExited
	defer func() {
		if w.p.observing != nil {
			notify(w.p.observing, Observer.Handled, HandledEvent{
				Shard: w.shard, ID: e.ID, Key: e.Key, Duration: time.Since(begun),
				Lag: begun.Sub(time.UnixMilli(int64(e.id.ms))), Deliveries: e.Deliveries, Err: err,
			})
		}
		v = w.judge(ctx, e, err)
		if err == errExited { //nolint:errorlint // nobody else has it
			// Nothing is returned, the goroutine ends: see pool.serve.
			e.exit = &v
		}
	}()
	err = w.call(ctx, e.Record)
	return v
}

// errExited is what becomes of a handler that ends its goroutine.
var errExited = errors.New("the handler ended its goroutine, as runtime.Goexit and testing.T.FailNow do: return an error instead")

// judge decides what becomes of a record after its handler has returned.
func (w *worker) judge(ctx context.Context, e *entry, err error) verdict {
	if lost(ctx) {
		// It may be somebody else's record by now. If it is not, the delivery does not
		// count: the handler came to an end.
		e.owed = true
		return verdict{again: true}
	}
	if err == nil {
		w.p.stats.handled.Add(1)
		switch {
		case w.lanes.orphaned(e):
		case e.suspect:
			w.acknowledge(ctx, e)
		default:
			w.acks.add(e.ID)
		}
		return verdict{}
	}
	w.p.stats.failed.Add(1)
	if e.suspect {
		// It ends, as it turns out.
		e.suspect = false
	}
	if ctx.Err() != nil {
		// We cut it short, which is not its fault: the delivery does not count.
		e.owed = true
		w.log.Warn("a record was not handled before its shard was let go of", slog.String("id", e.ID), slog.Any("err", err))
		return verdict{again: true}
	}
	e.failures++
	retry := &w.p.cfg.Retry
	if w.p.cfg.DeadLetter.Enabled && (isRejected(err) || e.Deliveries >= retry.MaxDeliveries) {
		e.doom = err
		v := w.bury(ctx, e)
		if v.again {
			w.ended(ctx, e)
		}
		return v
	}
	w.ended(ctx, e)
	pause := retry.pauseAfter(err, e.failures)
	w.p.stats.retried.Add(1)
	notify(w.p.observing, Observer.Retried, RetriedEvent{Shard: w.shard, ID: e.ID, Deliveries: e.Deliveries, In: pause, Err: err})
	attrs := []any{slog.String("id", e.ID), slog.Int("deliveries", e.Deliveries), slog.Duration("retry_in", pause), slog.Any("err", err)}
	if p, ok := err.(*PanicError); ok { //nolint:errorlint // only the panic of this very call has a stack worth showing
		attrs = append(attrs, slog.String("stack", string(p.Stack)))
	}
	w.log.Warn("the handler failed", attrs...)
	return verdict{again: true, after: pause}
}

// call calls the handler once; a panic is an error.
func (w *worker) call(ctx context.Context, r Record) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return w.p.cfg.Handler(ctx, r)
}

// orderKey returns what the order of a record is kept by.
func (w *worker) orderKey(r *Record) (key string) {
	orderBy := w.p.cfg.OrderBy
	if orderBy == nil {
		return r.Key
	}
	defer func() {
		if v := recover(); v != nil {
			key = r.Key
			panicked := &PanicError{Value: v, Stack: debug.Stack()}
			if times, _, say := w.p.orderBy.note(fault{kind: faultOrderBy}, panicked); say {
				w.log.Error("OrderBy panicked: the partition key is taken", slog.String("id", r.ID), slog.Int("times", times),
					slog.Any("panic", v), slog.String("stack", string(panicked.Stack)))
			}
		}
	}()
	return orderBy(*r)
}
