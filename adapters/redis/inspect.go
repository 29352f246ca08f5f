package redis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
)

// maxCountedBytes bounds what is read of one stream to count its entries.
const maxCountedBytes = 16 << 20

// StreamState is what the stream under one key holds, at about one moment.
type StreamState struct {
	Key string
	// Exists is false where there is no such key; nothing else is set then.
	Exists bool
	// Length is the number of entries.
	Length int64
	// LastGeneratedID is the highest id that an entry ever had here.
	LastGeneratedID string
	Groups          []GroupState
}

// GroupState is how far one consumer group has come in a stream.
type GroupState struct {
	Name string
	// Consumers and Pending count its consumers, and the entries that were handed
	// to them and not acknowledged.
	Consumers, Pending int64
	// LastDeliveredID is the id up to which entries were handed out.
	LastDeliveredID string
	// Undelivered are the entries that were not handed out yet.
	Undelivered Count
	// OldestUndeliveredID is the first of them, empty without any, and
	// OldestUndeliveredAge the time since its id was made by the server's clock,
	// which means nothing for ids that were not made from a time.
	OldestUndeliveredID  string
	OldestUndeliveredAge time.Duration
}

// Count is a number that is right, or a lower bound: there are at least so many.
type Count struct {
	Entries int64
	Exact   bool
}

// Inspect looks at the streams under keys and returns their states in the same
// order. What a group has not been given is counted, where the ends of the stream
// do not tell, up to countUpTo entries from either end and a few MiB: what is
// beyond is a lower bound. The server's own field lag is not used: it is null
// after a deletion and wrong after a trim that overtook a group.
// Errors: a key that holds something else, with its name, and what Redis says.
func (s *Streams) Inspect(ctx context.Context, keys []string, countUpTo int) ([]StreamState, error) {
	infos, err := s.cmd.Inspect(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("inspect streams: %w", err)
	}
	states := make([]StreamState, len(keys))
	var open []*counting
	for i, info := range infos {
		states[i] = StreamState{
			Key: keys[i], Exists: info.Exists, Length: info.Length, LastGeneratedID: info.LastGeneratedID,
			Groups: make([]GroupState, len(info.Groups)),
		}
		for j, g := range info.Groups {
			state := &states[i].Groups[j]
			*state = GroupState{Name: g.Name, Consumers: g.Consumers, Pending: g.Pending, LastDeliveredID: g.LastDeliveredID}
			if c := (&counting{cmd: s.cmd, key: keys[i], info: &infos[i], state: state}); !c.byPosition() {
				open = append(open, c)
			}
		}
	}
	if err := s.count(ctx, open, countUpTo); err != nil {
		return nil, fmt.Errorf("inspect streams: count entries: %w", err)
	}
	return states, nil
}

// count counts where positions do not tell, the first page of all at once.
func (s *Streams) count(ctx context.Context, open []*counting, limit int) error {
	first := max(1, min(limit+1, firstPageEntries))
	spans := make([]command.Span, len(open))
	for i, c := range open {
		spans[i] = command.Span{Key: c.key, From: above(c.state.LastDeliveredID), To: "+", Count: first}
	}
	pages, err := s.cmd.Ranges(ctx, spans)
	if err != nil {
		return err
	}
	for i, c := range open {
		if err := c.run(ctx, pages[i], first, limit); err != nil {
			return err
		}
	}
	return nil
}

// counting finds out how many entries a group has not been given.
type counting struct {
	cmd   *command.Streams
	key   string
	info  *command.StreamInfo
	state *GroupState
}

// settle notes the result and the oldest of the entries.
func (c *counting) settle(n int64, exact bool, oldest string) {
	c.state.Undelivered = Count{Entries: n, Exact: exact}
	c.state.OldestUndeliveredID = oldest
	if id, ok := parseStreamID(oldest); ok {
		c.state.OldestUndeliveredAge = id.age(c.info.At)
	}
}

// byPosition answers where the position alone tells: at the end of the stream,
// or before its first entry.
func (c *counting) byPosition() bool {
	if c.info.Length == 0 {
		c.settle(0, true, "")
		return true
	}
	at, ok := parseStreamID(c.state.LastDeliveredID)
	if !ok {
		return false
	}
	if last, ok := parseStreamID(c.info.LastID); ok && !at.less(last) {
		c.settle(0, true, "")
		return true
	}
	if first, ok := parseStreamID(c.info.FirstID); ok && at.less(first) {
		c.settle(c.info.Length, true, c.info.FirstID)
		return true
	}
	return false
}

// run counts on from the first page behind the group's position, which was asked
// to have so many entries; and where that takes too long, the entries before it.
func (c *counting) run(ctx context.Context, page []command.Entry, asked, limit int) error {
	if len(page) == 0 {
		c.settle(0, true, "")
		return nil
	}
	oldest := page[0].ID
	n, exact := int64(len(page)), len(page) < asked
	if !exact {
		after := &pager{cmd: c.cmd, key: c.key, to: "+"}
		after.turn(page)
		more, all, err := c.tally(ctx, after, limit-len(page))
		if err != nil {
			return err
		}
		n, exact = n+more, all
	}
	if !exact {
		before := &pager{cmd: c.cmd, key: c.key, from: "-", to: c.state.LastDeliveredID}
		seen, all, err := c.tally(ctx, before, limit)
		if err != nil {
			return err
		}
		if all {
			stable, err := c.unchanged(ctx)
			if err != nil {
				return err
			}
			if stable {
				n, exact = c.info.Length-seen, true
			}
		}
	}
	c.settle(n, exact, oldest)
	return nil
}

// tally counts what a pager gives, up to limit; all tells that this was all.
func (c *counting) tally(ctx context.Context, p *pager, limit int) (n int64, all bool, err error) {
	for bytes := 0; n < int64(limit) && bytes < maxCountedBytes; {
		page, last, err := p.next(ctx, min(limit-int(n), maxPageEntries)+1)
		if err != nil {
			return 0, false, err
		}
		for _, e := range page {
			bytes += e.Size()
		}
		n += int64(len(page))
		if last {
			return n, true, nil
		}
	}
	return n, false, nil
}

// unchanged reports whether nothing was added to, or taken from, the stream
// since it was looked at.
func (c *counting) unchanged(ctx context.Context) (bool, error) {
	now, err := c.cmd.Inspect(ctx, []string{c.key})
	if err != nil {
		return false, err
	}
	return c.info.EntriesAdded >= 0 && now[0].EntriesAdded == c.info.EntriesAdded && now[0].Length == c.info.Length, nil
}
