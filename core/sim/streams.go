package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// streams is the model of the Redis that holds the shards: keys with records and
// consumer groups.
type streams struct {
	w         *world
	keys      map[int]*shard
	producers []*producer
	books     books
}

// shard is one key.
type shard struct {
	index int
	// last is the last id that was generated in it.
	last    int64
	records []*record
	cursors []*cursor
	// deleted is the highest id that was deleted from the middle.
	deleted int64
}

// cursor is a consumer group on a shard.
type cursor struct {
	group     string
	delivered int64
	// pending are the records that were handed out and not acknowledged.
	pending []*record
	// wrong is by how much the server's own count is too high, since a trim.
	wrong int64
}

// idAt is the lowest id of a time: those of Redis are milliseconds and a number.
func idAt(now time.Duration) int64 { return wallStart.Add(now).UnixMilli() << idBits }

const idBits = 16

func idText(id int64) string { return fmt.Sprintf("%d-%d", id>>idBits, id&(1<<idBits-1)) }

// add appends a record, if there is such a key: producers create none.
func (s *streams) add(index int) bool {
	sh, there := s.keys[index]
	if !there {
		return false
	}
	sh.last = max(sh.last+1, idAt(s.w.now))
	r := &record{id: sh.last, shard: index}
	sh.records = append(sh.records, r)
	s.books.accepted(s.w, r)
	return true
}

func (sh *shard) cursor(group string) (*cursor, bool) {
	for _, c := range sh.cursors {
		if c.group == group {
			return c, true
		}
	}
	return nil, false
}

// create makes a consumer group that begins at an id, unless there is one.
func (sh *shard) create(group string, at int64) {
	if _, there := sh.cursor(group); there {
		return
	}
	sh.cursors = append(sh.cursors, &cursor{group: group, delivered: at})
	slices.SortFunc(sh.cursors, func(a, b *cursor) int { return compare(a.group, b.group) })
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// behind are the records after an id.
func (sh *shard) behind(id int64) []*record {
	i, _ := slices.BinarySearchFunc(sh.records, id+1, func(r *record, id int64) int { return int(r.id - id) })
	return sh.records[i:]
}

// provision makes one shard exist with groups on it. A shard that is renewed gets
// another last id, all of it in one step.
func (s *streams) provision(index int, groups []string, start protocol.GroupStart, renew bool) {
	sh, there := s.keys[index]
	if !there {
		sh = &shard{index: index}
		s.keys[index] = sh
	}
	at := int64(0)
	if start == protocol.StartLatest {
		at = sh.last
	}
	for _, g := range groups {
		sh.create(g, at)
	}
	switch {
	case renew && there:
		sh.last++
	case renew:
		sh.last = idAt(s.w.now)
	}
}

// lookAt tells what shards hold.
func (s *streams) lookAt(indexes []int) []stream.Shard {
	out := make([]stream.Shard, len(indexes))
	for i, index := range indexes {
		out[i] = stream.Shard{Index: index}
		sh, there := s.keys[index]
		if !there {
			continue
		}
		out[i].Exists, out[i].LastID, out[i].Records = true, idText(sh.last), int64(len(sh.records))
		for _, c := range sh.cursors {
			unread := sh.behind(c.delivered)
			seen := stream.Cursor{Group: c.group, Pending: int64(len(c.pending)), Unread: int64(len(unread)), Lag: sh.lag(c)}
			if len(c.pending) > 0 {
				seen.OldestID = idText(c.pending[0].id)
			}
			if len(unread) > 0 {
				seen.NextID = idText(unread[0].id)
			}
			out[i].Cursors = append(out[i].Cursors, seen)
		}
	}
	return out
}

// lag is what the server says of a group: unknown after a deletion in front of it,
// too much after a trim.
func (sh *shard) lag(c *cursor) int64 {
	if sh.deleted > 0 && sh.deleted >= c.delivered {
		return -1
	}
	return int64(len(sh.behind(c.delivered))) + c.wrong
}

// retire removes a shard if it is what was proven and nobody misses anything;
// it returns what became of it, as the script does.
func (s *streams) retire(r stream.Retirement, step stream.RetireStep) (gone bool) {
	sh, there := s.keys[r.Shard]
	switch {
	case !there:
		return true
	case idText(sh.last) != r.LastID && !r.AnyStream:
		return false
	}
	if !r.Force {
		read := len(sh.records) == 0
		for _, c := range sh.cursors {
			if slices.Contains(step.Ignored, c.group) {
				continue
			}
			if read = true; len(c.pending) > 0 || len(sh.behind(c.delivered)) > 0 {
				return false
			}
		}
		lacks := func(name string) bool { _, there := sh.cursor(name); return !there }
		if !read || len(sh.records) > 0 && slices.ContainsFunc(step.Groups, lacks) {
			return false
		}
	}
	delete(s.keys, r.Shard)
	s.w.counts.ShardsRetired++
	s.books.removed(s.w, sh)
	return true
}

// find returns those of some shards that exist.
func (s *streams) find(first, end int) (found []int) {
	for i := first; i < end; i++ {
		if _, there := s.keys[i]; there {
			found = append(found, i)
		}
	}
	return found
}

// removeGroup deletes a consumer group on all shards up to one.
func (s *streams) removeGroup(group string, end int) {
	for i := range end {
		if sh, there := s.keys[i]; there {
			sh.destroy(group)
		}
	}
}

// destroy deletes a consumer group.
func (sh *shard) destroy(group string) {
	sh.cursors = slices.DeleteFunc(sh.cursors, func(c *cursor) bool { return c.group == group })
}

// batch is how many records a reader gets at once.
const batch = 8

// read hands records out: with claim first all that are pending, whoever had them, then
// new ones. exists is false where there is no such group on the shard.
func (sh *shard) read(group string, claim bool) (out []*record, exists bool) {
	c, there := sh.cursor(group)
	if !there {
		return nil, false
	}
	if claim {
		// What was deleted meanwhile is acknowledged, and never looped on.
		c.pending = slices.DeleteFunc(c.pending, func(r *record) bool { return r.deleted })
		out = slices.Clone(c.pending)
	}
	for _, r := range sh.behind(c.delivered)[:min(batch, len(sh.behind(c.delivered)))] {
		c.delivered = r.id
		c.pending = append(c.pending, r)
		out = append(out, r)
	}
	return out, true
}

// acknowledge takes records off the pending list, and returns those that were on it.
func (sh *shard) acknowledge(group string, done []*record) (taken []*record) {
	c, there := sh.cursor(group)
	if !there {
		return nil
	}
	for _, r := range c.pending {
		if slices.Contains(done, r) {
			taken = append(taken, r)
		}
	}
	c.pending = slices.DeleteFunc(c.pending, func(r *record) bool { return slices.Contains(done, r) })
	return taken
}

// rewind sets a group back to the beginning: what is there is to be handled again.
func (sh *shard) rewind(c *cursor) {
	c.delivered = 0
	c.pending = nil
}

// drop deletes the records of a shard from one index up to another. From the beginning
// it is a trim, which the server forgets.
func (sh *shard) drop(from, to int) {
	for _, r := range sh.records[from:to] {
		r.deleted = true
		for _, c := range sh.cursors {
			if from == 0 && r.id > c.delivered {
				c.wrong++
			}
		}
		if from > 0 {
			sh.deleted = max(sh.deleted, r.id)
		}
	}
	sh.records = slices.Delete(slices.Clone(sh.records), from, to)
}
