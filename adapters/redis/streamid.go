package redis

import (
	"strconv"
	"strings"
	"time"
)

// streamID is the id of an entry: milliseconds and a number.
type streamID struct{ ms, seq uint64 }

// parseStreamID reads an id; a missing number is 0.
func parseStreamID(text string) (id streamID, ok bool) {
	ms, seq, both := strings.Cut(text, "-")
	var err error
	if id.ms, err = strconv.ParseUint(ms, 10, 64); err != nil {
		return streamID{}, false
	}
	if both {
		if id.seq, err = strconv.ParseUint(seq, 10, 64); err != nil {
			return streamID{}, false
		}
	}
	return id, true
}

func (a streamID) less(b streamID) bool {
	return a.ms < b.ms || a.ms == b.ms && a.seq < b.seq
}

// age is the time from the id to now, never negative.
func (a streamID) age(now time.Time) time.Duration {
	ms := now.UnixMilli()
	if ms < 0 || a.ms >= uint64(ms) {
		return 0
	}
	return time.Duration(uint64(ms)-a.ms) * time.Millisecond
}
