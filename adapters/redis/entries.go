package redis

import (
	"cmp"
	"context"
	"fmt"
	"iter"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
)

// Entries are read in pages that begin small and then are as large as pageBytes
// allows, since nobody knows before how large an entry is.
const (
	firstPageEntries = 16
	maxPageEntries   = 1000
	pageBytes        = 1 << 20
)

// Field is one field of an entry. Both may hold any bytes.
type Field struct {
	Name, Value string
}

// Entry is one entry of a stream, its fields in the order they were written; a
// name may occur more than once.
type Entry struct {
	ID     string
	Fields []Field
}

func entryOf(e command.Entry) Entry {
	fields := make([]Field, len(e.Fields)/2)
	for i := range fields {
		fields[i] = Field{e.Fields[2*i], e.Fields[2*i+1]}
	}
	return Entry{ID: e.ID, Fields: fields}
}

// Entries reads the entries of the stream under key whose ids are above after and
// not above last, in order, a page at a time; empty ids are no bounds. A key that
// does not exist has none. It ends with the first error.
func (s *Streams) Entries(ctx context.Context, key, after, last string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		pages := pager{cmd: s.cmd, key: key, from: above(after), to: cmp.Or(last, "+")}
		for {
			page, end, err := pages.next(ctx, maxPageEntries)
			if err != nil {
				yield(Entry{}, fmt.Errorf("read %s: %w", key, err))
				return
			}
			for _, e := range page {
				if !yield(entryOf(e), nil) {
					return
				}
			}
			if end {
				return
			}
		}
	}
}

// Entry returns the entry with an id; found is false when there is none.
func (s *Streams) Entry(ctx context.Context, key, id string) (e Entry, found bool, err error) {
	if _, ok := parseStreamID(id); !ok {
		return Entry{}, false, fmt.Errorf("%.40q is no id of an entry: it must be like 1700000000000-0", id)
	}
	ranges, err := s.cmd.Ranges(ctx, []command.Span{{Key: key, From: id, To: id, Count: 1}})
	if err != nil {
		return Entry{}, false, fmt.Errorf("read %s: %w", key, err)
	}
	if len(ranges[0]) == 0 {
		return Entry{}, false, nil
	}
	return entryOf(ranges[0][0]), true, nil
}

// Delete removes entries from the stream under key and returns how many of them
// were there. It may be repeated; after a failover the number may miss some.
func (s *Streams) Delete(ctx context.Context, key string, ids ...string) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	n, err := s.cmd.Delete(ctx, key, ids)
	if err != nil {
		return 0, fmt.Errorf("remove entries from %s: %w", key, err)
	}
	return n, nil
}

// above is the id from which a range begins that leaves after out.
func above(after string) string {
	if after == "" {
		return "-"
	}
	return "(" + after
}

// pager reads a range in pages.
type pager struct {
	cmd           *command.Streams
	key, from, to string
	// size is the number of entries of the next page, 0 before the first.
	size int
}

// next returns a page of at most so many entries, and whether it is the last.
func (p *pager) next(ctx context.Context, most int) (page []command.Entry, last bool, err error) {
	if p.size == 0 {
		p.size = firstPageEntries
	}
	count := min(p.size, most)
	ranges, err := p.cmd.Ranges(ctx, []command.Span{{Key: p.key, From: p.from, To: p.to, Count: count}})
	if err != nil {
		return nil, false, err
	}
	page = ranges[0]
	if len(page) < count {
		return page, true, nil
	}
	p.turn(page)
	return page, false, nil
}

// turn goes on behind a page.
func (p *pager) turn(page []command.Entry) {
	bytes := 0
	for _, e := range page {
		bytes += e.Size()
	}
	p.from = above(page[len(page)-1].ID)
	p.size = min(max(1, len(page)*pageBytes/max(bytes, 1)), maxPageEntries)
}
