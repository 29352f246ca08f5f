package telemetry

import (
	"strconv"
	"strings"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

var (
	shardLag        = gauge("shard_lag", "Records that were not handed out yet.")
	lagKnown        = gauge("shard_lag_known", "1 when the lag of the shard is known.")
	shardPending    = gauge("shard_pending", "Records handed out and not acknowledged.")
	oldestAge       = gauge("shard_oldest_undelivered_age_seconds", "Age of the oldest record that was not handed out.")
	ownerless       = gauge("shard_without_owner_seconds", "How long nobody has been allowed to read the shard.")
	streamLength    = gauge("shard_stream_length", "Entries in the stream.")
	entriesAdded    = counter("shard_entries_added_total", "Entries ever added to the stream.")
	memoryUsage     = gauge("shard_memory_usage_bytes", "Memory that the key takes in Redis.")
	lastRecordMs    = gauge("shard_last_record_ms", "First half of the id of the last entry.")
	lastRecordSeq   = gauge("shard_last_record_seq", "Second half of the id of the last entry.")
	generatedMs     = gauge("shard_last_generated_ms", "First half of the highest id ever given.")
	generatedSeq    = gauge("shard_last_generated_seq", "Second half of the highest id ever given.")
	groupAtMs       = gauge("shard_group_last_delivered_ms", "First half of the id that the group was last handed.")
	groupAtSeq      = gauge("shard_group_last_delivered_seq", "Second half of the id that the group was last handed.")
	ackedHighestMs  = gauge("shard_consumer_last_acked_ms", "First half of the highest id that a member says it acknowledged.")
	ackedHighestSeq = gauge("shard_consumer_last_acked_seq", "Second half of the highest id that a member says it acknowledged.")
	groupLag        = gauge("group_lag", "Records that were not handed out yet, over all shards.")
	groupLagKnown   = gauge("group_lag_known", "1 when the lag of every shard is known.")
	groupPending    = gauge("group_pending", "Records handed out and not acknowledged, over all shards.")
)

// shards makes the series of a group's shards, and their sums.
func (c *collector) shards(s *sink, w *World, look *service.GroupLook, found *groupReading, stats *groupStats) {
	state := look.View.State
	prefix, name := look.Key.Stream, look.Key.Group
	clocks, now := stats.clocks(), c.t.now()
	acked := highestAcked(state, found)
	sum := lagSum{known: true}
	for shard := range state.Target {
		if !isRead(state, shard) {
			continue
		}
		key := routing.StreamKey(prefix, shard)
		of := c.base.with("stream", prefix, "group", name, "shard", strconv.Itoa(shard), "stream_key", key)
		if shard < len(clocks) && clocks[shard].free != 0 && state.Ledger.Holder[shard] == group.None {
			s.put(ownerless, of, (now - clocks[shard].free).Seconds())
		}
		if w.Streams == nil {
			continue
		}
		c.shard(s, of, found.shard(shard), &sum)
		s.put(ackedHighestMs, of, acked[shard].ms)
		s.put(ackedHighestSeq, of, acked[shard].seq)
	}
	if w.Streams == nil {
		return
	}
	all := c.base.with("stream", prefix, "group", name)
	s.put(groupLagKnown, all, number(sum.known))
	if sum.known {
		s.put(groupLag, all, float64(sum.lag))
	}
	if !sum.unseen {
		s.put(groupPending, all, float64(sum.pending))
	}
}

// lagSum adds up what the shards of a group have.
type lagSum struct {
	lag, pending int64
	// known is false once the lag of a shard is not known, unseen true once a shard could
	// not be looked at.
	known, unseen bool
}

// shard makes the series of what Redis says of one shard.
func (c *collector) shard(s *sink, of labels, st *port.ShardState, sum *lagSum) {
	lag, known := int64(0), false
	if st != nil && st.Err == nil && st.Exists && st.Group != nil {
		lag, known = lagOf(st.Group)
	}
	s.put(lagKnown, of, number(known))
	sum.known = sum.known && known
	if known {
		s.put(shardLag, of, float64(lag))
		sum.lag += lag
	}
	if st == nil || st.Err != nil {
		sum.unseen = true
		return
	}
	if !st.Exists {
		return
	}
	c.position(s, of, st.Group, sum)
	s.put(streamLength, of, float64(st.Length))
	if st.Added != port.Unknown {
		s.put(entriesAdded, of, float64(st.Added))
	}
	if st.MemoryBytes != port.Unknown {
		s.put(memoryUsage, of, float64(st.MemoryBytes))
	}
	last, generated := parseID(st.LastID), parseID(st.LastGeneratedID)
	s.put(lastRecordMs, of, last.ms)
	s.put(lastRecordSeq, of, last.seq)
	s.put(generatedMs, of, generated.ms)
	s.put(generatedSeq, of, generated.seq)
}

// position makes the series of how far the group has come in one shard.
func (c *collector) position(s *sink, of labels, g *port.GroupPosition, sum *lagSum) {
	at := noID
	if g != nil {
		at = parseID(g.LastDeliveredID)
		s.put(shardPending, of, float64(g.Pending))
		s.put(oldestAge, of, g.OldestAge.Seconds())
		sum.pending += g.Pending
	}
	s.put(groupAtMs, of, at.ms)
	s.put(groupAtSeq, of, at.seq)
}

// lagOf is what the group was not handed: counted where that was cheap, else what Redis
// believes, which counts what was trimmed unread as well.
func lagOf(g *port.GroupPosition) (lag int64, known bool) {
	if g.Exact {
		return g.Undelivered, true
	}
	return g.Estimate, g.Estimate > g.Undelivered
}

// highestAcked is, for each shard, the highest id that a member says it acknowledged.
func highestAcked(state *group.State, found *groupReading) []entryID {
	acked := make([]entryID, len(state.Target))
	for i := range acked {
		acked[i] = noID
	}
	for _, r := range found.reportsOf() {
		for i := range r.Progress {
			p := &r.Progress[i]
			if id := parseID(p.LastAckedID); p.Shard >= 0 && int(p.Shard) < len(acked) && acked[p.Shard].less(id) {
				acked[p.Shard] = id
			}
		}
	}
	return acked
}

// clocks returns a copy of the clocks of the shards.
func (g *groupStats) clocks() []shardClock {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]shardClock(nil), g.shards...)
}

// entryID is the id of an entry in the numbers of a series.
type entryID struct{ ms, seq float64 }

// noID stands for no id.
var noID = entryID{-1, -1}

// parseID reads an id; noID is what is none.
func parseID(text string) entryID {
	first, second, both := strings.Cut(text, "-")
	ms, err := strconv.ParseUint(first, 10, 64)
	if err != nil {
		return noID
	}
	id := entryID{ms: float64(ms)}
	if both {
		seq, err := strconv.ParseUint(second, 10, 64)
		if err != nil {
			return noID
		}
		id.seq = float64(seq)
	}
	return id
}

func (a entryID) less(b entryID) bool { return a.ms < b.ms || a.ms == b.ms && a.seq < b.seq }
