package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// stranger is a consumer group of somebody else, which reads nothing.
const stranger = "stranger"

// beginStreams makes the Redis of the streams and those who write to it, where the
// shape has any.
func (w *world) beginStreams() {
	if w.shape.Producers == 0 {
		return
	}
	w.streams = &streams{w: w, keys: map[int]*shard{}, books: books{told: map[int64]stream.Layout{}, last: w.store.stream}}
	for i := range w.shape.Producers {
		w.streams.producers = append(w.streams.producers, w.newProducer(fmt.Sprintf("p%d", i+1)))
	}
}

// streamFaults draws what operators and applications do in the next round.
func (w *world) streamFaults() {
	if w.streams == nil {
		return
	}
	s, record := w.shape, &w.store.stream
	for _, p := range w.streams.producers {
		if w.perSecond(s.Deaf) {
			p.deafen(w.between(s.RoutingLease, s.RoutingLease*3/2))
		}
	}
	if w.perSecond(s.Scale) {
		w.scale(w.rng.IntN(maxCount + 1))
	}
	if m, open := record.Migrating(); open && w.perSecond(s.Rollback) {
		w.logf("an operator takes %s back, which is %s", m.ID, m.State)
		w.counts.Rollbacks++
		w.order(stream.Rollback{ID: m.ID})
	}
	if w.perSecond(s.Regroup) {
		w.regroup()
	}
	if removed := slices.Collect(record.Removed().All()); len(removed) > 0 && w.perSecond(s.GiveUp) {
		i := removed[w.rng.IntN(len(removed))]
		w.logf("an operator gives shard %d up", i)
		w.counts.GivenUp++
		w.order(stream.GiveUp{Shards: []int{i}})
	}
	if record.ReadCount > record.ShardCount && w.perSecond(s.Ignore) {
		w.ignore()
	}
	if sh := w.anyShard(); sh != nil {
		w.shardFaults(sh)
	}
}

// maxCount is the highest shard count that an operator asks for.
const maxCount = 6

func (w *world) scale(to int) {
	w.logf("an operator scales to %d shards", to)
	w.counts.Scales++
	w.order(stream.Scale{ID: w.id("m"), To: to})
}

func (w *world) order(cmd stream.Command) { w.coords[w.rng.IntN(len(w.coords))].order(cmd) }

// anyShard draws one of the keys that exist.
func (w *world) anyShard() *shard {
	there := w.streams.find(0, w.store.stream.HighestCount)
	if len(there) == 0 {
		return nil
	}
	return w.streams.keys[there[w.rng.IntN(len(there))]]
}

// shardFaults draws what is done to a shard past the coordinators.
func (w *world) shardFaults(sh *shard) {
	if w.perSecond(w.shape.Strangers) {
		w.logf("somebody else makes a consumer group on shard %d", sh.index)
		sh.create(stranger, 0)
	}
	if len(sh.cursors) > 0 && w.perSecond(w.shape.Rewind) {
		if c := sh.cursors[w.rng.IntN(len(sh.cursors))]; slices.Contains(w.groups, c.group) {
			w.logf("group %s of shard %d is set back to the beginning", c.group, sh.index)
			w.counts.Rewinds++
			sh.rewind(c)
			w.streams.books.rewound(w, c.group, sh.records)
		}
	}
	// Where groups begin at the end, one that was deleted comes back there.
	if len(sh.cursors) > 0 && !w.shape.FromLatest && w.perSecond(w.shape.Destroy) {
		gone := sh.cursors[w.rng.IntN(len(sh.cursors))]
		w.logf("somebody deletes consumer group %s on shard %d", gone.group, sh.index)
		w.counts.Destroyed++
		sh.destroy(gone.group)
	}
	if len(sh.records) > 1 && w.perSecond(w.shape.Delete) {
		from, to := 0, 1+w.rng.IntN(len(sh.records))
		if w.rng.IntN(2) == 0 {
			from = w.rng.IntN(to)
		}
		w.logf("records %d to %d of %d of shard %d are deleted", from, to, len(sh.records), sh.index)
		w.counts.Deletions++
		sh.drop(from, to)
	}
}

// regroup deletes a group, or creates one again that was deleted.
func (w *world) regroup() {
	name := w.groups[w.rng.IntN(len(w.groups))]
	g, there := w.store.stream.Group(name)
	switch {
	case !there:
		w.logf("an operator creates group %s", name)
		w.order(stream.EnsureGroup{Name: name})
	case g.Phase != stream.GroupCreating:
		force, data := w.rng.IntN(3) > 0, w.rng.IntN(2) == 0
		w.logf("an operator deletes group %s, force %v, data %v", name, force, data)
		w.watch.failedOver = w.now
		w.counts.GroupsDeleted++
		w.order(stream.DeleteGroup{Name: name, Force: force, DeleteData: data})
	}
}

// ignore has the groups of others ignored which a change waits for, and groups
// of before that were deleted.
func (w *world) ignore() {
	s := &w.store.stream
	for _, b := range s.Blocked(stream.Input{RoutesOver: s.Switched}, w.streams.lookAt(slices.Collect(s.Removed().All())), nil) {
		if _, ours := s.Group(b.ConsumerGroup); b.Kind == protocol.BlockedByBacklog && !ours {
			w.logf("an operator has group %s ignored", b.ConsumerGroup)
			w.counts.Ignored++
			w.order(stream.IgnoreGroup{Name: b.ConsumerGroup})
			return
		}
	}
}

// mendStreams brings the groups back that are missing when the faults are over, and has
// the operator look after what is blocked, in half of the seeds.
func (w *world) mendStreams() {
	if w.streams == nil {
		return
	}
	ignores := w.rng.IntN(2) == 0
	var look func()
	look = func() {
		w.settled = true
		for _, name := range w.groups {
			if _, there := w.store.stream.Group(name); !there {
				w.order(stream.EnsureGroup{Name: name})
			}
		}
		if ignores {
			w.ignore()
		}
		if w.now < w.shape.Faulty+w.shape.Settle-quiet {
			w.after(2*time.Second, look)
		}
	}
	w.after(0, look)
}

// shardsToRead is how many shards each group reads when all has settled.
func (w *world) shardsToRead() int {
	if w.streams == nil {
		return w.shape.Shards
	}
	s := &w.store.stream
	return s.ReadCount - s.Layout().Closed.Len()
}
