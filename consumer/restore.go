package consumer

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// isGroupGone reports whether an error says, or may say, that the group or the
// whole stream is gone. Servers word it differently: a reader that is blocked
// when the key goes away gets UNBLOCKED from Redis 7.0 and NOGROUP from others.
func isGroupGone(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	return strings.HasPrefix(text, "NOGROUP") || strings.HasPrefix(text, "UNBLOCKED")
}

// isUnknownKey reports whether XINFO answered that there is no such key.
func isUnknownKey(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.Contains(reply.Error(), "no such key")
}

// restore makes the group anew if only the group is gone. It begins where this
// tenure had come to, so that nothing is skipped and little is handled twice. A
// stream that is gone is reported and never created: only the coordinator knows
// whether it should exist.
//
// It returns nil when reading can go on, or the error to wait out.
func (w *worker) restore(ctx context.Context, cause error) error {
	var exists int64
	err := w.link.do(0, func() (err error) {
		exists, err = w.link.conn.Exists(plain(ctx), w.shard.Key).Result()
		return err
	})
	if err != nil {
		return err
	}
	if exists == 0 {
		w.miss()
		return cause
	}
	position, there, err := w.findGroup(ctx)
	if err != nil {
		return err
	}
	if there {
		// Somebody else made it, or the key moved under a blocked read.
		w.rewind(position)
		return nil
	}
	var info *redis.XInfoStream
	err = w.link.do(0, func() (err error) {
		info, err = w.link.conn.XInfoStream(plain(ctx), w.shard.Key).Result()
		return err
	})
	if err != nil {
		return err
	}
	start := w.settled()
	if parseID(info.LastGeneratedID).less(start) {
		// It is another stream under the same key, or an older state of it. What of
		// it was handled is not known: all of it is handled again.
		start = streamID{}
	}
	err = w.link.do(0, func() error {
		return w.link.conn.XGroupCreate(plain(ctx), w.shard.Key, w.p.cfg.Group, start.String()).Err()
	})
	switch {
	case err == nil:
		w.acks.forget()
		// What is in hand and not begun is delivered anew.
		w.lanes.forget()
		w.seen = start
		w.log.Warn("the group was gone and has been created again", slog.String("start", start.String()))
		notify(w.p.observing, Observer.GroupRestored, GroupRestoredEvent{Shard: w.shard, Start: start.String()})
	case strings.HasPrefix(err.Error(), "BUSYGROUP"):
		// Somebody else was faster.
	default:
		return err
	}
	return nil
}

// miss notes that the stream does not exist, and has the coordinator told.
func (w *worker) miss() {
	w.mu.Lock()
	known := w.row.Missing
	w.row.Missing = true
	w.mu.Unlock()
	if !known {
		w.missedAt = time.Now()
	}
	// Whatever comes under this key is another stream.
	w.seen = streamID{}
	w.lanes.orphan()
	w.acks.forget()
	if !known {
		w.log.Info("the stream does not exist: the coordinator is told")
		w.p.poke()
	}
}

// awaited reports whether the coordinator will probably deal with the missing stream
// before anybody has to be told.
func (w *worker) awaited() bool {
	return w.missing() && time.Since(w.missedAt) < w.p.cfg.limits.missing
}

// missing reports whether the stream was not there when it was last looked for.
func (w *worker) missing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.row.Missing
}

// rewind takes note that the group stands at position. One that stands before what
// was seen went back, since a failover lost its last state or somebody set it
// back: what comes next is handled again, and a group made anew later must not skip
// what is written meanwhile.
func (w *worker) rewind(position streamID) {
	if position.less(w.seen) {
		w.log.Warn("the group went back: what it delivers again is handled again",
			slog.String("from", w.seen.String()), slog.String("to", position.String()))
		w.seen = position
	}
}

// found notes that the stream exists.
func (w *worker) found() {
	w.mu.Lock()
	known := w.row.Missing
	w.row.Missing = false
	w.mu.Unlock()
	if known {
		w.log.Info("the stream exists again")
		w.p.poke()
	}
}
