package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

const (
	// defaultMessages is the number of records on a page.
	defaultMessages = 25
	// maxPageBytes bounds what is read for a page, but for the last record of each
	// shard, which may be of any size: a page then has fewer records.
	maxPageBytes = 8 << 20
	// minShardBytes is what is read of a shard at least, however many there are.
	minShardBytes = 16 << 10
	// maxTailRecords bounds the records that are passed over on the way to a page that
	// is counted from the end.
	maxTailRecords = 10_000
	// maxRecordMs is the last time that a record's id can stand for: later ones have
	// more than four digits in the year.
	maxRecordMs = 253402300799999
)

// Messages reads a page of records of one or several shards, in the order of their
// ids. A page over several shards is merged and goes on until each of them has
// ended.
// Errors: protocol.ErrGroupNotFound, ErrInvalidRequest, ErrRedisNotConfigured,
// ErrRedisUnavailable.
func (c *Coordinator) Messages(ctx context.Context, prefix, name string, q protocol.MessageQuery) (protocol.Messages, error) {
	key := port.GroupKey{Stream: prefix, Group: name}
	state, err := c.groupState(ctx, key)
	if err != nil {
		return protocol.Messages{}, err
	}
	if c.ports.Inspector == nil {
		return protocol.Messages{}, protocol.ErrRedisNotConfigured
	}
	ctx, done := context.WithTimeoutCause(ctx, c.cfg.CallTimeout, errors.New("no answer in time"))
	defer done()
	b := browsing{c: c, key: key, backward: q.Direction != protocol.Forward, limit: min(max(q.Limit, 1), protocol.MaxMessages)}
	if q.Limit == 0 {
		b.limit = defaultMessages
	}
	if b.shards, err = chosen(&q, state); err != nil {
		return protocol.Messages{}, err
	}
	m, err := b.read(ctx, &q)
	if told := (*protocol.Error)(nil); err != nil && !errors.As(err, &told) {
		c.noteLook(key, err)
		err = fmt.Errorf("read records of %s: %w (%w)", key, protocol.ErrRedisUnavailable, err)
	}
	return m, err
}

// chosen returns the shards that a query asks for.
func chosen(q *protocol.MessageQuery, state *group.State) ([]int, error) {
	if q.Direction != protocol.Forward && q.Direction != protocol.Backward {
		return nil, protocol.ErrInvalidRequest.With("direction: is %.40q, must be FORWARD or BACKWARD", string(q.Direction))
	}
	if _, ok := parseRecordID(q.RecordID); q.RecordID != "" && !ok {
		return nil, protocol.ErrInvalidRequest.With("recordId: is %.60q, must be like 1700000000000-0", q.RecordID)
	}
	read := readShards(state)
	if q.All || q.RecordID != "" {
		return read, nil
	}
	var shards []int
	for _, s := range q.Shards {
		if _, there := slices.BinarySearch(read, int(s)); !there {
			return nil, protocol.ErrInvalidRequest.With("shardIndex: is %d, the group reads no such shard: it has %d, from 0", s, len(read))
		}
		shards = append(shards, int(s))
	}
	return shards, nil
}

// browsing is one reading of records.
type browsing struct {
	c        *Coordinator
	key      port.GroupKey
	shards   []int
	backward bool
	limit    int
}

func (b *browsing) read(ctx context.Context, q *protocol.MessageQuery) (protocol.Messages, error) {
	out := protocol.Messages{Records: []protocol.MessageRecord{}, Limit: b.limit}
	at, err := parseCursor(q.Cursor, b.shards, b.backward)
	if q.RecordID != "" {
		at, err = cursor{tail: -1}, nil
	}
	if err != nil || len(b.shards) == 0 {
		return out, err
	}
	if q.Count || at.tail >= 0 {
		if out.Total, err = b.count(ctx); err != nil {
			return out, err
		}
	}
	switch {
	case q.RecordID != "":
		out.Records, err = b.withID(ctx, q.RecordID)
	case at.tail >= 0:
		err = b.tail(ctx, at.tail, &out)
	default:
		var page []found
		var more bool
		if page, at.after, more, err = b.page(ctx, b.backward, at.after, b.limit); err == nil {
			out.Records = b.records(page)
			if more {
				out.NextCursor = at.after.text(len(b.shards) == 1, page[len(page)-1])
			}
		}
	}
	return out, err
}

// count sums the records of the shards up.
func (b *browsing) count(ctx context.Context) (int64, error) {
	keys := make([]string, len(b.shards))
	for i, shard := range b.shards {
		keys[i] = routing.StreamKey(b.key.Stream, shard)
	}
	states, err := b.c.ports.Inspector.InspectShards(ctx, port.ShardQuery{Keys: keys, Group: b.key.Group})
	if err != nil {
		return 0, err
	}
	var total int64
	for i := range states {
		if states[i].Err != nil {
			return 0, states[i].Err
		}
		total += states[i].Length
	}
	return total, nil
}

// withID finds the records with an id, which several shards may have.
func (b *browsing) withID(ctx context.Context, id string) ([]protocol.MessageRecord, error) {
	ranges := make([]port.EntryRange, len(b.shards))
	for i, shard := range b.shards {
		ranges[i] = port.EntryRange{Key: routing.StreamKey(b.key.Stream, shard), Only: id, Count: 1}
	}
	pages, err := b.c.ports.Inspector.ReadEntries(ctx, ranges)
	if err != nil {
		return nil, err
	}
	records := []protocol.MessageRecord{}
	for i, p := range pages {
		for _, e := range p.Entries {
			records = append(records, b.record(b.shards[i], e))
		}
	}
	return records, nil
}

// found is an entry and the shard that it is of.
type found struct {
	shard int
	id    recordID
	entry port.Entry
}

// part is what was read of one shard and not used yet.
type part struct {
	shard   int
	entries []port.Entry
	ids     []recordID
	more    bool
	// after is the last entry that was read.
	after string
}

// page merges the next limit entries of the shards. It returns the positions behind
// them, and whether anything follows.
func (b *browsing) page(ctx context.Context, backward bool, after positions, limit int) (out []found, next positions, more bool, err error) {
	next = positions{}
	parts := make([]*part, len(b.shards))
	for i, shard := range b.shards {
		parts[i] = &part{shard: shard, after: after[shard]}
		if parts[i].after != "" {
			next[shard] = parts[i].after
		}
	}
	// Most pages over many shards need a few records of each.
	chunk := min(limit, 2*limit/len(parts)+8) + 1
	if err := b.fill(ctx, backward, parts, chunk); err != nil {
		return nil, nil, false, err
	}
	bytes := 0
	for len(out) < limit && (bytes < maxPageBytes || len(out) == 0) {
		first := b.first(parts, backward)
		if first == nil {
			return out, next, false, nil
		}
		e := first.entries[0]
		out = append(out, found{first.shard, first.ids[0], e})
		next[first.shard] = e.ID
		bytes += e.Size()
		first.entries, first.ids = first.entries[1:], first.ids[1:]
		if len(first.entries) == 0 && first.more && len(out) < limit {
			if err := b.fill(ctx, backward, []*part{first}, min(chunk, limit-len(out)+1)); err != nil {
				return nil, nil, false, err
			}
		}
	}
	more = slices.ContainsFunc(parts, func(p *part) bool { return len(p.entries) > 0 || p.more })
	return out, next, more, nil
}

// fill reads on in each of the parts.
func (b *browsing) fill(ctx context.Context, backward bool, parts []*part, count int) error {
	ranges := make([]port.EntryRange, len(parts))
	for i, p := range parts {
		ranges[i] = port.EntryRange{
			Key: routing.StreamKey(b.key.Stream, p.shard), Backward: backward, After: p.after, Count: count,
			Bytes: max(minShardBytes, maxPageBytes/len(b.shards)),
		}
	}
	pages, err := b.c.ports.Inspector.ReadEntries(ctx, ranges)
	if err != nil {
		return err
	}
	for i, p := range parts {
		p.entries, p.more = pages[i].Entries, pages[i].More
		p.ids = make([]recordID, len(p.entries))
		for j, e := range p.entries {
			p.ids[j], _ = parseRecordID(e.ID) // an id of Redis is one
			p.after = e.ID
		}
	}
	return nil
}

// first finds the part whose entry comes next, the lowest shard among equals.
func (b *browsing) first(parts []*part, backward bool) *part {
	var best *part
	for _, p := range parts {
		switch {
		case len(p.entries) == 0:
		case best == nil, backward && best.ids[0].less(p.ids[0]), !backward && p.ids[0].less(best.ids[0]):
			best = p
		}
	}
	return best
}

// tail reads the page that lies so many pages before the last one, by going to it
// from the other end.
func (b *browsing) tail(ctx context.Context, pages int, out *protocol.Messages) error {
	if out.Total == 0 {
		return nil
	}
	limit := int64(b.limit)
	last := (out.Total-1)%limit + 1 // how many the last page has
	n := min(int64(pages), (out.Total-1)/limit)
	skip, size := int64(0), last
	if n > 0 {
		skip, size = last+(n-1)*limit, limit
	}
	if skip > maxTailRecords {
		return protocol.ErrInvalidRequest.With("cursor: lies %d records before the end, at most %d are gone through: page from the beginning", skip, maxTailRecords)
	}
	var after positions
	for skip > 0 {
		passed, next, more, err := b.page(ctx, !b.backward, after, int(min(skip, protocol.MaxMessages)))
		if err != nil || len(passed) == 0 || !more {
			return err
		}
		skip -= int64(len(passed))
		after = next
	}
	page, _, _, err := b.page(ctx, !b.backward, after, int(size))
	if err != nil {
		return err
	}
	slices.Reverse(page)
	out.Records = b.records(page)
	if n > 0 {
		out.NextCursor = fmt.Sprintf("%s%d", tailPrefix, n-1)
	}
	return nil
}

func (b *browsing) records(page []found) []protocol.MessageRecord {
	records := make([]protocol.MessageRecord, len(page))
	for i, f := range page {
		records[i] = b.record(f.shard, f.entry)
	}
	return records
}

func (b *browsing) record(shard int, e port.Entry) protocol.MessageRecord {
	r := protocol.MessageRecord{
		StreamPrefix: b.key.Stream, ConsumerGroup: b.key.Group, Shard: protocol.ShardID{ShardIndex: protocol.ShardIndex(shard)},
		StreamKey: routing.StreamKey(b.key.Stream, shard), RecordID: e.ID, Fields: make(map[string]string, len(e.Fields)/2),
	}
	for i := 0; i+1 < len(e.Fields); i += 2 {
		r.Fields[strings.ToValidUTF8(e.Fields[i], "\uFFFD")] = strings.ToValidUTF8(e.Fields[i+1], "\uFFFD")
	}
	if payload, there := r.Fields["payload"]; there {
		r.Payload = &payload
	}
	if id, ok := parseRecordID(e.ID); ok && id.ms <= maxRecordMs {
		ms, at := int64(id.ms), time.UnixMilli(int64(id.ms)).UTC()
		r.RecordTimestampMs, r.RecordTime = &ms, &at
	}
	return r
}
