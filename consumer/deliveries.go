package consumer

import (
	"context"
	"log/slog"
	"slices"

	"github.com/redis/go-redis/v9"
)

// Deliveries are counted in Redis, in the pending entry. Reading a new record
// counts one, for the start that follows. What is taken over or tried again is
// counted when it begins, and what was read and not begun is counted back when it
// is given back. So the count says how often a handler has begun, whether or not it
// came to an end; only a member that ends without a goodbye leaves records counted
// that it had read and not begun.

const (
	// giveBackBatch is how many ids one command gives back.
	giveBackBatch = 500
)

// raise counts one more delivery of a record, which is about to begin. It sets the
// count, so that sending it twice counts once. It reports false if the record is
// not pending any more.
func (w *worker) raise(ctx context.Context, e *entry) (there bool, err error) {
	ctx, done := context.WithTimeout(plain(ctx), w.p.servers.options.ReadTimeout)
	defer done()
	kept, err := w.p.servers.shared.Do(ctx, w.claimArgs(e.Deliveries+1, true, e.ID)...).StringSlice()
	if err != nil {
		return false, err
	}
	if len(kept) == 0 {
		return false, nil
	}
	e.Deliveries++
	e.owed = true
	return true, nil
}

// claimArgs makes the command that takes records over and sets their count.
func (w *worker) claimArgs(count int, justID bool, ids ...string) []any {
	args := make([]any, 0, len(ids)+8)
	args = append(args, "xclaim", w.shard.Key, w.p.cfg.Group, w.p.cfg.MemberID, 0)
	for _, id := range ids {
		args = append(args, id)
	}
	args = append(args, "retrycount", count)
	if justID {
		args = append(args, "justid")
	}
	return args
}

// giveBack counts back what was counted and not begun. If it does not go through,
// these records have a count that is one too high, which is all.
func (w *worker) giveBack(ctx context.Context, back []returned) {
	if len(back) == 0 {
		return
	}
	ids := map[int][]string{}
	for _, r := range back {
		ids[r.count] = append(ids[r.count], r.id)
	}
	ctx, done := context.WithTimeout(plain(ctx), giveBackTimeout)
	defer done()
	_, err := w.p.servers.shared.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for count, ids := range ids {
			for some := range slices.Chunk(ids, giveBackBatch) {
				pipe.Do(ctx, w.claimArgs(count, true, some...)...)
			}
		}
		return nil
	})
	if err != nil {
		w.log.Info("what was read and not begun could not be counted back", slog.Int("records", len(back)), slog.Any("err", err))
	}
}
