package memstore

import (
	"context"
	"sync"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// Mutex is a port.Mutex for the coordinators of one process. Waiters wait until
// their ctx ends; which of them comes next is left to chance. The zero value is
// ready to use, and it must not be copied.
type Mutex struct {
	mu   sync.Mutex
	keys map[any]*turn
}

var _ port.Mutex = (*Mutex)(nil)

// streamKey keeps the mutexes of streams apart from those of groups.
type streamKey string

// turn is the mutex of one key; it lives while somebody holds or wants it.
type turn struct {
	// held has room for one: who puts a token in holds the mutex.
	held  chan struct{}
	users int
}

// LockGroup implements port.Mutex.
func (m *Mutex) LockGroup(ctx context.Context, key port.GroupKey) (unlock func(), err error) {
	return m.lock(ctx, key)
}

// LockStream implements port.Mutex.
func (m *Mutex) LockStream(ctx context.Context, prefix string) (unlock func(), err error) {
	return m.lock(ctx, streamKey(prefix))
}

func (m *Mutex) lock(ctx context.Context, key any) (func(), error) {
	// A free mutex and an ended ctx would otherwise be a matter of chance.
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t := m.enter(key)
	select {
	case t.held <- struct{}{}:
		return func() {
			<-t.held
			m.leave(key, t)
		}, nil
	case <-ctx.Done():
		m.leave(key, t)
		return nil, context.Cause(ctx)
	}
}

func (m *Mutex) enter(key any) *turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.keys[key]
	if t == nil {
		if m.keys == nil {
			m.keys = make(map[any]*turn)
		}
		t = &turn{held: make(chan struct{}, 1)}
		m.keys[key] = t
	}
	t.users++
	return t
}

// leave forgets the key with its last user, so that the map does not grow with
// every group that ever was.
func (m *Mutex) leave(key any, t *turn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(m.keys, key)
	}
}
