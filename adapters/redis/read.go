package redis

import (
	"cmp"
	"context"
	"fmt"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// ReadEntries implements port.Inspector. All ranges are read on side by side, in
// rounds, so that many shards take as few round trips as one.
func (s *Streams) ReadEntries(ctx context.Context, ranges []port.EntryRange) ([]port.EntryPage, error) {
	pages := make([]port.EntryPage, len(ranges))
	open := make([]*reading, len(ranges))
	for i := range ranges {
		open[i] = &reading{EntryRange: ranges[i], page: &pages[i], limit: cmp.Or(ranges[i].Bytes, pageBytes)}
	}
	for len(open) > 0 {
		spans := make([]command.Span, len(open))
		for i, r := range open {
			spans[i] = r.next()
		}
		found, err := s.cmd.Ranges(ctx, spans)
		if err != nil {
			return nil, fmt.Errorf("read entries: %w", err)
		}
		var left []*reading
		for i, r := range open {
			if !r.take(found[i]) {
				left = append(left, r)
			}
		}
		open = left
	}
	return pages, nil
}

// reading is a range that is being read.
type reading struct {
	port.EntryRange
	page *port.EntryPage
	// limit bounds bytes, the size of what was read.
	limit, bytes int
	// asked is the number of entries of the last round.
	asked int
}

// next asks for the next round: few entries at first, since nobody knows how large
// they are, and one more than is wanted, to know whether there is more.
func (r *reading) next() command.Span {
	if r.Only != "" {
		r.asked = 2 // there is at most one, so the range ends with it
		return command.Span{Key: r.Key, From: r.Only, To: r.Only, Count: r.asked}
	}
	got := len(r.page.Entries)
	r.asked = firstPageEntries
	if got > 0 {
		r.asked = max(1, got*(r.limit-r.bytes)/max(r.bytes, 1))
	}
	r.asked = min(r.asked, r.Count+1-got, maxPageEntries)
	span := command.Span{Key: r.Key, From: "-", To: "+", Count: r.asked, Reverse: r.Backward}
	after := r.After
	if got > 0 {
		after = r.page.Entries[got-1].ID
	}
	switch {
	case after == "":
	case r.Backward:
		span.To = "(" + after
	default:
		span.From = "(" + after
	}
	return span
}

// take adds what a round has brought; it reports whether the page is done.
func (r *reading) take(found []command.Entry) bool {
	for _, e := range found {
		if len(r.page.Entries) == r.Count {
			r.page.More = true
			return true
		}
		r.page.Entries = append(r.page.Entries, port.Entry{ID: e.ID, Fields: e.Fields})
		r.bytes += e.Size()
	}
	if len(found) < r.asked {
		return true
	}
	// Whether it goes on behind a page that is full of bytes shows with the next one.
	r.page.More = r.bytes >= r.limit
	return r.page.More
}
