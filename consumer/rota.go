package consumer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// pollFirst and pollLast are the pauses between two looks at a shard that had
	// nothing: the first, and the longest after many. A shard that had something is
	// looked at again at once.
	pollFirst = time.Millisecond
	pollLast  = 50 * time.Millisecond
	// pollSlack is how much too early a shard may be looked at to share a round trip.
	pollSlack = 2 * time.Millisecond
	// pollBatch bounds the reads of one pipeline, and so what one reply carries.
	pollBatch = 64
)

// rota reads the shards of one node that have no connection of their own: those
// whose turn it is share a pipeline of reads that do not block, on a connection
// that serves nothing else.
type rota struct {
	client *redis.Client
	// wake says that somebody waits who did not before.
	wake chan struct{}
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	waiting map[*poll]struct{}
}

// poll is one read that waits for its turn, then for its reply.
type poll struct {
	args  *redis.XReadGroupArgs
	pause time.Duration
	// due is when it is to be looked at next, until when it is given up.
	due, until time.Time
	// sent: it is under way; guarded by the rota's mutex.
	sent  bool
	reply chan polled
}

type polled struct {
	streams []redis.XStream
	err     error
}

// turn is a shard's place in a rota. One goroutine reads.
type turn struct {
	rota *rota
	// pause is how long the next look waits, 0 for not at all.
	pause time.Duration
}

// newRota starts a rota on client, which becomes its own.
func newRota(client *redis.Client) *rota {
	r := &rota{client: client, wake: make(chan struct{}, 1), done: make(chan struct{}), waiting: map[*poll]struct{}{}}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go r.run(ctx)
	return r
}

// close ends the rota; nobody reads any more, and what is under way is cut off.
func (r *rota) close() {
	r.stop()
	_ = r.client.Close()
	<-r.done
}

// read waits for new records for as long as args would block. It returns
// errStopped when halt is closed before a read was sent, and errSevered when
// severed is closed, whether or not one is under way.
func (t *turn) read(args *redis.XReadGroupArgs, halt, severed <-chan struct{}) ([]redis.XStream, error) {
	now := time.Now()
	alone := *args
	alone.Block = -1
	p := &poll{args: &alone, pause: t.pause, due: now.Add(t.pause), until: now.Add(args.Block), reply: make(chan polled, 1)}
	t.rota.join(p)
	for {
		select {
		case got := <-p.reply:
			t.pause = p.pause
			if got.err == nil {
				t.pause = 0
			}
			return got.streams, got.err
		case <-halt:
			if t.rota.leave(p) {
				return nil, errStopped
			}
			// It is under way, and may bring something.
			halt = nil
		case <-severed:
			t.rota.leave(p)
			return nil, errSevered
		case <-t.rota.done:
			return nil, redis.ErrClosed
		}
	}
}

func (r *rota) join(p *poll) {
	r.mu.Lock()
	r.waiting[p] = struct{}{}
	r.mu.Unlock()
	poke(r.wake)
}

// leave takes a poll off the rota; false when it is under way.
func (r *rota) leave(p *poll) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.sent {
		// Its reply is the last, also one without records.
		p.until = time.Time{}
		return false
	}
	delete(r.waiting, p)
	return true
}

// run looks at the shards until ctx ends.
func (r *rota) run(ctx context.Context) {
	defer close(r.done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now := time.Now()
		batch, next := r.due(now)
		if len(batch) > 0 {
			r.look(ctx, batch)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(next)
		select {
		case <-timer.C:
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// due takes those whose turn it is, and tells how long the next has to wait.
func (r *rota) due(now time.Time) (batch []*poll, next time.Duration) {
	next = time.Minute
	r.mu.Lock()
	defer r.mu.Unlock()
	var first time.Time
	for p := range r.waiting {
		if first.IsZero() || p.due.Before(first) {
			first = p.due
		}
	}
	if first.IsZero() || first.After(now) {
		if !first.IsZero() {
			next = first.Sub(now)
		}
		return nil, next
	}
	for p := range r.waiting {
		if len(batch) == pollBatch {
			break
		}
		if !p.due.After(now.Add(min(pollSlack, p.pause/2))) {
			p.sent = true
			batch = append(batch, p)
		}
	}
	return batch, 0
}

// look sends one pipeline of reads and hands the replies out. Like any read, none
// is sent again by itself: each error goes to the shard that it belongs to.
func (r *rota) look(ctx context.Context, batch []*poll) {
	pipe := r.client.Pipeline()
	cmds := make([]*redis.XStreamSliceCmd, len(batch))
	for i, p := range batch {
		cmds[i] = pipe.XReadGroup(ctx, p.args)
	}
	_, whole := pipe.Exec(ctx)
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range batch {
		streams, err := cmds[i].Result()
		if err == nil && len(streams) == 0 {
			// A pipeline that found no connection leaves its commands without an
			// error; "nothing there" has one.
			if err = whole; err == nil {
				err = redis.Nil
			}
		}
		p.sent = false
		if errors.Is(err, redis.Nil) {
			p.pause = min(max(2*p.pause, pollFirst), pollLast)
			if p.due = now.Add(p.pause); p.due.Before(p.until) {
				continue
			}
		}
		delete(r.waiting, p)
		p.reply <- polled{streams, err}
	}
}
