package consumer

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is a pause that doubles from first to last.
type backoff struct {
	first, last time.Duration
	next        time.Duration
}

// redisBackoff paces what Redis is in the way of. It is tried again after 50 ms, then
// ever more slowly: a shard costs a few commands a second at most while it lasts.
func redisBackoff() backoff { return backoff{first: 50 * time.Millisecond, last: time.Second} }

// pause returns the next pause: half of it certain, half by chance, so that many
// shards do not come back at once.
func (b *backoff) pause() time.Duration {
	b.next = min(max(2*b.next, b.first), b.last)
	return b.next/2 + rand.N(b.next/2+1)
}

func (b *backoff) reset() { b.next = 0 }

// sleep waits, and reports false if ctx or quit ended it.
func sleep(ctx context.Context, quit <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-quit:
	case <-ctx.Done():
	}
	return false
}
