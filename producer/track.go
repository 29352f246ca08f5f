package producer

import (
	"time"

	"github.com/redis/go-redis/v9"
)

// track is the queue of one shard in the asynchronous half of a producer. It is
// with one pipeline at a time, which is what keeps the order. Everything in it
// is guarded by sender.mu.
type track struct {
	shard int
	key   string
	// queue holds what was taken and has no outcome yet; the first underWay of
	// them are in a pipeline.
	queue    []*entry
	underWay int

	link *link // nil: to be found out
	// to is where a redirect pointed, until toUntil: by then the client's own map
	// of the cluster is newer.
	to      redirect
	toUntil time.Time

	ready     bool // stands in link.ready
	busy      bool // is with a courier
	resolving bool // the link is being found out
	resting   bool // waits for timer
	lost      bool // waits for a fresh routing, since the key does not exist
	gone      bool // the routing has changed and other tracks took its place
	timer     *time.Timer

	// stuckSince is when an attempt failed for a passing reason first since
	// anything was stored, zero if none did; pause comes before the next one.
	stuckSince time.Time
	pause      time.Duration
}

// waiting returns what is in no pipeline.
func (t *track) waiting() []*entry { return t.queue[t.underWay:] }

// blocked reports whether nothing may be sent now, or nothing is there.
func (t *track) blocked() bool {
	return t.busy || t.ready || t.resolving || t.resting || t.lost || t.gone || len(t.queue) == 0
}

// landed ends the pipeline that the first entries were in: kept are those of
// them that go into another one.
func (t *track) landed(kept []*entry) {
	from := t.underWay - len(kept)
	copy(t.queue[from:t.underWay], kept)
	clear(t.queue[:from])
	t.queue = t.queue[from:]
	t.underWay = 0
	if len(t.queue) == 0 {
		t.queue = nil
	}
}

// drop takes those entries out of waiting that pick chooses.
func (t *track) drop(pick func(*entry) bool) {
	kept := t.queue[:t.underWay]
	for _, e := range t.waiting() {
		if !pick(e) {
			kept = append(kept, e)
		}
	}
	clear(t.queue[len(kept):])
	t.queue = kept
}

// target is where a pipeline goes: a node, and whether it is asked to serve a
// slot that it is importing.
type target struct {
	client *redis.Client
	ask    bool
}

// link is a node with the tracks that lead to it, guarded by sender.mu.
type link struct {
	target
	release func() // gives the client back, may be nil
	users   int    // tracks that lead here
	ready   []*track
	// lingering is there while a courier waits for company, and closed to end that.
	lingering chan struct{}
	// messages and bytes are what has gathered meanwhile.
	messages, bytes int
	// couriers are the goroutines that send pipelines here.
	couriers int
}
