package command

import (
	"context"
	"time"
)

// Lock takes the mutex key with token, once, and reports whether it holds it
// now: also when it did before, so that it can be repeated after a lost reply.
func (c *Client) Lock(ctx context.Context, key, token string, ttl time.Duration) (held bool, err error) {
	reply, err := c.write(ctx, mutexLock, []string{key}, token, ttl.Milliseconds())
	return reply == int64(1), err
}

// RenewLock lets the mutex live for ttl from now, and reports whether it is
// still held with token.
func (c *Client) RenewLock(ctx context.Context, key, token string, ttl time.Duration) (held bool, err error) {
	reply, err := c.write(ctx, mutexRenew, []string{key}, token, ttl.Milliseconds())
	return reply == int64(1), err
}

// Unlock releases the mutex if it is held with token, and reports whether it
// was.
func (c *Client) Unlock(ctx context.Context, key, token string) (held bool, err error) {
	reply, err := c.write(ctx, mutexUnlock, []string{key}, token)
	return reply == int64(1), err
}
