package service

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The cursors of pages over several shards, and of pages that are counted from the
// end.
const (
	// manyPrefix begins the positions of several shards: all:0=17-0,2=18-1.
	manyPrefix = "all:"
	// lastPrefix begins the last record of a page over so many shards that their
	// positions would not fit a URL: at:2=18-1. Records are in the order of id and shard,
	// so it says where each shard is read on.
	lastPrefix = "at:"
	// lastPage asks for the last page, tailPrefix and a number for one before it.
	lastPage   = "__rsc_last__"
	tailPrefix = "__rsc_tail__:"
)

// maxPositions bounds the positions of a cursor: more do not fit the line of a request.
const maxPositions = 500

// recordID is the id of a record: milliseconds and a number.
type recordID struct{ ms, seq uint64 }

// parseRecordID reads an id; the number may be missing.
func parseRecordID(text string) (id recordID, ok bool) {
	ms, seq, both := strings.Cut(text, "-")
	var err error
	if id.ms, err = strconv.ParseUint(ms, 10, 64); err != nil {
		return recordID{}, false
	}
	if both {
		if id.seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
			return recordID{}, false
		}
	}
	return id, true
}

func (a recordID) String() string {
	return strconv.FormatUint(a.ms, 10) + "-" + strconv.FormatUint(a.seq, 10)
}

// next is the lowest id above a, before the highest below it; at the ends of all ids
// they are a itself.
func (a recordID) next() recordID {
	switch {
	case a.seq < math.MaxUint64:
		return recordID{a.ms, a.seq + 1}
	case a.ms < math.MaxUint64:
		return recordID{a.ms + 1, 0}
	}
	return a
}

func (a recordID) before() recordID {
	switch {
	case a.seq > 0:
		return recordID{a.ms, a.seq - 1}
	case a.ms > 0:
		return recordID{a.ms - 1, math.MaxUint64}
	}
	return a
}

func (a recordID) less(b recordID) bool {
	return a.ms < b.ms || a.ms == b.ms && a.seq < b.seq
}

// positions say behind which record each shard is read on; a shard that is not
// there is read from its end.
type positions map[int]string

// cursor is what a caller's cursor asks for.
type cursor struct {
	after positions
	// tail is how many pages before the last one, -1 for a page by positions.
	tail int
}

// parseCursor reads the cursor of a page over shards.
// Errors: protocol.ErrInvalidRequest.
func parseCursor(text string, shards []int, backward bool) (cursor, error) {
	c := cursor{after: positions{}, tail: -1}
	tail, counted := strings.CutPrefix(text, tailPrefix)
	switch {
	case text == "":
	case text == lastPage:
		c.tail = 0
	case counted:
		n, err := strconv.ParseUint(tail, 10, 31)
		if err != nil {
			return cursor{}, badCursor(text)
		}
		c.tail = int(n)
	case strings.HasPrefix(text, manyPrefix):
		err := c.readMany(text)
		return c, err
	case strings.HasPrefix(text, lastPrefix):
		err := c.readLast(text, shards, backward)
		return c, err
	default:
		if _, ok := parseRecordID(text); !ok || len(shards) != 1 {
			return cursor{}, badCursor(text)
		}
		c.after[shards[0]] = text
	}
	return c, nil
}

func (c *cursor) readMany(text string) error {
	for one := range strings.SplitSeq(strings.TrimPrefix(text, manyPrefix), ",") {
		shard, id, ok := readPosition(one)
		if !ok {
			return badCursor(text)
		}
		c.after[shard] = id.String()
	}
	return nil
}

func readPosition(text string) (shard int, id recordID, ok bool) {
	index, position, both := strings.Cut(text, "=")
	n, err := strconv.ParseUint(index, 10, 31)
	if err != nil || !both || n >= protocol.MaxShards {
		return 0, recordID{}, false
	}
	id, ok = parseRecordID(position)
	return int(n), id, ok
}

// readLast sets the positions behind a record: a shard after that of the record may
// have one with the same id still.
func (c *cursor) readLast(text string, shards []int, backward bool) error {
	last, id, ok := readPosition(strings.TrimPrefix(text, lastPrefix))
	if !ok {
		return badCursor(text)
	}
	same := id.before()
	if backward {
		same = id.next()
	}
	for _, shard := range shards {
		c.after[shard] = id.String()
		if shard > last {
			c.after[shard] = same.String()
		}
	}
	return nil
}

func badCursor(text string) error {
	return protocol.ErrInvalidRequest.With("cursor: is %.60q, must be the nextCursor of the page before, or be left out", text)
}

// text writes positions as the cursor of the page behind a record: an id alone for one
// shard.
func (p positions) text(single bool, last found) string {
	if len(p) > maxPositions {
		return lastPrefix + strconv.Itoa(last.shard) + "=" + last.entry.ID
	}
	var b strings.Builder
	for i, shard := range slices.Sorted(maps.Keys(p)) {
		if single {
			return p[shard]
		}
		if i == 0 {
			b.WriteString(manyPrefix)
		} else {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(shard) + "=" + p[shard])
	}
	return b.String()
}
