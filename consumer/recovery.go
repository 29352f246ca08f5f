package consumer

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"
)

// pendingPage is how many pending entries are listed at a time: ids, no records.
const pendingPage = 500

// sweep takes over the whole pending list of the shard: what earlier owners left
// and what was delivered to us and lost on the way. It runs when the shard is
// gained, after any trouble, and once per lease time.
func (w *worker) sweep(ctx context.Context) error {
	position, there, err := w.findGroup(ctx)
	switch {
	case there:
		w.rewind(position)
	case err != nil && !isUnknownKey(err):
		return err
	}
	whole, err := w.takeOver(ctx)
	if err != nil || !whole {
		return err
	}
	// Up to where the group was when we began, all was acknowledged before or is in
	// hand.
	if w.seen.less(position) {
		w.seen = position
	}
	if !w.based {
		w.base, w.based = position, there
		w.p.forget(w.shard.Index)
	}
	return nil
}

// findGroup returns the last id that the group has delivered, and whether the group
// is there.
func (w *worker) findGroup(ctx context.Context) (position streamID, there bool, err error) {
	var groups []redis.XInfoGroup
	err = w.link.do(0, func() (err error) {
		groups, err = w.link.conn.XInfoGroups(plain(ctx), w.shard.Key).Result()
		return err
	})
	if err != nil {
		return streamID{}, false, err
	}
	for i := range groups {
		if groups[i].Name == w.p.cfg.Group {
			return parseID(groups[i].LastDeliveredID), true, nil
		}
	}
	return streamID{}, false, nil
}

// takeOver claims what is pending and not in our hands, in the order of the ids,
// page by page, and puts it into the lanes. Whoever held it is fenced: the idle time
// does not matter. It reports false if it did not get to the end because work stops.
func (w *worker) takeOver(ctx context.Context) (whole bool, err error) {
	for start := "-"; w.mayWork(ctx); {
		page, err := w.pendingPage(ctx, start, "+")
		if err != nil {
			return false, err
		}
		for strays := w.notInHand(page); len(strays) > 0; {
			n := w.lanes.book(ctx, w.quit, min(len(strays), w.p.cfg.BatchSize), true)
			if n == 0 || !w.mayWork(ctx) {
				w.lanes.unbook()
				return false, nil
			}
			batch, err := w.claim(ctx, strays[:n])
			if err != nil {
				w.lanes.unbook()
				return false, err
			}
			w.take(batch)
			if len(batch) > 0 {
				// However often replies are lost, this gets us on: no reason to slow down.
				w.redis.reset()
			}
			strays = strays[n:]
		}
		if len(page) < pendingPage {
			return true, nil
		}
		start = parseID(page[len(page)-1].ID).next().String()
	}
	return false, nil
}

// clear reports whether nothing is pending between the id and a batch that was read
// behind it.
func (k *look) clear(batch []*entry) bool {
	return k.asked && (k.first == streamID{} || len(batch) > 0 && !k.first.less(batch[0].id))
}

// strays claims what is pending and not in our hands between what was seen before
// and the record below, or everything behind the former if that is not given. What
// is delivered to somebody else between two reads of ours lies between them.
func (w *worker) strays(ctx context.Context, below string) ([]*entry, error) {
	start, end := w.seen.next().String(), "+"
	if below != "" {
		// Not an exclusive bound: stand-ins for Redis know none here.
		if parseID(below) == w.seen.next() {
			return nil, nil
		}
		end = parseID(below).prev().String()
	}
	var all []*entry
	for {
		page, err := w.pendingPage(ctx, start, end)
		if err != nil {
			return nil, err
		}
		batch, err := w.claim(ctx, w.notInHand(page))
		if err != nil {
			return nil, err
		}
		all = append(all, batch...)
		if len(page) < pendingPage {
			return all, nil
		}
		start = parseID(page[len(page)-1].ID).next().String()
	}
}

func (w *worker) pendingPage(ctx context.Context, start, end string) (page []redis.XPendingExt, err error) {
	err = w.link.do(0, func() (err error) {
		page, err = w.link.conn.XPendingExt(plain(ctx), &redis.XPendingExtArgs{
			Stream: w.shard.Key, Group: w.p.cfg.Group, Start: start, End: end, Count: pendingPage,
		}).Result()
		return err
	})
	return page, err
}

// notInHand leaves out of a page what is in the lanes, and what was handled and
// waits for its acknowledgement.
func (w *worker) notInHand(page []redis.XPendingExt) []redis.XPendingExt {
	if len(page) == 0 {
		return nil
	}
	// In this order: a record leaves the lanes after it has come to the others.
	inHand := w.lanes.ids()
	return slices.DeleteFunc(slices.Clone(page), func(p redis.XPendingExt) bool {
		_, there := inHand[p.ID]
		return there || w.acks.has(p.ID)
	})
}

// unbegun reports whether a pending entry was delivered and never begun. That is so
// if a member that let it go has counted it back, and if it was delivered to us in
// this tenure and lost on the way.
func (w *worker) unbegun(p *redis.XPendingExt) bool {
	return p.RetryCount == 0 ||
		p.RetryCount == 1 && p.Consumer == w.p.cfg.MemberID && w.based && w.base.less(parseID(p.ID))
}

// claim makes pending entries ours and returns their records. It counts no
// delivery: that is done when a handler begins.
func (w *worker) claim(ctx context.Context, pending []redis.XPendingExt) ([]*entry, error) {
	if len(pending) == 0 {
		return nil, nil
	}
	// A command sets one count, so there is one for each count that occurs, and for
	// those that came to an end: their mark is to stay if they go back unbegun, or if
	// this very answer is lost.
	type kind struct {
		count int
		ended bool
	}
	byKind := map[kind][]string{}
	fresh, ended := map[string]bool{}, map[string]bool{}
	mine := w.p.recall(w.shard.Index)
	for i := range pending {
		p := &pending[i]
		count := int(p.RetryCount)
		// Nobody else has begun what is as we left it.
		left, known := mine[p.ID]
		known = known && p.Consumer == w.p.cfg.MemberID && left.had == count
		if known {
			count = left.count
		}
		if count == 0 || !known && w.unbegun(p) {
			count = 1
			fresh[p.ID] = true
		}
		ended[p.ID] = known || p.Idle > endedIdle
		// One that begins without being counted again must not have the mark then.
		k := kind{count, ended[p.ID] && !fresh[p.ID]}
		byKind[k] = append(byKind[k], p.ID)
	}
	kinds := slices.Collect(maps.Keys(byKind))
	claims := make([]*redis.XMessageSliceCmd, len(kinds))
	err := w.link.do(0, func() error {
		_, err := w.link.conn.Pipelined(plain(ctx), func(pipe redis.Pipeliner) error {
			for i, k := range kinds {
				args := w.claimArgs(k.count, byKind[k]...)
				if k.ended {
					args = append(args, "time", 0)
				}
				claims[i] = redis.NewXMessageSliceCmd(plain(ctx), args...)
				_ = pipe.Process(plain(ctx), claims[i])
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	found := make(map[string]struct{}, len(pending))
	var batch []*entry
	for i, k := range kinds {
		batch = append(batch, w.entries(claims[i].Val(), func(e *entry) {
			e.Deliveries, e.recovered = k.count, true
			e.owed, e.ended = fresh[e.ID], ended[e.ID]
			e.suspect = k.count > 1 && !e.ended
			found[e.ID] = struct{}{}
		})...)
	}
	slices.SortFunc(batch, func(a, b *entry) int { return a.id.compare(b.id) })
	w.p.stats.recovered.Add(uint64(len(batch)))
	var gone []string
	for i := range pending {
		if _, there := found[pending[i].ID]; !there {
			gone = append(gone, pending[i].ID)
		}
	}
	deleted, err := w.settleGone(ctx, gone)
	if err != nil {
		return nil, err
	}
	if w.p.observing != nil && len(batch)+deleted > 0 {
		notify(w.p.observing, Observer.Recovered, RecoveredEvent{Shard: w.shard, Records: len(batch), Deleted: deleted})
	}
	return batch, nil
}

// settleGone settles entries that were pending a moment ago and could not be
// claimed: somebody acknowledged them, or the stream has them no more. Redis 7
// takes the latter off the list by itself.
func (w *worker) settleGone(ctx context.Context, ids []string) (deletedRecords int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	exists := make([]*redis.XMessageSliceCmd, len(ids))
	err = w.link.do(0, func() error {
		_, err := w.link.conn.Pipelined(plain(ctx), func(pipe redis.Pipeliner) error {
			for i, id := range ids {
				exists[i] = pipe.XRangeN(plain(ctx), w.shard.Key, id, id, 1)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return 0, err
	}
	var deleted []string
	for i, id := range ids {
		if len(exists[i].Val()) == 0 {
			deleted = append(deleted, id)
		}
	}
	if len(deleted) == 0 {
		return 0, nil
	}
	w.p.stats.deleted.Add(uint64(len(deleted)))
	w.log.Warn("records were deleted from the stream before they were handled", slog.Int("records", len(deleted)), slog.String("first", deleted[0]))
	return len(deleted), w.link.do(0, func() error {
		return w.link.conn.XAck(plain(ctx), w.shard.Key, w.p.cfg.Group, deleted...).Err()
	})
}
