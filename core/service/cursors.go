package service

import (
	"maps"
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
	// lastPage asks for the last page, tailPrefix and a number for one before it.
	lastPage   = "__rsc_last__"
	tailPrefix = "__rsc_tail__:"
)

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
func parseCursor(text string, shards []int) (cursor, error) {
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
		shard, id, both := strings.Cut(one, "=")
		n, err := strconv.ParseUint(shard, 10, 31)
		if _, ok := parseRecordID(id); !both || err != nil || !ok || n >= protocol.MaxShards {
			return badCursor(text)
		}
		c.after[int(n)] = id
	}
	return nil
}

func badCursor(text string) error {
	return protocol.ErrInvalidRequest.With("cursor: is %.60q, must be the nextCursor of the page before, or be left out", text)
}

// text writes positions as the cursor of the next page: an id alone for one shard.
func (p positions) text(single bool) string {
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
