package service

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// overviewParallelism bounds the groups that are looked at side by side.
const overviewParallelism = 8

// Offsets tells how much lies in each shard and how far the group has come; it asks
// Redis every time.
// Errors: protocol.ErrGroupNotFound, ErrRedisNotConfigured, ErrRedisUnavailable.
func (c *Coordinator) Offsets(ctx context.Context, prefix, name string) (protocol.Offsets, error) {
	key := port.GroupKey{Stream: prefix, Group: name}
	p, err := c.picture(ctx, key)
	if err != nil {
		return protocol.Offsets{}, err
	}
	shards := readShards(&p.State)
	states, err := c.inspect(ctx, key, shards, port.ShardQuery{Memory: true, Place: true})
	if err != nil {
		return protocol.Offsets{}, err
	}
	return offsets(p, shards, states), nil
}

// Backlog sums up what is left to do for a group. It is at most a second old.
// Errors: those of Offsets; ErrRedisUnavailable also where one shard is not known,
// since too small a number would take consumers away.
func (c *Coordinator) Backlog(ctx context.Context, prefix, name string) (protocol.Backlog, error) {
	key := port.GroupKey{Stream: prefix, Group: name}
	state, err := c.groupState(ctx, key)
	if err != nil {
		return protocol.Backlog{}, err
	}
	seen, err := c.lookAt(ctx, key, readShards(state))
	if err != nil {
		return protocol.Backlog{}, err
	}
	b := protocol.Backlog{StreamPrefix: prefix, ConsumerGroup: name, Exact: true, ShardCount: state.ShardCount, ObservedAt: seen.at.Truncate(time.Millisecond)}
	for i := range state.Lives {
		if state.Lives[i].State == group.Active {
			b.LiveMembers++
		}
	}
	for i := range seen.shards {
		s := &seen.shards[i]
		switch {
		case s.Err != nil:
			return protocol.Backlog{}, protocol.ErrRedisUnavailable
		case s.Group == nil:
			// A group that is missing will be given all that is there.
			b.Exact = b.Exact && s.Length == 0
			b.Add(s.Length, 0, 0)
		default:
			b.Exact = b.Exact && s.Group.Exact
			b.Add(believed(s.Group), s.Group.Pending, s.Group.OldestAge.Milliseconds())
		}
	}
	return b, nil
}

// believed is the best that is known of what a group was not given.
func believed(g *port.GroupPosition) int64 {
	if g.Exact {
		return g.Undelivered
	}
	return max(g.Undelivered, g.Estimate)
}

// Explain says why a shard is as it is.
// Errors: protocol.ErrGroupNotFound, ErrInvalidRequest for a shard that does not
// exist.
func (c *Coordinator) Explain(ctx context.Context, prefix, name string, shard protocol.ShardIndex) (protocol.Explanation, error) {
	key := port.GroupKey{Stream: prefix, Group: name}
	p, err := c.picture(ctx, key)
	if err != nil {
		return protocol.Explanation{}, err
	}
	x, err := p.Explain(shard, c.ports.Clock.Wall().UTC())
	if err != nil || c.ports.Inspector == nil {
		return x, err
	}
	states, err := c.inspect(ctx, key, []int{int(shard)}, port.ShardQuery{})
	if err == nil {
		err = states[0].Err
	}
	x.Records = &protocol.ShardRecords{}
	if err != nil {
		// The rest of the answer does not depend on it.
		text := protocol.ErrRedisUnavailable.Message
		x.Records.Error = &text
		return x, nil //nolint:nilerr // it is part of the answer
	}
	s := &states[0]
	r := x.Records
	r.Exists, r.Length = s.Exists, s.Length
	if g := s.Group; g != nil {
		r.GroupExists, r.Pending, r.LagAtLeast = true, g.Pending, g.Undelivered
		r.Lag, r.OldestUndeliveredAgeMs = lagOf(g), ageOf(g)
	}
	return x, nil
}

// ExplainAll says why those shards of a group are as they are that are not read as they
// should be.
// Errors: those of Group.
func (c *Coordinator) ExplainAll(ctx context.Context, prefix, name string) (protocol.ExplanationList, error) {
	p, err := c.picture(ctx, port.GroupKey{Stream: prefix, Group: name})
	if err != nil {
		return protocol.ExplanationList{}, err
	}
	list := protocol.ExplanationList{StreamPrefix: prefix, ConsumerGroup: name, Shards: []protocol.Explanation{}}
	now := c.ports.Clock.Wall().UTC()
	shards := readShards(&p.State)
	list.ShardCount = len(shards)
	for _, shard := range shards {
		x, err := p.Explain(protocol.ShardIndex(shard), now)
		switch {
		case err != nil:
			return protocol.ExplanationList{}, err
		case x.Settled:
			list.SettledShards++
		case len(list.Shards) < protocol.MaxExplanations:
			list.Shards = append(list.Shards, x)
		}
	}
	return list, nil
}

// Consumption tells how far members say that they have come, by member and shard.
func (c *Coordinator) Consumption(ctx context.Context, prefix, name string) (protocol.Consumption, error) {
	p, err := c.picture(ctx, port.GroupKey{Stream: prefix, Group: name})
	if err != nil {
		return protocol.Consumption{}, err
	}
	out := protocol.Consumption{Progress: []protocol.ConsumerProgress{}}
	for _, m := range p.Members(time.Time{}) {
		rows := slices.Clone(m.ShardProgress)
		slices.SortStableFunc(rows, func(a, b protocol.ShardProgress) int { return int(a.Shard) - int(b.Shard) })
		for _, r := range rows {
			out.Progress = append(out.Progress, protocol.ConsumerProgress{
				StreamPrefix: prefix, ConsumerGroup: name, MemberID: m.MemberID, MemberName: m.MemberName, MemberState: m.State,
				Shard: protocol.ShardID{ShardIndex: r.Shard}, StreamKey: r.StreamKey,
				LastDeliveredID: textOrNil(r.LastDeliveredID), LastAckedID: textOrNil(r.LastAckedID),
				PendingCount: r.PendingCount, UpdatedAt: textOrNil(r.UpdatedAt),
			})
		}
	}
	return out, nil
}

// Overview describes a group for dashboards. Without an answer from Redis it is what
// the coordinator knows by itself.
// Errors: protocol.ErrGroupNotFound, ErrStoreUnavailable.
func (c *Coordinator) Overview(ctx context.Context, prefix, name string) (protocol.Overview, error) {
	return c.overview(ctx, port.GroupKey{Stream: prefix, Group: name})
}

func (c *Coordinator) overview(ctx context.Context, key port.GroupKey) (protocol.Overview, error) {
	p, err := c.picture(ctx, key)
	if err != nil {
		return protocol.Overview{}, err
	}
	shards := readShards(&p.State)
	o := protocol.Overview{
		Group: p.Describe(), Members: p.Members(c.input().Now.Add(-c.cfg.MemberRetention)), Assignments: p.Assignments(),
		Shards: make([]protocol.ShardIndex, len(shards)), Rates: make([]protocol.ShardRates, len(shards)),
	}
	for i, shard := range shards {
		o.Shards[i] = protocol.ShardIndex(shard)
	}
	if c.ports.Inspector == nil {
		return o, nil
	}
	seen, err := c.lookAt(ctx, key, shards)
	switch {
	case ctx.Err() != nil:
		return protocol.Overview{}, context.Cause(ctx)
	case err == nil:
		all := offsets(p, shards, seen.shards)
		o.Offsets, o.Rates = &all, seen.rates
	}
	return o, nil
}

// Overviews describes all groups for dashboards, those of one stream or with one
// name where that is not empty. Damaged groups are left out.
func (c *Coordinator) Overviews(ctx context.Context, prefix, name string) ([]protocol.Overview, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*c.cfg.CallTimeout, protocol.ErrStoreUnavailable)
	defer cancel()
	keys, err := c.ports.Store.ListGroups(ctx)
	if err != nil {
		return nil, c.storeError(ctx, "list groups", err)
	}
	keys = slices.DeleteFunc(keys, func(k port.GroupKey) bool {
		return prefix != "" && k.Stream != prefix || name != "" && k.Group != name
	})
	all := make([]protocol.Overview, len(keys))
	errs := make([]error, len(keys))
	var workers sync.WaitGroup
	next := make(chan int)
	for range min(overviewParallelism, len(keys)) {
		workers.Go(func() {
			for i := range next {
				all[i], errs[i] = c.overview(ctx, keys[i])
			}
		})
	}
	for i := range keys {
		next <- i
	}
	close(next)
	workers.Wait()
	out := make([]protocol.Overview, 0, len(keys))
	for i, err := range errs {
		switch {
		case err == nil:
			out = append(out, all[i])
		case !errors.Is(err, protocol.ErrGroupNotFound) && !errors.Is(err, protocol.ErrCorrupt):
			return nil, err
		}
	}
	return out, nil
}

// groupState reads the aggregate of a group, for display.
// Errors: those of Group.
func (c *Coordinator) groupState(ctx context.Context, key port.GroupKey) (*group.State, error) {
	rec, err := c.presentGroup(ctx, key)
	if err != nil {
		return nil, err
	}
	s, err := group.Decode(rec.Body)
	if err != nil {
		return nil, err
	}
	return &s, nil
}

// readShards are the shards that a group reads, those among them that are being
// removed from the stream.
func readShards(s *group.State) []int {
	shards := make([]int, 0, s.ReadCount)
	for shard := range s.ReadCount {
		if !s.Closed.Contains(shard) {
			shards = append(shards, shard)
		}
	}
	return shards
}

// offsets puts together what Redis and the members say.
func offsets(p *engine.Picture, shards []int, states []port.ShardState) protocol.Offsets {
	o := protocol.Offsets{
		StreamPrefix: p.State.Stream, ConsumerGroup: p.State.Group, Shards: make([]protocol.ShardOffset, len(states)),
		TotalLag: new(int64), MemoryUsageKnown: true,
	}
	said := reportsByShard(p)
	for i := range states {
		s, row, shard := &states[i], &o.Shards[i], shards[i]
		*row = protocol.ShardOffset{
			StreamPrefix: o.StreamPrefix, ConsumerGroup: o.ConsumerGroup, Shard: protocol.ShardID{ShardIndex: protocol.ShardIndex(shard)},
			StreamKey: routing.StreamKey(o.StreamPrefix, shard), OwnerMemberIDs: said[shard].owners, PendingCount: said[shard].progress.PendingCount,
			ConsumerLastDeliveredID: textOrNil(said[shard].progress.LastDeliveredID), ConsumerLastAckedID: textOrNil(said[shard].progress.LastAckedID),
		}
		row.RedisSlot = routing.Slot(row.StreamKey)
		fill(row, s)
		o.TotalStreamLength += row.StreamLength
		o.TotalPendingCount += row.PendingCount
		o.TotalLagAtLeast += row.LagAtLeast
		if row.Lag == nil {
			o.TotalLag = nil
		} else if o.TotalLag != nil {
			*o.TotalLag += *row.Lag
		}
		if row.MemoryUsageBytes == nil {
			o.MemoryUsageKnown = false
		} else {
			o.TotalMemoryUsageBytes += *row.MemoryUsageBytes
		}
		if age := row.OldestUndeliveredAgeMs; age != nil && (o.OldestUndeliveredAgeMs == nil || *age > *o.OldestUndeliveredAgeMs) {
			o.OldestUndeliveredAgeMs = age
		}
	}
	return o
}

// fill adds what Redis says of a shard.
func fill(row *protocol.ShardOffset, s *port.ShardState) {
	if s.Err != nil {
		text := protocol.ErrRedisUnavailable.Message
		row.Error = &text
		return
	}
	if place := s.Place; place != (port.ShardPlace{}) {
		row.RedisNodeEndpoint, row.RedisNodeID = textOrNil(place.Endpoint), textOrNil(place.NodeID)
		row.RedisSlotRangeStart, row.RedisSlotRangeEnd = &place.FirstSlot, &place.LastSlot
	}
	row.Exists = s.Exists
	if !s.Exists {
		return
	}
	row.StreamLength = s.Length
	row.FirstRecordID, row.LastRecordID, row.LastGeneratedID = textOrNil(s.FirstID), textOrNil(s.LastID), textOrNil(s.LastGeneratedID)
	if s.MemoryBytes >= 0 {
		row.MemoryUsageBytes = &s.MemoryBytes
	}
	g := s.Group
	if g == nil {
		return
	}
	row.GroupLastDeliveredID, row.PendingCount = textOrNil(g.LastDeliveredID), g.Pending
	row.Lag, row.LagAtLeast, row.OldestUndeliveredID, row.OldestUndeliveredAgeMs = lagOf(g), g.Undelivered, textOrNil(g.OldestID), ageOf(g)
	if !g.Exact {
		estimate := believed(g)
		row.LagEstimate = &estimate
	}
}

func lagOf(g *port.GroupPosition) *int64 {
	if !g.Exact {
		return nil
	}
	return &g.Undelivered
}

func ageOf(g *port.GroupPosition) *int64 {
	if g.OldestID == "" {
		return nil
	}
	ms := g.OldestAge.Milliseconds()
	return &ms
}

// said is what members say of one shard.
type said struct {
	owners   []string
	progress protocol.ShardProgress
	at       time.Time
}

// reportsByShard sorts what the members say by shard: who reads it, and the newest
// word on how far it was read.
func reportsByShard(p *engine.Picture) []said {
	shards := len(p.State.Ledger.Holder)
	all := make([]said, shards)
	for i := range all {
		all[i].owners = []string{}
	}
	for i := range p.State.Lives {
		l := &p.State.Lives[i]
		report, told := p.Reports[l.Key()]
		if !told || l.State == group.Over {
			continue
		}
		for _, s := range report.Owned {
			if int(s) >= 0 && int(s) < shards {
				all[s].owners = append(all[s].owners, l.Member)
			}
		}
		for _, row := range report.Progress {
			if int(row.Shard) < 0 || int(row.Shard) >= shards {
				continue
			}
			at, err := time.Parse(time.RFC3339Nano, row.UpdatedAt)
			if s := &all[row.Shard]; err == nil && !at.Before(s.at) {
				s.progress, s.at = row, at
			}
		}
	}
	for i := range all {
		slices.Sort(all[i].owners)
		all[i].owners = slices.Compact(all[i].owners)
	}
	return all
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
