package demo

import (
	"fmt"
	"sync"
)

// The shard counts of the demo's stream: that of its beginning, the one it is scaled
// out to, and the one it is scaled in to.
const (
	firstShards = 8
	mostShards  = 12
	lastShards  = 5
)

// layout is which shards the demo's stream has at the moment. Its methods are safe for
// concurrent use.
type layout struct {
	mu  sync.Mutex
	now shards
}

// shards are those of a stream.
type shards struct {
	// written is how many producers write to, read how many are there: those in between
	// are removed, and read to their ends.
	written, read int
	// left is how many records are left in those, where somebody has looked.
	left int64
}

func newLayout(count int) *layout { return &layout{now: shards{written: count, read: count}} }

func (l *layout) shards() shards {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// scaled notes that producers write to another number of shards.
func (l *layout) scaled(count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.written, l.now.read = count, max(count, l.now.read)
}

// drains notes how many records are left in the removed shards.
func (l *layout) drains(left int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.left = left
}

// drained notes that the removed shards are gone.
func (l *layout) drained() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.read, l.now.left = l.now.written, 0
}

// shrinks reports whether shards are being removed.
func (s *shards) shrinks() bool { return s.read > s.written }

// span names shards one after the other, of which end is not one.
func span(first, end int) string {
	if end-first == 1 {
		return fmt.Sprintf("shard %d", first)
	}
	return fmt.Sprintf("shards %d to %d", first, end-1)
}
