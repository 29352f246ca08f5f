package sim

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// record is one record of a shard.
type record struct {
	id    int64
	shard int
	// deleted is true once an application has deleted it, or trimmed it away.
	deleted bool
	// owed are the groups that are to handle it, handled those that have: a bit for
	// each group of the world.
	owed, handled uint8
}

// books say what must become of every record, and what the stream's record has said so
// far.
type books struct {
	records []*record
	// told are the shards that belong to each version of the stream's record.
	told map[int64]stream.Layout
	last stream.State
}

func (w *world) bit(group string) uint8 {
	return 1 << slices.Index(w.groups, group)
}

// accepted notes a record that was written: every group that lives now is to handle it.
func (b *books) accepted(w *world, r *record) {
	w.counts.Written++
	for _, g := range w.store.stream.Groups {
		if g.Phase == stream.GroupLive {
			r.owed |= w.bit(g.Name)
		}
	}
	b.records = append(b.records, r)
}

// missed reports whether somebody who should has not handled a record.
func (r *record) missed() bool { return !r.deleted && r.owed&^r.handled != 0 }

// rewound notes that a group is to handle records again.
func (b *books) rewound(w *world, group string, records []*record) {
	for _, r := range records {
		r.handled &^= w.bit(group)
	}
}

// removed looks at a shard that a coordinator has removed.
func (b *books) removed(w *world, sh *shard) {
	now := &w.store.stream
	w.logf("shard %d is removed, last id %s", sh.index, idText(sh.last))
	if sh.index < now.ShardCount {
		w.violate("a live shard is removed: %d of %d", sh.index, now.ShardCount)
	}
	for _, p := range w.streams.producers {
		if p.routed() && sh.index < p.route.count {
			w.violate("a route points at a removed shard: %s may write to %d", p.name, sh.index)
		}
	}
	given := now.GivenUp.Contains(sh.index)
	for _, r := range sh.records {
		if given {
			// An operator has said so.
			r.owed = 0
		}
		if r.missed() {
			w.violate("removing shard %d deletes record %s, which groups %b have not handled", sh.index, idText(r.id), r.owed&^r.handled)
			return
		}
	}
}

// unread looks at who reads a shard that a coordinator has just removed, by what it knew
// of one version of the stream's record.
func (b *books) unread(w *world, shard int, version int64) {
	now := &w.store.stream
	doubtful := w.watch.failedOver > 0 && w.now < w.watch.failedOver+5*w.shape.Timings.Lease
	if doubtful || version != now.Version {
		// A group may have lost what it had adopted, or shards may have been given out
		// again. No record is lost by that, but old clients end with an error.
		return
	}
	for _, p := range w.clients {
		g, there := now.Group(p.group())
		if there && g.Phase == stream.GroupLive && slices.Contains(p.reads(), protocol.ShardIndex(shard)) {
			w.violate("shard %d is removed while %s reads it", shard, p.name())
		}
	}
}

// saved looks at every record of the stream that is saved.
func (b *books) saved(w *world, next *stream.State) {
	before := &b.last
	if next.Version < before.Version || next.Switched < before.Switched {
		w.violate("the stream's version goes from %d to %d, that of the routes from %d to %d", before.Version, next.Version, before.Switched, next.Switched)
	}
	layout := next.Layout()
	if told, there := b.told[next.Version]; there && (told.ShardCount != layout.ShardCount || told.ReadCount != layout.ReadCount || !slices.Equal(told.Closed, layout.Closed)) {
		w.violate("version %d of the stream stands for %d shards and %d read, and for %d and %d", next.Version, told.ShardCount, told.ReadCount, layout.ShardCount, layout.ReadCount)
	}
	b.told[next.Version] = layout
	for i := range next.ShardCount {
		if _, there := w.streams.keys[i]; !there && next.Provisioned {
			w.violate("a route points at a shard that does not exist: %d of %d", i, next.ShardCount)
		}
	}
	for _, g := range before.Groups {
		if _, there := next.Group(g.Name); !there {
			b.forgive(w, g.Name)
		}
	}
	if body, err := stream.Encode(next); err != nil {
		w.violate("the stream's record cannot be written: %v", err)
	} else if _, err := stream.Decode(body); err != nil {
		w.violate("what was saved of the stream cannot be read: %v", err)
	}
	b.last = *next
}

// forgive frees a group that was deleted from what it had to handle.
func (b *books) forgive(w *world, group string) {
	for _, r := range b.records {
		r.owed &^= w.bit(group)
	}
}

// finalStreams checks what must have become of the shards and the records.
func (w *world) finalStreams() {
	if w.streams == nil {
		return
	}
	s := &w.store.stream
	for _, r := range w.streams.books.records {
		if r.missed() {
			w.violate("not handled: record %s of shard %d, by groups %b; %s", idText(r.id), r.shard, r.owed&^r.handled, w.streams.situation())
			return
		}
	}
	read := s.Retired.Without(0, s.ReadCount)
	for _, i := range w.streams.find(0, s.HighestCount) {
		if !read.Contains(i) {
			w.violate("the key of removed shard %d is there again, of %d: %s", i, s.ReadCount, w.streams.situation())
		}
	}
	w.finalChange(s)
	for _, p := range w.streams.producers {
		if s.ShardCount > 0 && p.last < w.shape.Faulty+w.shape.Settle-(quiet+resumes) {
			w.violate("%s writes no more since %s, to %d shards", p.name, p.last, s.ShardCount)
		}
	}
}

// finalChange checks that nothing is under way, or says what it waits for: the
// records that a group of somebody else has not read.
func (w *world) finalChange(s *stream.State) {
	if _, open := s.Migrating(); !open && s.ReadCount == s.ShardCount {
		return
	}
	in := stream.Input{RoutesOver: s.Switched, Rules: w.rules}
	blocked := s.Blocked(in, w.streams.lookAt(slices.Collect(s.Removed().All())), nil)
	if len(blocked) == 0 {
		w.violate("a change is under way, and nothing is named that it waits for: %s", w.streams.situation())
	}
	for _, b := range blocked {
		if _, ours := s.Group(b.ConsumerGroup); ours || b.Kind != protocol.BlockedByBacklog {
			w.violate("a change waits without need: %s; %s", b.Reason, w.streams.situation())
		}
	}
	w.counts.Blocked++
}

// situation tells what the shards hold, for the trace of a failing seed.
func (s *streams) situation() string {
	record := &s.w.store.stream
	var b strings.Builder
	fmt.Fprintf(&b, "%d shards, %d read without %v, version %d;", record.ShardCount, record.ReadCount, record.Retired, record.Version)
	for _, g := range record.Groups {
		fmt.Fprintf(&b, " group %s %s at %d;", g.Name, g.Phase, g.Adopted)
	}
	for _, sh := range s.lookAt(s.find(0, record.HighestCount)) {
		fmt.Fprintf(&b, " shard %d: %d records", sh.Index, sh.Records)
		for _, c := range sh.Cursors {
			fmt.Fprintf(&b, ", %s %d pending %d unread", c.Group, c.Pending, c.Unread)
		}
		b.WriteString(";")
	}
	return b.String()
}
