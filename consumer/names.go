package consumer

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// nameBatch bounds how many names one script removes.
const nameBatch = 100

//go:embed names.lua
var namesSource string

var namesScript = redis.NewScript(namesSource)

// namesAge is how long a consumer must not have been heard of before its name may
// go: until the leases of whoever used it are over, twice.
func (k *keeper) namesAge() time.Duration { return 2 * k.gate.lease() }

// tidy removes the names that former owners of a shard have left in its group:
// each member leaves one behind in each shard that it ever had.
func (k *keeper) tidy(ctx context.Context, c *chore) (more bool, err error) {
	w := c.worker
	removed, err := namesScript.Run(ctx, k.client, []string{w.shard.Key},
		k.cfg.Group, k.cfg.MemberID, k.namesAge().Milliseconds(), nameBatch).StringSlice()
	if isGroupGone(err) || errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if len(removed) > 0 {
		w.log.Debug("consumer names that owned nothing are removed", slog.Any("names", removed))
		notify(k.observing, Observer.NamesRemoved, NamesRemovedEvent{Shard: w.shard, Names: removed})
	}
	return len(removed) == nameBatch, nil
}
