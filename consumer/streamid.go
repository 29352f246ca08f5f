package consumer

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// streamID is the id of a record, in a form that can be compared.
type streamID struct{ ms, seq uint64 }

// parseID reads "ms-seq"; the zero id stands for what it cannot read.
func parseID(s string) streamID {
	ms, seq, _ := strings.Cut(s, "-")
	var id streamID
	var err error
	if id.ms, err = strconv.ParseUint(ms, 10, 64); err != nil {
		return streamID{}
	}
	// An id without a sequence number has number 0.
	id.seq, _ = strconv.ParseUint(seq, 10, 64)
	return id
}

func (a streamID) less(b streamID) bool {
	return a.ms < b.ms || (a.ms == b.ms && a.seq < b.seq)
}

// compare orders ids as slices.SortFunc wants it.
func (a streamID) compare(b streamID) int {
	return cmp.Or(cmp.Compare(a.ms, b.ms), cmp.Compare(a.seq, b.seq))
}

// prev is the greatest id below a, and a itself if there is none.
func (a streamID) prev() streamID {
	switch {
	case a.seq > 0:
		return streamID{a.ms, a.seq - 1}
	case a.ms > 0:
		return streamID{a.ms - 1, math.MaxUint64}
	}
	return a
}

// next is the least id above a, and a itself if there is none.
func (a streamID) next() streamID {
	switch {
	case a.seq < math.MaxUint64:
		return streamID{a.ms, a.seq + 1}
	case a.ms < math.MaxUint64:
		return streamID{a.ms + 1, 0}
	}
	return a
}

func (a streamID) String() string {
	return strconv.FormatUint(a.ms, 10) + "-" + strconv.FormatUint(a.seq, 10)
}
