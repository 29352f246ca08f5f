package consumer

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// keeperRound is the longest time between two looks at which shards there are.
	keeperRound = time.Second
	// keeperPause is how long other clients come first between two batches of one
	// shard.
	keeperPause = 2 * time.Millisecond
)

// keeper keeps the shards of a poller in order, beside the reading: it trims what
// every group is done with, and removes the names of dead members. Both are
// scripts that are safe whoever runs them and however often, so they travel on
// connections where a lost reply does not matter.
type keeper struct {
	client  redis.UniversalClient
	cfg     *Config
	gate    *gate
	log     *slog.Logger
	stats   *stats
	timeout time.Duration
	// observing may be nil.
	observing *observing
	// workers returns those whose shards are ours.
	workers func() []*worker

	// The fields below belong to the keeper's goroutine.
	chores map[*worker]*chore
	// noTrim and noTidy: the server refuses it, which no waiting ends.
	noTrim, noTidy bool
}

// chore is when the work on one shard is due.
type chore struct {
	worker *worker
	trimAt time.Time
	tidyAt time.Time
	// held is the length at which it is said again who holds the trimming up.
	held int64
}

func newKeeper(s *servers, p *poller) *keeper {
	return &keeper{
		client: s.shared, cfg: p.cfg, gate: p.gate, log: p.log, stats: &p.stats, timeout: s.options.ReadTimeout,
		observing: p.observing, workers: p.all, chores: map[*worker]*chore{}, noTrim: p.cfg.Retention.Off,
	}
}

// run works until ctx ends.
func (k *keeper) run(ctx context.Context) {
	for !(k.noTrim && k.noTidy) {
		if !sleep(ctx, nil, k.round(ctx)) {
			return
		}
	}
}

// round does what is due, and returns how long nothing else is.
func (k *keeper) round(ctx context.Context) time.Duration {
	k.enroll()
	next := time.Now().Add(keeperRound)
	for _, c := range k.chores {
		if !k.noTrim && !time.Now().Before(c.trimAt) {
			k.do(ctx, c, &c.trimAt, k.cfg.Retention.Interval, k.trim, &k.noTrim, "retention")
		}
		if !k.noTidy && !time.Now().Before(c.tidyAt) {
			k.do(ctx, c, &c.tidyAt, k.namesAge(), k.tidy, &k.noTidy, "removing names of dead members")
		}
		if !k.noTrim && c.trimAt.Before(next) {
			next = c.trimAt
		}
		if !k.noTidy && c.tidyAt.Before(next) {
			next = c.tidyAt
		}
	}
	return max(time.Until(next), keeperPause)
}

// enroll takes note of which shards are ours.
func (k *keeper) enroll() {
	ours := k.workers()
	known := make(map[*worker]*chore, len(ours))
	now := time.Now()
	for _, w := range ours {
		c := k.chores[w]
		if c == nil {
			// Not all at once, and nothing while the shard is being taken over.
			c = &chore{worker: w, held: heldStep, trimAt: now.Add(spread(k.cfg.Retention.Interval)), tidyAt: now.Add(k.namesAge())}
		}
		known[w] = c
	}
	k.chores = known
}

// spread returns three quarters of d to five quarters, by chance.
func spread(d time.Duration) time.Duration { return d*3/4 + rand.N(d/2+1) }

// do carries out one piece of work if the shard is still ours, and sets when it is
// due again. Work that the server will always refuse is given up.
func (k *keeper) do(
	ctx context.Context, c *chore, due *time.Time, interval time.Duration,
	work func(context.Context, *chore) (bool, error), off *bool, what string,
) {
	*due = time.Now().Add(spread(interval))
	left := min(k.timeout, k.gate.left())
	if left <= 0 || c.worker.stopping(ctx) {
		return
	}
	if c.worker.ailment.condition().Attempts > 0 {
		// A server that does not answer would hold up the shards of the others.
		return
	}
	ctx, done := context.WithTimeout(ctx, left)
	defer done()
	more, err := work(ctx, c)
	switch {
	case err != nil && forbids(err):
		*off = true
		k.log.Warn("switched off, since the server does not allow it", slog.String("work", what), slog.Any("err", err))
	case err != nil:
		// Reading meets the same trouble and speaks of it.
		k.log.Debug("it did not work this time", slog.String("work", what), slog.Int("shard", c.worker.shard.Index), slog.Any("err", err))
	case more:
		*due = time.Now().Add(keeperPause)
	}
}

// forbids reports whether err says that the server does not know, or this user may
// not call, what a script needs.
func forbids(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := strings.ToLower(reply.Error())
	for _, sign := range []string{"noperm", "acl failure", "can't run this command", "unknown command", "unknown redis command", "syntax error"} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}
