package consumer

import (
	"log/slog"
	"sync"
	"time"
)

// hitch is trouble that many records run into alike, such as a dead-letter stream
// that takes none. While it lasts one record at a time finds out whether it is over
// and the others wait, so that it costs a few commands a second however many they
// are. It is safe for concurrent use.
type hitch struct {
	ailment complaint

	mu   sync.Mutex
	pace backoff
	// until is when the next record may try, zero while nothing is wrong; trying says
	// that one does.
	until  time.Time
	trying bool
}

func newHitch() *hitch { return &hitch{pace: redisBackoff()} }

// wait returns how long a record has to wait before it may try; 0 if it may now, and
// then calls passed, failed or dropped.
func (h *hitch) wait() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() {
		return 0
	}
	if left := time.Until(h.until); left > 0 {
		return left
	}
	if h.trying {
		return h.pace.next
	}
	h.trying = true
	return 0
}

// passed notes that one went through. It reports what to say about the end of the
// trouble, as complaint.over does.
func (h *hitch) passed() (attempts int, since time.Time, say bool) {
	h.mu.Lock()
	well := h.until.IsZero()
	h.until, h.trying = time.Time{}, false
	h.pace.reset()
	h.mu.Unlock()
	if well {
		return 0, time.Time{}, false
	}
	return h.ailment.over()
}

// failed notes that one did not go through, and returns how long it waits.
func (h *hitch) failed() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trying = false
	// Those that began together fail together, and count once.
	if left := time.Until(h.until); left > 0 {
		return left
	}
	pause := h.pace.pause()
	h.until = time.Now().Add(pause)
	return pause
}

// dropped notes that one was broken off: it tells nothing.
func (h *hitch) dropped() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trying = false
}

// complain words a trouble with Redis for the log.
func complain(log *slog.Logger, message string, c *complaint, f fault, err error, pause time.Duration, more ...any) {
	attempts, since, say := c.note(f, err)
	if !say {
		return
	}
	attrs := append([]any{
		slog.String("kind", f.kind), slog.Int("attempts", attempts),
		slog.Duration("for", time.Since(since).Round(time.Millisecond)), slog.Duration("retry_in", pause), slog.Any("err", err),
	}, more...)
	if f.advice != "" {
		attrs = append(attrs, slog.String("advice", f.advice))
	}
	log.Warn(message, attrs...) //nolint:sloglint // those of the callers are constants
}
