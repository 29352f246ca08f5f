package reshard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/producer"
)

// membersPart are members of a group, in one process.
type membersPart struct {
	Group string
	IDs   []string
	// Hold is how long each handler takes, Concurrency how many run at once in a member.
	Hold        time.Duration
	Concurrency int
}

// members runs members until ctx ends. The journal has a line for each record that was
// handled: key, number, shard, unix ns.
func (p part) members(ctx context.Context, log *slog.Logger) error {
	j, err := faultkit.OpenJournal(p.Journal)
	if err != nil {
		return err
	}
	ends := make([]error, len(p.Members.IDs))
	var lives sync.WaitGroup
	for i, id := range p.Members.IDs {
		lives.Go(func() { ends[i] = p.member(ctx, id, j, log) })
	}
	lives.Wait()
	return errors.Join(errors.Join(ends...), j.Close())
}

func (p part) member(ctx context.Context, id string, j *faultkit.Journal, log *slog.Logger) error {
	c, err := consumer.New(consumer.Config{
		Coordinators: p.Coordinators, Stream: p.Stream, Group: p.Members.Group, MemberID: id,
		Redis: p.redis(), Concurrency: p.Members.Concurrency, Logger: log.With("member", id),
		Handler: func(ctx context.Context, r consumer.Record) error {
			number := r.Values[producer.PayloadField]
			if r.Key == "" {
				return nil // not one of ours
			}
			if p.Members.Hold > 0 {
				timer := time.NewTimer(p.Members.Hold)
				defer timer.Stop()
				select {
				case <-timer.C:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			j.Write(fmt.Appendf(nil, "%s %s %d %d\n", r.Key, number, r.Shard, time.Now().UnixNano()))
			return nil
		},
	})
	if err != nil {
		return err
	}
	return c.Run(ctx)
}
