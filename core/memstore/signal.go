package memstore

import (
	"context"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

var _ port.Signal = (*Store)(nil)

// watcher is what one caller of Watch has not been told yet: the last change of
// each group, so that it grows no further than the store.
type watcher struct {
	pending []port.Change
	place   map[port.GroupKey]int
	// wake has room for one: there is something pending.
	wake chan struct{}
}

// Watch implements port.Signal. Of several changes of one group that come at once,
// the last is told.
func (s *Store) Watch(ctx context.Context, changed func(port.Change)) {
	if ctx.Err() != nil {
		return
	}
	w := &watcher{place: make(map[port.GroupKey]int), wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.watchers[w] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, w)
		s.mu.Unlock()
	}()
	changed(port.Change{Any: true})
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for _, c := range s.takePending(w) {
			if ctx.Err() != nil {
				return
			}
			changed(c)
		}
	}
}

func (s *Store) takePending(w *watcher) []port.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := w.pending
	w.pending = nil
	clear(w.place)
	return pending
}

// tell notes a change for all who watch; s.mu is held.
func (s *Store) tell(c port.Change) {
	for w := range s.watchers {
		if at, there := w.place[c.Key]; there {
			w.pending[at] = c
		} else {
			w.place[c.Key] = len(w.pending)
			w.pending = append(w.pending, c)
		}
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}
