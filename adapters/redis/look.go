package redis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

var _ port.Inspector = (*Streams)(nil)

// countWorkers bounds the streams whose entries are counted side by side.
const countWorkers = 8

// InspectShards implements port.Inspector. Of the time that ctx leaves, half may be
// spent on counting: what is not counted by then is a lower bound.
func (s *Streams) InspectShards(ctx context.Context, q port.ShardQuery) ([]port.ShardState, error) {
	looks, err := s.cmd.LookAt(ctx, q.Keys, q.Memory)
	if err != nil {
		return nil, fmt.Errorf("inspect streams: %w", err)
	}
	states := make([]port.ShardState, len(looks))
	groups := make([]*GroupState, len(looks))
	estimates := make([]int64, len(looks))
	var open []*counting
	for i := range looks {
		l := &looks[i]
		states[i] = port.ShardState{
			Err: l.Err, Exists: l.Exists, Length: l.Length, Added: l.EntriesAdded, MemoryBytes: l.MemoryBytes,
			FirstID: l.FirstID, LastID: l.LastID, LastGeneratedID: l.LastGeneratedID,
		}
		if l.Err != nil {
			states[i] = port.ShardState{Err: l.Err}
			continue
		}
		for _, g := range l.Groups {
			if g.Name != q.Group {
				continue
			}
			groups[i] = &GroupState{Name: g.Name, Consumers: g.Consumers, Pending: g.Pending, LastDeliveredID: g.LastDeliveredID}
			estimates[i] = g.Lag
			if c := (&counting{cmd: s.cmd, key: q.Keys[i], info: &l.StreamInfo, state: groups[i]}); !c.byPosition() {
				open = append(open, c)
			}
		}
	}
	if err := s.countBeside(ctx, open, q.CountUpTo); err != nil {
		return nil, fmt.Errorf("inspect streams: %w", err)
	}
	for i, g := range groups {
		if g != nil {
			states[i].Group = position(g, estimates[i], states[i].Length)
		}
	}
	if q.Place {
		s.place(ctx, q.Keys, states)
	}
	return states, nil
}

// countBeside counts where positions do not tell. Trouble on the way leaves lower
// bounds, unless the caller has gone.
func (s *Streams) countBeside(ctx context.Context, open []*counting, limit int) error {
	if len(open) == 0 {
		return nil
	}
	budget := ctx
	if deadline, limited := ctx.Deadline(); limited {
		var done context.CancelFunc
		budget, done = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer done()
	}
	first := max(1, min(limit+1, firstPageEntries))
	spans := make([]command.Span, len(open))
	for i, c := range open {
		spans[i] = command.Span{Key: c.key, From: above(c.state.LastDeliveredID), To: "+", Count: first}
	}
	pages, err := s.cmd.Ranges(budget, spans)
	if err != nil {
		for _, c := range open {
			c.settle(0, false, "")
		}
		return context.Cause(ctx)
	}
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(countWorkers, len(open)) {
		workers.Go(func() {
			for i := range next {
				if err := open[i].run(budget, pages[i], first, limit); err != nil {
					open[i].settle(int64(len(pages[i])), false, pages[i][0].ID)
				}
			}
		})
	}
	for i := range open {
		next <- i
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// position words what was found out about a group of a stream with so many entries.
func position(g *GroupState, estimate, length int64) *port.GroupPosition {
	p := &port.GroupPosition{
		Consumers: g.Consumers, Pending: g.Pending, LastDeliveredID: g.LastDeliveredID,
		Undelivered: g.Undelivered.Entries, Exact: g.Undelivered.Exact,
		OldestID: g.OldestUndeliveredID, OldestAge: g.OldestUndeliveredAge,
	}
	p.Estimate = p.Undelivered
	if !p.Exact {
		// The server's own number counts what was trimmed away, too.
		p.Estimate = max(p.Undelivered, min(estimate, length))
	}
	return p
}

// place says where the keys lie in a Cluster. It is a hint: without it all else is
// still true.
func (s *Streams) place(ctx context.Context, keys []string, states []port.ShardState) {
	ranges, err := s.cmd.SlotRanges(ctx)
	if err != nil {
		return
	}
	for i, key := range keys {
		slot := routing.Slot(key)
		for _, r := range ranges {
			if r.First <= slot && slot <= r.Last && states[i].Err == nil {
				states[i].Place = port.ShardPlace{Endpoint: r.Endpoint, NodeID: r.NodeID, FirstSlot: r.First, LastSlot: r.Last}
			}
		}
	}
}
