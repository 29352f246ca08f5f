package consumer

import (
	"context"
	"errors"
	"log/slog"
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
	if err := w.writeDeadLetter(ctx, e); err != nil {
		pause := e.trouble.pause()
		w.log.Warn("a dead letter could not be written: its record stays pending", slog.String("id", e.ID), slog.Duration("retry_in", pause), slog.Any("err", err))
		return verdict{again: true, after: pause}
	}
	if lost(ctx) {
		return verdict{}
	}
	w.p.stats.deadLettered.Add(1)
	w.log.Warn("a record was moved to the dead-letter stream", slog.String("id", e.ID), slog.Int("deliveries", e.Deliveries), slog.Any("err", e.doom))
	notify(w.p.observing, Observer.DeadLettered, DeadLetteredEvent{Shard: w.shard, ID: e.ID, Deliveries: e.Deliveries, Err: e.doom})
	w.acks.add(e.ID)
	return verdict{}
}

func (w *worker) writeDeadLetter(ctx context.Context, e *entry) error {
	ctx, done := context.WithTimeout(plain(ctx), w.p.servers.options.ReadTimeout)
	defer done()
	values := make([]string, 0, 2*len(e.Values)+12)
	for name, value := range e.Values {
		switch name {
		case DeadLetterError, DeadLetterShard, DeadLetterID, DeadLetterDeliveries, DeadLetterGroup, DeadLetterMember:
			// It was a dead letter before.
		default:
			values = append(values, name, value)
		}
	}
	values = append(values,
		DeadLetterError, cut(e.doom.Error(), maxDeadLetterError), DeadLetterShard, strconv.Itoa(w.shard.Index),
		DeadLetterID, e.ID, DeadLetterDeliveries, strconv.Itoa(e.Deliveries),
		DeadLetterGroup, w.p.cfg.Group, DeadLetterMember, w.p.cfg.MemberID)
	return w.p.servers.shared.XAdd(ctx, &redis.XAddArgs{
		Stream: w.shard.Stream + DeadLetterSuffix, MaxLen: w.p.cfg.DeadLetter.MaxLen, Approx: w.p.cfg.DeadLetter.MaxLen > 0, Values: values,
	}).Err()
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
		call, done := context.WithTimeout(plain(ctx), w.p.servers.options.ReadTimeout)
		sent := time.Now()
		n, err := w.p.servers.shared.XAck(call, w.shard.Key, w.p.cfg.Group, e.ID).Result()
		done()
		notify(w.p.observing, Observer.Acknowledged, AcknowledgedEvent{Shard: w.shard, Records: 1, RoundTrip: time.Since(sent), Err: err})
		if err == nil {
			w.p.stats.acknowledged.Add(uint64(n))
			return
		}
		if isReply(err) || w.stopping(ctx) {
			// What was said to the one at a time can be said to all.
			w.acks.add(e.ID)
			return
		}
		sleep(ctx, w.quit, min(trouble.pause(), 200*time.Millisecond))
	}
}
