package httpload

import (
	"context"
	"sync"
	"time"
)

// Watch follows who owns the shards of one group, as its members tell it, and since
// when they are balanced. It is safe for concurrent use.
type Watch struct {
	mu     sync.Mutex
	owner  []string
	owned  map[string]int
	nOwned int
	wanted int
	tally  Tally
	news   chan struct{}
}

// Tally is how the shards of a group came to be balanced.
type Tally struct {
	// Balanced is since when every shard is owned, by the wanted number of members,
	// none of which has two more than another; zero while that is not so.
	Balanced time.Time
	// Assigned and Released count what members were given and let go of since Want.
	Assigned, Released int
}

// NewWatch returns a watch over a group in which nobody owns anything yet.
func NewWatch(shards int) *Watch {
	return &Watch{owner: make([]string, shards), owned: map[string]int{}, news: make(chan struct{}, 1)}
}

// Want says how many members are to own shards from now on, and counts anew.
func (w *Watch) Want(members int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted, w.tally = min(members, len(w.owner)), Tally{}
}

// Assigned: a member may read a shard now.
func (w *Watch) Assigned(member string, shard int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owner[shard] == "" {
		w.nOwned++
	}
	w.owner[shard] = member
	w.owned[member]++
	w.tally.Assigned++
	w.look()
}

// Released: a member does not read a shard any more, for whatever reason.
func (w *Watch) Released(member string, shard int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owner[shard] == member {
		w.owner[shard] = ""
		w.nOwned--
	}
	if w.owned[member]--; w.owned[member] == 0 {
		delete(w.owned, member)
	}
	w.tally.Released++
	w.look()
}

// look notes since when the shards are balanced.
func (w *Watch) look() {
	switch {
	case !w.balanced():
		w.tally.Balanced = time.Time{}
	case w.tally.Balanced.IsZero():
		w.tally.Balanced = time.Now()
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
}

func (w *Watch) balanced() bool {
	if w.nOwned < len(w.owner) || len(w.owned) != w.wanted {
		return false
	}
	least, most := len(w.owner), 0
	for _, n := range w.owned {
		least, most = min(least, n), max(most, n)
	}
	return most-least <= 1
}

// Await waits until the shards are balanced. One caller at a time may wait.
// Errors: the cause of ctx; the tally is that of the moment then.
func (w *Watch) Await(ctx context.Context) (Tally, error) {
	for {
		w.mu.Lock()
		t := w.tally
		w.mu.Unlock()
		if !t.Balanced.IsZero() {
			return t, nil
		}
		select {
		case <-ctx.Done():
			return t, context.Cause(ctx)
		case <-w.news:
		}
	}
}
