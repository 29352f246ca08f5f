package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// watch follows who owns the shards of one group, as its members see it.
type watch struct {
	mu     sync.Mutex
	owner  []string
	owned  map[string]int
	nOwned int
	// assigned and revoked count since reset.
	assigned, revoked int
	// wanted is how many members are to have shards, balancedAt since when they
	// have, zero while they have not.
	wanted     int
	balancedAt time.Time
	changed    chan struct{}
}

func newWatch(shards int) *watch {
	return &watch{owner: make([]string, shards), owned: map[string]int{}, changed: make(chan struct{}, 1)}
}

// want sets how many members the shards are to be balanced over, and begins to
// count anew.
func (w *watch) want(members int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted, w.assigned, w.revoked, w.balancedAt = members, 0, 0, time.Time{}
}

func (w *watch) assign(member string, shard int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owner[shard] == "" {
		w.nOwned++
	}
	w.owner[shard] = member
	w.owned[member]++
	w.assigned++
	w.look()
}

func (w *watch) release(member string, shard int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.owner[shard] == member {
		w.owner[shard] = ""
		w.nOwned--
	}
	if w.owned[member]--; w.owned[member] == 0 {
		delete(w.owned, member)
	}
	w.revoked++
	w.look()
}

// look notes since when the shards are balanced over the members that are wanted.
func (w *watch) look() {
	balanced := w.nOwned == len(w.owner) && len(w.owned) == min(w.wanted, len(w.owner))
	if balanced {
		least, most := len(w.owner), 0
		for _, n := range w.owned {
			least, most = min(least, n), max(most, n)
		}
		balanced = most-least <= 1
	}
	switch {
	case !balanced:
		w.balancedAt = time.Time{}
	case w.balancedAt.IsZero():
		w.balancedAt = time.Now()
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// await waits until the shards are balanced, and returns since when, and how many
// assignments and revocations led there.
func (w *watch) await(ctx context.Context) (at time.Time, assigned, revoked int, err error) {
	ctx, done := context.WithTimeoutCause(ctx, answerTimeout, errors.New("the shards are not balanced in time"))
	defer done()
	for {
		w.mu.Lock()
		at, assigned, revoked = w.balancedAt, w.assigned, w.revoked
		w.mu.Unlock()
		if !at.IsZero() {
			return at, assigned, revoked, nil
		}
		select {
		case <-ctx.Done():
			return at, assigned, revoked, context.Cause(ctx)
		case <-w.changed:
		}
	}
}

// follower is a member that reads nothing and lets go at once.
type follower struct {
	id string
	w  *watch
}

func (f follower) Assigned(_ context.Context, s consumer.Shard) { f.w.assign(f.id, s.Index) }
func (f follower) Revoked(_ context.Context, s consumer.Shard)  { f.w.release(f.id, s.Index) }
func (f follower) Lost(s consumer.Shard, _ error)               { f.w.release(f.id, s.Index) }

// running is a consumer that runs.
type running struct {
	*consumer.Consumer

	ended chan error
}

// follow starts a member that only follows its assignment. It is the consumer
// module as applications use it.
func (w *watch) follow(ctx context.Context, url, stream, id string) (*running, error) {
	return start(ctx, consumer.Config{
		Coordinators: []string{url}, Stream: stream, Group: group, MemberID: id, Lifecycle: follower{id, w},
	})
}

func start(ctx context.Context, cfg consumer.Config) (*running, error) {
	cfg.Logger = slog.New(slog.DiscardHandler)
	c, err := consumer.New(cfg)
	if err != nil {
		return nil, err
	}
	r := &running{Consumer: c, ended: make(chan error, 1)}
	go func() { r.ended <- c.Run(context.WithoutCancel(ctx)) }()
	return r, nil
}

// leave says goodbye and waits for the end.
func (r *running) leave(ctx context.Context) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer done()
	return errors.Join(r.Close(ctx), <-r.ended)
}

// leaveAll ends members at the same time. Without a goodbye it takes no time.
func leaveAll(ctx context.Context, all []*running, goodbye bool) error {
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, r := range all {
		wait.Go(func() {
			if goodbye {
				errs[i] = r.leave(ctx)
				return
			}
			now, cancel := context.WithCancel(context.WithoutCancel(ctx))
			cancel()
			_ = r.Close(now) // it says that it was cut off, as it was told to be
			// Thousands of them take a while to notice.
			if err := <-r.ended; !errors.Is(err, consumer.ErrStuck) {
				errs[i] = err
			}
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func memberName(i int) string { return fmt.Sprintf("member-%05d", i) }
