package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/consumer"
)

// follower is a member that reads nothing and lets go at once.
type follower struct {
	id string
	w  *httpload.Watch
}

func (f follower) Assigned(_ context.Context, s consumer.Shard) { f.w.Assigned(f.id, s.Index) }
func (f follower) Revoked(_ context.Context, s consumer.Shard)  { f.w.Released(f.id, s.Index) }
func (f follower) Lost(s consumer.Shard, _ error)               { f.w.Released(f.id, s.Index) }

// running is a consumer that runs.
type running struct {
	*consumer.Consumer

	ended chan error
}

// follow starts a member that only follows its assignment. It is the consumer
// module as applications use it.
func follow(ctx context.Context, w *httpload.Watch, url, stream, id string) (*running, error) {
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
