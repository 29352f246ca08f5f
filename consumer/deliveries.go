package consumer

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Deliveries are counted in Redis, in the pending entry. Reading a new record
// counts one, for the start that follows. What is taken over or tried again is
// counted when it begins, and what was read and not begun is counted back when it
// is given back. So the count says how often a handler has begun, whether or not it
// came to an end; only a member that ends without a goodbye leaves records counted
// that it had read and not begun.
//
// The entry also has the time of its last delivery. Where a handler has come to an
// end, with an error, it is set to 0. So whoever finds an entry can tell one that
// failed from one whose handler may have ended the process.

const (
	// giveBackBatch is how many ids one command gives back.
	giveBackBatch = 500
	// endedIdle is an idle time that only a delivery at time 0 has.
	endedIdle = 20 * 365 * 24 * time.Hour
)

// remember keeps what a tenure could not give back, since the shard was lost, for
// the next tenure of this process: nobody else knows that its handlers came to an
// end. It is as much as was in hand, and kept until that tenure has looked.
func (p *poller) remember(shard int, back []returned) {
	if len(back) == 0 {
		return
	}
	byID := make(map[string]returned, len(back))
	for _, r := range back {
		byID[r.id] = r
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unreturned[shard] = byID
}

// recall returns what is remembered of a shard.
func (p *poller) recall(shard int) map[string]returned {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unreturned[shard]
}

func (p *poller) forget(shard int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.unreturned, shard)
}

// raise counts one more delivery of a record, which is about to begin. It sets the
// count, so that sending it twice counts once. It reports false if the record is
// not pending any more.
func (w *worker) raise(ctx context.Context, e *entry) (there bool, err error) {
	args := append(w.claimArgs(e.Deliveries+1, e.ID), "justid")
	kept, err := promptly(ctx, w, w.p.servers.options.ReadTimeout, func(ctx context.Context) ([]string, error) {
		return w.p.servers.shared.Do(ctx, args...).StringSlice()
	})
	if err != nil {
		return false, err
	}
	w.canBegin()
	if len(kept) == 0 {
		return false, nil
	}
	e.Deliveries++
	e.owed = true
	return true, nil
}

// cannotBegin notes that a delivery could not be counted, and returns how long its
// record waits. Reading the shard mostly meets the same trouble; then it speaks of it.
func (w *worker) cannotBegin(ctx context.Context, err error) time.Duration {
	if ctx.Err() != nil {
		w.starts.dropped()
		return gateRetry
	}
	pause := w.starts.failed()
	f := w.diagnose(err)
	if w.ailment.condition().OK() {
		complain(w.log, "records that wait for another attempt cannot begin", &w.starts.ailment, f, err, pause)
	}
	return pause
}

// canBegin notes that one was counted.
func (w *worker) canBegin() {
	if attempts, since, say := w.starts.passed(); say {
		w.log.Info("records that wait for another attempt begin again", slog.Int("attempts", attempts), slog.Duration("after", time.Since(since).Round(time.Millisecond)))
	}
}

// ended notes that the handler of a record came to an end. If it does not go
// through, and the process ends before the record is tried again, then it is tried
// alone.
func (w *worker) ended(ctx context.Context, e *entry) {
	if w.p.gate.left() <= 0 {
		return
	}
	args := w.endedArgs(e.Deliveries, e.ID)
	if _, err := promptly(ctx, w, w.p.cfg.limits.giveBack, func(ctx context.Context) (any, error) {
		return w.p.servers.shared.Do(ctx, args...).Result()
	}); err != nil {
		w.log.Debug("the end of a handler could not be noted", slog.String("id", e.ID), slog.Any("err", err))
	}
}

// endedArgs makes the command that sets a count and notes that no handler runs.
func (w *worker) endedArgs(count int, ids ...string) []any {
	return append(w.claimArgs(count, ids...), "time", 0, "justid")
}

// claimArgs makes the command that takes records over and sets their count.
func (w *worker) claimArgs(count int, ids ...string) []any {
	args := make([]any, 0, len(ids)+10)
	args = append(args, "xclaim", w.shard.Key, w.p.cfg.Group, w.p.cfg.MemberID, 0)
	for _, id := range ids {
		args = append(args, id)
	}
	return append(args, "retrycount", count)
}

// giveBack counts back what was counted and not begun. If it does not go through,
// these records have a count that is one too high, which is all.
func (w *worker) giveBack(ctx context.Context, back []returned) {
	if len(back) == 0 || lost(ctx) || w.p.gate.left() <= 0 {
		return
	}
	ids := map[int][]string{}
	for _, r := range back {
		ids[r.count] = append(ids[r.count], r.id)
	}
	send := func(ctx context.Context) ([]redis.Cmder, error) {
		return w.p.servers.shared.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for count, ids := range ids {
				for some := range slices.Chunk(ids, giveBackBatch) {
					pipe.Do(ctx, w.endedArgs(count, some...)...)
				}
			}
			return nil
		})
	}
	var err error
	if ctx.Err() == nil {
		_, err = promptly(ctx, w, w.p.cfg.limits.giveBack, send)
	} else {
		// Time is up, but the shard is still ours for a moment.
		late, done := context.WithTimeout(plain(ctx), w.p.cfg.limits.lateAck)
		defer done()
		_, err = send(late)
	}
	if err != nil {
		w.log.Info("what was read and not begun could not be counted back", slog.Int("records", len(back)), slog.Any("err", err))
	}
}
