package consumer

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
)

// The default and the bounds of Retention.
const (
	DefaultTrimInterval = 10 * time.Second

	minTrimInterval = 100 * time.Millisecond
	maxTrimInterval = time.Hour
	maxKeepFor      = 10 * 365 * 24 * time.Hour

	// trimBatch bounds what one script removes, so that it holds the server up for
	// a few milliseconds at most.
	trimBatch = 5000
	// heldStep is from how many records on it is said that a group holds the
	// trimming up, and again at each doubling.
	heldStep = 10_000
)

// Retention says which records are removed from a shard. Acknowledging a record
// does not remove it, so without retention a stream grows for ever.
//
// The owner of a shard removes what every consumer group of that shard's stream
// has acknowledged, of all groups, not only its own. What any group has not been
// given, or not acknowledged, stays: a group that nobody reads for holds the trimming up, which is
// logged and told to the Observer. The server removes whole blocks (100 records by
// default), so a few acknowledged records stay.
//
// Who reads without a group, or makes another group later, finds only what is
// left: keep records for them with For or Records, or switch retention Off.
type Retention struct {
	// Off keeps everything.
	Off bool
	// For keeps records at least this long, by the server's clock and the time in
	// their ids.
	//
	// Defaults to no time, at most 10 years.
	For time.Duration
	// Records keeps at least this many of the newest records of each shard.
	//
	// Defaults to none.
	Records int64
	// Interval is the time between two looks at a shard.
	//
	// Defaults to 10 s; from 100 ms to 1 h.
	Interval time.Duration
}

func (r *Retention) validate() error {
	var bad []error
	if r.For < 0 || r.For > maxKeepFor {
		bad = append(bad, fmt.Errorf("Retention.For: is %s, must be between 0 and %s", r.For, maxKeepFor))
	}
	if r.Records < 0 {
		bad = append(bad, fmt.Errorf("Retention.Records: is %d, must not be negative", r.Records))
	}
	if r.Interval < minTrimInterval || r.Interval > maxTrimInterval {
		bad = append(bad, fmt.Errorf("Retention.Interval: is %s, must be between %s and %s", r.Interval, minTrimInterval, maxTrimInterval))
	}
	return errors.Join(bad...)
}

//go:embed trim.lua
var trimSource string

var trimScript = redis.NewScript(trimSource)

// trim lets the server trim one shard. It reports whether more is to be trimmed
// at once.
func (k *keeper) trim(ctx context.Context, c *chore) (more bool, err error) {
	w, r := c.worker, &k.cfg.Retention
	sent := time.Now()
	v, err := trimScript.Run(ctx, k.client, []string{w.shard.Key},
		k.cfg.Group, trimBatch, r.Records, r.For.Milliseconds()).Slice()
	e := TrimmedEvent{Shard: w.shard, Took: time.Since(sent), Err: err}
	if errors.Is(err, redis.Nil) {
		// Without the stream or our group nobody can tell what is done with. Reading
		// meets that too, and it says so.
		return false, nil
	}
	if err == nil {
		e.Records, e.Length, e.HeldBy, e.From, err = trimmed(v)
		e.Err = err
	}
	notify(k.observing, Observer.Trimmed, e)
	if err != nil {
		return false, err
	}
	if e.Records > 0 {
		k.stats.trimmed.Add(uint64(e.Records))
		w.log.Debug("trimmed", slog.Int64("records", e.Records), slog.Int64("left", e.Length))
	}
	k.complain(c, &e)
	// It stops before a block that would exceed the batch.
	return e.Records >= trimBatch/2, nil
}

// trimmed reads the answer of the script.
func trimmed(v []any) (records, length int64, group, from string, err error) {
	if len(v) == 4 {
		var ok [4]bool
		records, ok[0] = v[0].(int64)
		length, ok[1] = v[1].(int64)
		group, ok[2] = v[2].(string)
		from, ok[3] = v[3].(string)
		if ok == [4]bool{true, true, true, true} {
			return records, length, group, from, nil
		}
	}
	return 0, 0, "", "", fmt.Errorf("the trimming script answered %v", v)
}

// complain says who holds the trimming up: when the shard has grown long, and at
// each doubling.
func (k *keeper) complain(c *chore, e *TrimmedEvent) {
	switch {
	case e.HeldBy == "" || e.Length < heldStep/2:
		c.held = heldStep
	case e.Length >= c.held:
		for c.held <= e.Length {
			c.held *= 2
		}
		c.worker.log.Warn("the stream grows: a group has not acknowledged old records, so they stay",
			slog.String("held_by", e.HeldBy), slog.String("from", e.From), slog.Int64("records", e.Length))
	}
}
