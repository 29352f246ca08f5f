package demo

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// lineHandler makes a line of each warning and error, for people.
type lineHandler struct {
	tell func(line string)
	// told, if set, hears every message, for counting.
	told func(message string)
	// again keeps what is logged again and again from being told so.
	again *repetition
	attrs string
	group string
}

// newLineHandler returns a handler that gives its lines to tell; told may be nil.
func newLineHandler(tell, told func(string)) *lineHandler {
	return &lineHandler{tell: tell, told: told, again: &repetition{last: map[string]time.Time{}}}
}

// repetition remembers when messages were told.
type repetition struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// quiet is how long a message is not told again.
const quiet = 3 * time.Second

func (r *repetition) of(message string, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, known := r.last[message]; known && at.Sub(before) < quiet {
		return true
	}
	r.last[message] = at
	return false
}

// known are attributes that are the same in every line of a demo.
var known = map[string]bool{"stream": true, "group": true, "member": true}

// targetChanged is what the coordinator logs when it computes who should hold
// what.
const targetChanged = "target changed"

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn || h.told != nil && level >= slog.LevelInfo
}

// Handle implements slog.Handler.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	if h.told != nil {
		h.told(r.Message)
	}
	if r.Level < slog.LevelWarn || h.again.of(r.Message, r.Time) {
		return nil
	}
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		h.write(&b, a)
		return true
	})
	h.tell(strings.ReplaceAll(b.String(), "\n", "; "))
	return nil
}

func (h *lineHandler) write(b *strings.Builder, a slog.Attr) {
	if known[a.Key] {
		return
	}
	b.WriteString(", " + h.group + a.Key + " " + a.Value.Resolve().String())
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		h.write(&b, a)
	}
	next := *h
	next.attrs += b.String()
	return &next
}

// WithGroup implements slog.Handler.
func (h *lineHandler) WithGroup(name string) slog.Handler {
	next := *h
	next.group += name + "."
	return &next
}
