package service

import (
	"context"
	"fmt"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// mayHaveStrays reports whether shards beyond the known ones are to be looked for now.
func (c *Coordinator) mayHaveStrays(s *stream.State) bool {
	now := c.ports.Clock.Mono()
	c.mu.Lock()
	defer c.mu.Unlock()
	k, there := c.known[s.Prefix]
	return there && now-k.looked >= lookInterval && len(s.Next(stream.Input{Look: true})) > 0
}

// prove asks what removed shards hold, and notes those that are empty. Groups of ours that
// are missing there are brought back, so that they are waited for.
func (c *Coordinator) prove(ctx context.Context, s *stream.State, step stream.LookStep) (cmd stream.Command, waits bool, err error) {
	shards, err := c.shards(ctx, s, step.Shards)
	if err != nil {
		return nil, false, err
	}
	for _, restore := range s.Restore(stream.Input{}, shards) {
		if err := c.provision(ctx, s.Prefix, restore); err != nil {
			return nil, false, err
		}
	}
	proven := s.Prove(stream.Input{}, shards)
	c.noteUnread(s.Prefix, len(shards)-len(proven.Proofs))
	if len(proven.Proofs) == 0 {
		return nil, true, nil
	}
	return proven, false, nil
}

// shards looks at shards. Without a Redis nothing is known of them: only those that an
// operator has given up can go, and they are somebody else's to delete.
func (c *Coordinator) shards(ctx context.Context, s *stream.State, indexes []int) ([]stream.Shard, error) {
	out := make([]stream.Shard, 0, len(indexes))
	if c.ports.Shards == nil {
		for _, i := range indexes {
			if s.GivenUp.Contains(i) {
				out = append(out, stream.Shard{Index: i})
			}
		}
		return out, nil
	}
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	found, err := c.ports.Shards.LookAt(ctx, s.Prefix, indexes)
	if err != nil {
		return nil, fmt.Errorf("look at the removed shards of stream %s: %w", s.Prefix, err)
	}
	for _, f := range found {
		sh := stream.Shard{Index: f.Index, Exists: f.Exists, LastID: f.LastID, Records: f.Records}
		for _, cursor := range f.Cursors {
			sh.Cursors = append(sh.Cursors, stream.Cursor(cursor))
		}
		out = append(out, sh)
	}
	return out, nil
}

// readers finds out who may still be reading shards that were found empty, of each shard
// the first one. A group whose record cannot be read may be reading all of them.
func (c *Coordinator) readers(ctx context.Context, prefix string, groups []string, shards []int) map[int]stream.Reader {
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	out := map[int]stream.Reader{}
	for _, name := range groups {
		if len(out) == len(shards) {
			break
		}
		state, err := c.readingGroup(ctx, port.GroupKey{Stream: prefix, Group: name})
		for _, shard := range shards {
			if _, named := out[shard]; named {
				continue
			}
			r := stream.Reader{Group: name, Err: err}
			read := err != nil
			if state != nil {
				r.Member, read = state.Reader(shard)
			}
			if read {
				out[shard] = r
			}
		}
	}
	return out
}

// nameReaders says of removed shards that were found empty who has not let go of them.
func (c *Coordinator) nameReaders(ctx context.Context, s *stream.State, shards []stream.Shard) {
	var closed []int
	for _, sh := range shards {
		if s.Proven(sh.Index) {
			closed = append(closed, sh.Index)
		}
	}
	if len(closed) == 0 {
		return
	}
	read := c.readers(ctx, s.Prefix, s.Readers(), closed)
	for i := range shards {
		if r, held := read[shards[i].Index]; held {
			shards[i].Reader = &r
		}
	}
}

// readingGroup reads a group whose members may be reading, nil where there is none: it is
// yet to be created, or was deleted meanwhile.
func (c *Coordinator) readingGroup(ctx context.Context, key port.GroupKey) (*group.State, error) {
	rec, err := c.loadGroup(ctx, key)
	if err != nil || rec.Version.Revision == 0 {
		return nil, err
	}
	state, err := group.Decode(rec.Body)
	if err != nil {
		return nil, err
	}
	return &state, nil
}

// retire removes shards that were proven empty and that nobody reads any more, and notes
// what became of them.
func (c *Coordinator) retire(ctx context.Context, prefix string, step stream.RetireStep) (cmd stream.Command, waits bool, err error) {
	shards := make([]int, len(step.Shards))
	for i, r := range step.Shards {
		shards[i] = r.Shard
	}
	read := c.readers(ctx, prefix, step.Readers, shards)
	c.noteHeld(prefix, len(read))
	if step = step.Without(read); len(step.Shards) == 0 {
		return nil, true, nil
	}
	var noted stream.Retire
	if c.ports.Shards == nil {
		for _, r := range step.Shards {
			noted.Gone = append(noted.Gone, r.Shard)
		}
		return noted, false, nil
	}
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	ask := port.Retirement{Prefix: prefix, Groups: step.Groups, Ignored: step.Ignored, Shards: make([]port.RetireShard, len(step.Shards))}
	for i, r := range step.Shards {
		ask.Shards[i] = port.RetireShard{Index: r.Shard, LastID: r.LastID, Force: r.Force}
	}
	outcomes, err := c.ports.Shards.Retire(ctx, ask)
	if err != nil {
		return nil, false, fmt.Errorf("remove the empty shards of stream %s: %w", prefix, err)
	}
	for i, outcome := range outcomes {
		if shard := step.Shards[i].Shard; outcome == port.ShardGone {
			noted.Gone = append(noted.Gone, shard)
		} else {
			noted.Kept = append(noted.Kept, shard)
		}
	}
	return noted, false, nil
}

// find looks for shards that were created late.
func (c *Coordinator) find(ctx context.Context, prefix string, step stream.FindStep) (cmd stream.Command, waits bool, err error) {
	if c.ports.Shards == nil {
		return nil, true, nil
	}
	ctx, done := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer done()
	found, err := c.ports.Shards.Find(ctx, prefix, step.First, step.End)
	if err != nil {
		return nil, false, fmt.Errorf("look for shards of stream %s that were created late: %w", prefix, err)
	}
	if len(found) == 0 {
		return nil, true, nil
	}
	return stream.FoundStrays{Shards: found}, false, nil
}
