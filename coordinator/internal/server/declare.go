package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// declarer is who the audit names for streams of the configuration.
const declarer = "configuration"

// The first attempt to make declared streams delays the start, so it is bounded;
// pauses lie between it and further ones.
const (
	declareTimeout      = 5 * time.Second
	declareFirstPause   = 200 * time.Millisecond
	declareLongestPause = 10 * time.Second
)

// streams is what making declared streams needs of a coordinator.
type streams interface {
	Stream(ctx context.Context, prefix string) (protocol.Stream, error)
	CreateStream(ctx context.Context, prefix string, r protocol.CreateStream) (protocol.StreamCreated, error)
	CreateGroup(ctx context.Context, prefix, group string, r protocol.CreateGroup) (protocol.Group, error)
}

// declare makes what is left of the declared streams and groups, and tries again
// what fails for a reason that may pass, until ctx ends.
func declare(ctx context.Context, c streams, left []config.Declared, log *slog.Logger) {
	for pause := declareFirstPause; len(left) > 0; pause = min(2*pause, declareLongestPause) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		left = declareOnce(ctx, c, left, log)
	}
}

// declareOnce makes the declared streams and groups that are missing, and leaves
// what exists as it is. It returns those that failed for a reason that may pass;
// other failures are logged.
func declareOnce(ctx context.Context, c streams, declared []config.Declared, log *slog.Logger) (left []config.Declared) {
	for _, d := range declared {
		err := ensure(ctx, c, d, log)
		switch {
		case err == nil:
		case passes(err) || ctx.Err() != nil:
			log.WarnContext(ctx, "declared stream cannot be made yet", "stream", d.Prefix, "err", err)
			left = append(left, d)
		default:
			log.ErrorContext(ctx, "declared stream cannot be made", "stream", d.Prefix, "err", err)
		}
	}
	return left
}

// passes reports whether the same request may succeed later.
func passes(err error) bool {
	var e *protocol.Error
	return errors.As(err, &e) && e.Retryable
}

// ensure makes one declared stream and its groups.
func ensure(ctx context.Context, c streams, d config.Declared, log *slog.Logger) error {
	s, err := c.Stream(ctx, d.Prefix)
	if errors.Is(err, protocol.ErrStreamNotFound) {
		_, err = c.CreateStream(ctx, d.Prefix, protocol.CreateStream{
			InitialShardCount: &d.Shards,
			AutoCreateGroups:  &d.AutoCreateGroups,
			GroupStart:        protocol.GroupStart(d.GroupStart),
			RequestedBy:       declarer,
		})
		if err == nil || errors.Is(err, protocol.ErrStreamExists) {
			// Another coordinator with the same settings may have been faster.
			s, err = c.Stream(ctx, d.Prefix)
		}
	}
	if err != nil {
		return fmt.Errorf("make stream %s: %w", d.Prefix, err)
	}
	if s.ShardCount != d.Shards {
		log.WarnContext(ctx, "declared stream has another shard count and is left as it is", "stream", d.Prefix, "shards", s.ShardCount, "declared", d.Shards)
	}
	for _, group := range d.Groups {
		if slices.Contains(s.Groups, group) {
			continue
		}
		_, err := c.CreateGroup(ctx, d.Prefix, group, protocol.CreateGroup{RequestedBy: declarer})
		if err != nil && !errors.Is(err, protocol.ErrGroupExists) {
			return fmt.Errorf("make group %s of stream %s: %w", group, d.Prefix, err)
		}
	}
	return nil
}
