package consumer

import (
	"context"
	"log/slog"

	"github.com/redis/go-redis/v9"
)

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
	if err := w.takeOver(ctx, ""); err != nil {
		return err
	}
	if w.mayWork(ctx) && w.committed.less(position) {
		// Up to where the group was when we began, all was acknowledged before or
		// handled just now.
		w.committed = position
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

// takeOver claims and handles what is pending and not in our hands, in the order
// of the ids, page by page. It looks at ids before below only, if that is given.
// Whoever held them is fenced: their idle time does not matter.
func (w *worker) takeOver(ctx context.Context, below string) error {
	start, end := "-", "+"
	if below != "" {
		// Not an exclusive bound: servers before 6.2, and stand-ins, know none here.
		end = parseID(below).prev().String()
	}
	for w.mayWork(ctx) {
		var page []redis.XPendingExt
		err := w.link.do(0, func() (err error) {
			page, err = w.link.conn.XPendingExt(plain(ctx), &redis.XPendingExtArgs{
				Stream: w.shard.Key, Group: w.p.cfg.Group, Start: start, End: end, Count: int64(w.p.cfg.BatchSize),
			}).Result()
			return err
		})
		if err != nil {
			return err
		}
		batch, err := w.claim(ctx, page)
		if err != nil {
			return err
		}
		w.handleAll(ctx, batch)
		if len(page) < w.p.cfg.BatchSize {
			return nil
		}
		start = parseID(page[len(page)-1].ID).next().String()
	}
	return nil
}

// claim makes the entries of a page ours and returns their records. What was
// handled already and waits for its acknowledgement is left out.
func (w *worker) claim(ctx context.Context, page []redis.XPendingExt) ([]Record, error) {
	ids := make([]string, 0, len(page))
	deliveries := make(map[string]int, len(page))
	for i := range page {
		if id := page[i].ID; !w.acks.has(id) {
			ids = append(ids, id)
			deliveries[id] = int(page[i].RetryCount) + 1
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var found []redis.XMessage
	err := w.link.do(0, func() (err error) {
		found, err = w.link.conn.XClaim(plain(ctx), &redis.XClaimArgs{
			Stream: w.shard.Key, Group: w.p.cfg.Group, Consumer: w.p.cfg.MemberID, Messages: ids,
		}).Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	batch := make([]Record, 0, len(found))
	for i := range found {
		batch = append(batch, w.record(&found[i], deliveries[found[i].ID]))
		delete(deliveries, found[i].ID)
	}
	w.p.stats.recovered.Add(uint64(len(batch)))
	if len(deliveries) > 0 {
		// In the order of the page, not of the map.
		gone := make([]string, 0, len(deliveries))
		for _, id := range ids {
			if _, missing := deliveries[id]; missing {
				gone = append(gone, id)
			}
		}
		if err := w.settleGone(ctx, gone); err != nil {
			return nil, err
		}
	}
	return batch, nil
}

// settleGone settles entries that were pending a moment ago and could not be
// claimed: somebody acknowledged them, or the stream has them no more. Redis 7
// takes the latter off the list by itself.
func (w *worker) settleGone(ctx context.Context, ids []string) error {
	exists := make([]*redis.XMessageSliceCmd, len(ids))
	err := w.link.do(0, func() error {
		_, err := w.link.conn.Pipelined(plain(ctx), func(pipe redis.Pipeliner) error {
			for i, id := range ids {
				exists[i] = pipe.XRangeN(plain(ctx), w.shard.Key, id, id, 1)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return err
	}
	var deleted []string
	for i, id := range ids {
		if len(exists[i].Val()) == 0 {
			deleted = append(deleted, id)
		}
	}
	if len(deleted) == 0 {
		return nil
	}
	w.p.stats.deleted.Add(uint64(len(deleted)))
	w.log.Warn("records were deleted from the stream before they were handled", slog.Int("records", len(deleted)), slog.String("first", deleted[0]))
	return w.link.do(0, func() error {
		return w.link.conn.XAck(plain(ctx), w.shard.Key, w.p.cfg.Group, deleted...).Err()
	})
}
