package consumer

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// DeadLetterSuffix follows the stream's prefix in the key of its dead-letter
// stream: those of "orders" lie in "orders:dlq".
const DeadLetterSuffix = ":dlq"

// The fields that a dead letter has beside those of the record itself.
const (
	// DeadLetterError says why it was given up, cut to 1,024 bytes.
	DeadLetterError = "rsc-error"
	// DeadLetterShard and DeadLetterID say which record it is: the index of the
	// shard, and the id in it. Two dead letters that agree in both are one record,
	// written twice because the first answer was lost.
	DeadLetterShard = "rsc-shard"
	DeadLetterID    = "rsc-id"
	// DeadLetterDeliveries is how often the record was begun.
	DeadLetterDeliveries = "rsc-deliveries"
	// DeadLetterGroup and DeadLetterMember say who gave it up.
	DeadLetterGroup  = "rsc-group"
	DeadLetterMember = "rsc-member"
)

// maxDeadLetterError bounds the text of DeadLetterError.
const maxDeadLetterError = 1024

// DeadLetter says what becomes of records that cannot be handled.
type DeadLetter struct {
	// Enabled moves a record to the stream "<Stream>:dlq" after
	// Retry.MaxDeliveries deliveries in vain, or when its handler rejects it. It is
	// appended there first, with its own fields and those named by the DeadLetter
	// constants, and acknowledged when that is certain: it may be there twice, and
	// never nowhere. While it cannot be written it stays pending, and its key waits.
	// The stream is created by the first dead letter.
	Enabled bool
	// MaxLen is the length, more or less, that the dead-letter stream is cut to;
	// the oldest go first, and are gone.
	//
	// Defaults to no limit.
	MaxLen int64
}

// Why a record is given up that was begun too often before it came to us.
var (
	errNeverEnded = errors.New("its handler was begun this often and did not come to an end: the process ended with it")
	errFailed     = errors.New("its handler failed this often, the last time at another member or in an earlier tenure")
)

// exhausted reports whether an entry was begun often enough before it came to us.
func (w *worker) exhausted(e *entry) bool {
	if !w.p.cfg.DeadLetter.Enabled || !e.recovered || e.owed {
		return false
	}
	most := w.p.cfg.Retry.MaxDeliveries
	if !e.ended {
		most = max(most, leastBegun)
	}
	return e.Deliveries >= most
}

// bury moves a record to the dead-letter stream. The two streams may lie on
// different servers, so that it is appended there first, and taken off here when
// that is certain.
func (w *worker) bury(ctx context.Context, e *entry) verdict {
	letters := w.p.letters
	if pause := letters.wait(); pause > 0 {
		return verdict{again: true, after: pause}
	}
	if err := w.writeDeadLetter(ctx, e); err != nil {
		if ctx.Err() != nil {
			letters.dropped()
			return verdict{again: true, after: gateRetry}
		}
		pause := letters.failed()
		complain(w.p.log, "dead letters cannot be written: their records stay pending, and their keys wait",
			&letters.ailment, w.diagnoseLetters(err), err, pause, slog.Int("shard", w.shard.Index), slog.String("id", e.ID))
		return verdict{again: true, after: pause}
	}
	if attempts, since, say := letters.passed(); say {
		w.p.log.Info("dead letters are written again", slog.Int("attempts", attempts), slog.Duration("after", time.Since(since).Round(time.Millisecond)))
	}
	if lost(ctx) {
		return verdict{}
	}
	w.p.stats.deadLettered.Add(1)
	w.log.Warn("a record was moved to the dead-letter stream", slog.String("id", e.ID), slog.Int("deliveries", e.Deliveries), slog.Any("err", e.doom))
	notify(w.p.observing, Observer.DeadLettered, DeadLetteredEvent{Shard: w.shard, ID: e.ID, Deliveries: e.Deliveries, Err: e.doom})
	if !w.lanes.orphaned(e) {
		w.acks.add(e.ID)
	}
	return verdict{}
}

// diagnoseLetters says what err means for the dead-letter stream.
func (w *worker) diagnoseLetters(err error) fault {
	f := w.p.servers.diagnose(err, w.shard.Stream)
	if f.kind == faultNotAStream {
		f.advice = "something else than a stream lies under " + w.shard.Stream + DeadLetterSuffix + ": move it away"
	}
	return f
}

func (w *worker) writeDeadLetter(ctx context.Context, e *entry) error {
	values := make([]string, 0, 2*len(e.Values)+12)
	// In the order of their names, so that a record that is written twice is the same
	// twice.
	for _, name := range slices.Sorted(maps.Keys(e.Values)) {
		switch name {
		case DeadLetterError, DeadLetterShard, DeadLetterID, DeadLetterDeliveries, DeadLetterGroup, DeadLetterMember:
			// It was a dead letter before.
		default:
			values = append(values, name, e.Values[name])
		}
	}
	values = append(values,
		DeadLetterError, cut(e.doom.Error(), maxDeadLetterError), DeadLetterShard, strconv.Itoa(w.shard.Index),
		DeadLetterID, e.ID, DeadLetterDeliveries, strconv.Itoa(e.Deliveries),
		DeadLetterGroup, w.p.cfg.Group, DeadLetterMember, w.p.cfg.MemberID)
	_, err := promptly(ctx, w, w.p.servers.options.ReadTimeout, func(ctx context.Context) (string, error) {
		return w.p.servers.shared.XAdd(ctx, &redis.XAddArgs{
			Stream: w.shard.Stream + DeadLetterSuffix, MaxLen: w.p.cfg.DeadLetter.MaxLen, Approx: w.p.cfg.DeadLetter.MaxLen > 0, Values: values,
		}).Result()
	})
	return err
}

// cut cuts text to n bytes, and not within a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// acknowledge acknowledges a suspect before the next one may begin: if that one
// ends the process, this one must not be found pending, and suspected once more.
func (w *worker) acknowledge(ctx context.Context, e *entry) {
	trouble := redisBackoff()
	for !lost(ctx) {
		sent, id := time.Now(), e.ID
		n, err := promptly(ctx, w, w.p.servers.options.ReadTimeout, func(ctx context.Context) (int64, error) {
			return w.p.servers.shared.XAck(ctx, w.shard.Key, w.p.cfg.Group, id).Result()
		})
		notify(w.p.observing, Observer.Acknowledged, AcknowledgedEvent{Shard: w.shard, Records: 1, RoundTrip: time.Since(sent), Err: err})
		if err == nil {
			w.p.stats.acknowledged.Add(uint64(n))
			return
		}
		if isReply(err) || w.stopping(ctx) {
			// What was said to the one at a time can be said to all, and time may be up.
			w.acks.add(e.ID)
			return
		}
		sleep(ctx, w.quit, min(trouble.pause(), 200*time.Millisecond))
	}
}
