package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

const (
	// recreateFirst and recreateLast bound the pauses between two attempts to create
	// what is missing; the first is also how long reports are collected after a
	// success, since members notice one after the other.
	recreateFirst = 100 * time.Millisecond
	recreateLast  = time.Second
	// recreateAttempts bounds the attempts for one report. Members report again with
	// each heartbeat.
	recreateAttempts = 10
	// recreateRuns is how many runs of neighbouring shards are created one by one;
	// beyond it the whole stream is gone through.
	recreateRuns = 16
)

// lostShards are shards whose keys members did not find in Redis, by stream. A
// stream in the map has a goroutine that creates them again.
type lostShards map[string]map[protocol.ShardIndex]struct{}

// noteMissing has shards created again that a heartbeat reports missing: the Redis
// that holds them was emptied, or a key was deleted or evicted. Nothing is created
// but what the stream's record says, whoever reports it.
func (c *Coordinator) noteMissing(prefix string, q *protocol.Heartbeat) {
	if c.ports.Streams == nil {
		return
	}
	for i := range q.ShardProgress {
		if row := &q.ShardProgress[i]; row.Missing {
			c.noteLost(prefix, row.Shard)
		}
	}
}

func (c *Coordinator) noteLost(prefix string, shard protocol.ShardIndex) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A stream that is not known here has no members here either.
	if !c.writes(prefix, shard) || c.closed.Load() {
		return
	}
	if lost, busy := c.lost[prefix]; busy {
		lost[shard] = struct{}{}
		return
	}
	c.lost[prefix] = map[protocol.ShardIndex]struct{}{shard: {}}
	c.owned.Add(1)
	go func() {
		defer c.owned.Done()
		c.recreate(prefix)
	}()
}

// recreate creates what was reported missing until nothing is, or it gives up.
func (c *Coordinator) recreate(prefix string) {
	pause := recreateFirst
	for failures := 0; ; {
		// Several workers of a member notice at the same time.
		if !c.wait(pause / 10) {
			c.takeLost(prefix, true)
			return
		}
		shards := c.takeLost(prefix, false)
		if len(shards) == 0 {
			return
		}
		n, err := c.provisionAgain(prefix, shards)
		switch {
		case err == nil:
			failures, pause = 0, recreateFirst
			if n > 0 {
				c.cfg.Logger.Warn("shards were missing in Redis and have been created again: the records that they held are lost",
					"stream", prefix, "shards", n, "first", int(shards[0]))
				if c.cfg.OnShardsRecreated != nil {
					c.cfg.OnShardsRecreated(prefix, n)
				}
			}
		case errors.Is(err, protocol.ErrStreamExists) || failures+1 == recreateAttempts:
			c.cfg.Logger.Error("shards are missing in Redis and could not be created: see to it, members report them again",
				"stream", prefix, "shards", len(shards), "first", int(shards[0]), "err", err)
			c.takeLost(prefix, true)
			return
		default:
			if failures++; failures == 1 {
				c.cfg.Logger.Warn("shards are missing in Redis and could not be created yet",
					"stream", prefix, "shards", len(shards), "first", int(shards[0]), "err", err)
			}
			for _, s := range shards {
				c.keepLost(prefix, s)
			}
			pause = min(2*pause, recreateLast)
		}
		if !c.wait(pause) {
			c.takeLost(prefix, true)
			return
		}
	}
}

// wait reports false if the coordinator closes meanwhile.
func (c *Coordinator) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.closing.Done():
		return false
	}
}

// takeLost returns the shards reported missing, sorted. When there are none, or
// with all, the stream is done with.
func (c *Coordinator) takeLost(prefix string, all bool) []protocol.ShardIndex {
	c.mu.Lock()
	defer c.mu.Unlock()
	shards := slices.Sorted(maps.Keys(c.lost[prefix]))
	if all || len(shards) == 0 {
		delete(c.lost, prefix)
		return shards
	}
	clear(c.lost[prefix])
	return shards
}

func (c *Coordinator) keepLost(prefix string, shard protocol.ShardIndex) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[prefix][shard] = struct{}{}
}

// provisionAgain creates shards of a stream as its record says, with its groups; it
// returns how many it went through. What was created otherwise meanwhile stays.
func (c *Coordinator) provisionAgain(prefix string, shards []protocol.ShardIndex) (int, error) {
	ctx, done := context.WithTimeout(c.closing, c.cfg.CallTimeout)
	defer done()
	leave, err := c.enter(ctx, prefix)
	if err != nil {
		return 0, err
	}
	defer leave()
	s, _, err := c.loadStream(ctx, prefix)
	if err != nil {
		return 0, err
	}
	if !s.Exists() || s.Removal != nil || !s.Provisioned {
		// What is to be there, if anything, is the business of its open steps.
		return 0, nil
	}
	var groups []string
	for _, g := range s.Groups {
		if g.Phase == stream.GroupLive {
			groups = append(groups, g.Name)
		}
	}
	n := 0
	for _, run := range runs(shards, s.ShardCount) {
		// From the start, whatever the stream says for new groups: all that is there by
		// now was written after the loss.
		err := c.ports.Streams.Provision(ctx, port.Provision{
			Prefix: prefix, First: run.first, End: run.end, Groups: groups, Start: protocol.StartEarliest,
		})
		if err != nil {
			return n, err
		}
		n += run.end - run.first
	}
	return n, nil
}

type run struct{ first, end int }

// runs joins neighbouring shards below count; too many runs become one.
func runs(shards []protocol.ShardIndex, count int) (joined []run) {
	for _, s := range shards {
		i := int(s)
		switch last := len(joined) - 1; {
		case i >= count:
		case last >= 0 && joined[last].end == i:
			joined[last].end++
		default:
			joined = append(joined, run{i, i + 1})
		}
	}
	if len(joined) > recreateRuns {
		return []run{{joined[0].first, joined[len(joined)-1].end}}
	}
	return joined
}
