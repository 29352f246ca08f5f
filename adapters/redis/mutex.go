package redis

import (
	"context"
	"crypto/rand"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Mutex is a port.Mutex in Redis; get it from Client.Mutex. A mutex is a key
// with the token of its holder, who renews it while it is held; a holder that
// dies leaves it to its expiry. Waiters ask again and again, so which of them
// comes next is left to chance.
type Mutex struct {
	cmd     *command.Client
	keys    layout
	cfg     MutexConfig
	timeout time.Duration
	log     *slog.Logger
}

var _ port.Mutex = (*Mutex)(nil)

// LockGroup implements port.Mutex.
func (m *Mutex) LockGroup(ctx context.Context, key port.GroupKey) (unlock func(), err error) {
	return m.lock(ctx, m.keys.groupMutex(key), "group "+key.String())
}

// LockStream implements port.Mutex.
func (m *Mutex) LockStream(ctx context.Context, prefix string) (unlock func(), err error) {
	return m.lock(ctx, m.keys.streamMutex(prefix), "stream "+prefix)
}

func (m *Mutex) lock(ctx context.Context, key, name string) (func(), error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	token := rand.Text()
	if m.cfg.Owner != "" {
		token = m.cfg.Owner + ":" + token
	}
	patience := time.NewTimer(m.cfg.AcquireTimeout)
	defer patience.Stop()
	for {
		held, err := m.cmd.Lock(ctx, key, token, m.cfg.TTL)
		if held {
			return m.hold(ctx, key, token), nil
		}
		if err != nil && !command.Refused(err) {
			// Perhaps it is ours and we were not told. Nobody shall wait for that.
			m.release(ctx, key, token)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, protocol.ErrMutexUnavailable.With("the mutex of %s cannot be taken, repeat the request: %v", name, err)
		}
		select {
		case <-time.After(m.pause()):
		case <-patience.C:
			return nil, protocol.ErrMutexUnavailable.With("%s was locked by another coordinator for %s: repeat the request", name, m.cfg.AcquireTimeout)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// pause is the time to the next attempt, spread so that waiters who came
// together do not ask together.
func (m *Mutex) pause() time.Duration {
	return m.cfg.RetryInterval/2 + mathrand.N(m.cfg.RetryInterval)
}

// hold keeps a mutex until the function that it returns is called.
func (m *Mutex) hold(ctx context.Context, key, token string) (unlock func()) {
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var renewer sync.WaitGroup
	renewer.Go(func() { m.renew(renewing, key, token) })
	return func() {
		stop()
		renewer.Wait()
		m.release(ctx, key, token)
	}
}

// renew prolongs a mutex until ctx ends or it is lost. Whoever holds it goes on
// then: the store's conditions are what keeps a write safe.
func (m *Mutex) renew(ctx context.Context, key, token string) {
	ticker := time.NewTicker(m.cfg.TTL / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		held, err := m.cmd.RenewLock(ctx, key, token, m.cfg.TTL)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.log.WarnContext(ctx, "a mutex was not renewed, trying again", "key", key, "err", err)
		case !held:
			m.log.WarnContext(ctx, "a mutex was lost while it was held", "key", key)
			return
		}
	}
}

// release lets go of a mutex, also when the caller's ctx has ended; what cannot
// be released expires.
func (m *Mutex) release(ctx context.Context, key, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.timeout)
	defer cancel()
	if _, err := m.cmd.Unlock(ctx, key, token); err != nil {
		m.log.WarnContext(ctx, "a mutex was not released, it expires by itself", "key", key, "ttl", m.cfg.TTL, "err", err)
	}
}
