package producer

import (
	"container/list"
	"context"
	"sync"
)

// room bounds what is buffered, in messages and in bytes. Those who wait for it
// are served in the order in which they came: a large message is not starved by
// small ones.
type room struct {
	maxMessages, maxBytes int

	mu              sync.Mutex
	messages, bytes int
	waiters         list.List // of *waiter
}

// waiter is somebody who waits for room for one message of this size.
type waiter struct {
	size    int
	granted chan struct{} // closed when the room is theirs
}

// fits reports whether one more message of size may be taken in.
func (r *room) fits(size int) bool {
	return r.messages < r.maxMessages && r.bytes+size <= r.maxBytes
}

func (r *room) add(size int) {
	r.messages++
	r.bytes += size
}

// tryTake takes room for one message, and reports false when there is none or
// others wait for it.
func (r *room) tryTake(size int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiters.Len() > 0 || !r.fits(size) {
		return false
	}
	r.add(size)
	return true
}

// take takes room for one message, and waits for it until ctx ends or closing is
// closed.
func (r *room) take(ctx context.Context, closing <-chan struct{}, size int) error {
	r.mu.Lock()
	if r.waiters.Len() == 0 && r.fits(size) {
		r.add(size)
		r.mu.Unlock()
		return nil
	}
	w := &waiter{size: size, granted: make(chan struct{})}
	at := r.waiters.PushBack(w)
	r.mu.Unlock()

	var err error
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-closing:
		err = ErrClosed
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-w.granted:
		// It was granted at the same moment: give it back.
		r.messages--
		r.bytes -= size
	default:
		r.waiters.Remove(at)
	}
	// Whoever waits behind may need less.
	r.grant()
	return err
}

// free gives back the room of messages that have size bytes together.
func (r *room) free(messages, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages -= messages
	r.bytes -= size
	r.grant()
}

// grant lets in those who wait, in order, as far as there is room.
func (r *room) grant() {
	for first := r.waiters.Front(); first != nil; first = r.waiters.Front() {
		w, ok := first.Value.(*waiter)
		if !ok || !r.fits(w.size) {
			return
		}
		r.add(w.size)
		r.waiters.Remove(first)
		close(w.granted)
	}
}

// taken returns what is buffered now.
func (r *room) taken() (messages, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.messages, r.bytes
}
