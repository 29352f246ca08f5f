package porttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Model stands for the Redis that holds the streams, for tests that need no real
// one: a port.Streams and a port.Inspector in memory. It is safe for concurrent use.
// The zero value is an empty one.
type Model struct {
	mu      sync.Mutex
	streams map[string]*modelStream
	// away is what every call fails with, broken what is wrong with single keys.
	away   error
	broken map[string]error
	// looks counts the calls of InspectShards, read the entries that were read.
	looks, read int
}

type modelStream struct {
	entries []port.Entry
	added   int64
	last    string
	groups  map[string]*modelGroup
}

type modelGroup struct {
	delivered string
	pending   []string
}

// The time at which the model looks at its clock.
var modelNow = time.UnixMilli(1_800_000_000_000)

// SetAway makes every call fail with err; nil brings the Redis back.
func (r *Model) SetAway(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = err
}

// Break makes looks at one key fail with err; nil mends it.
func (r *Model) Break(key string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = map[string]error{}
	}
	r.broken[key] = err
}

// Counts returns how often shards were looked at, and how many entries were read.
func (r *Model) Counts() (looks, read int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.looks, r.read
}

func (r *Model) stream(key string) *modelStream {
	if r.streams == nil {
		r.streams = map[string]*modelStream{}
	}
	s, there := r.streams[key]
	if !there {
		s = &modelStream{groups: map[string]*modelGroup{}, last: "0-0"}
		r.streams[key] = s
	}
	return s
}

// Add appends an entry with an id that is above those before it.
func (r *Model) Add(key, id string, fields ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stream(key)
	s.entries = append(s.entries, port.Entry{ID: id, Fields: fields})
	s.added++
	s.last = id
}

// Deliver hands the next n entries to a group, which exists.
func (r *Model) Deliver(key, group string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.stream(key).groups[group]
	for _, e := range r.stream(key).entries {
		if n > 0 && compareIDs(e.ID, g.delivered) > 0 {
			g.delivered, n = e.ID, n-1
			g.pending = append(g.pending, e.ID)
		}
	}
}

// Acknowledge takes the first n entries that are pending back.
func (r *Model) Acknowledge(key, group string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.stream(key).groups[group]
	g.pending = g.pending[min(n, len(g.pending)):]
}

// Delete removes a key.
func (r *Model) Delete(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.streams, key)
}

// Provision implements port.Streams.
func (r *Model) Provision(_ context.Context, p port.Provision) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away != nil {
		return protocol.ErrProvisioning.With("%v", r.away)
	}
	for i := p.First; i < p.End; i++ {
		s := r.stream(shardKey(p.Prefix, i))
		for _, name := range p.Groups {
			if s.groups[name] == nil {
				s.groups[name] = &modelGroup{delivered: "0-0"}
				if p.Start == protocol.StartLatest {
					s.groups[name].delivered = s.last
				}
			}
		}
	}
	return nil
}

func shardKey(prefix string, shard int) string { return fmt.Sprintf("%s:%d", prefix, shard) }

// Remove implements port.Streams.
func (r *Model) Remove(_ context.Context, prefix string, first, end int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := first; i < end; i++ {
		delete(r.streams, shardKey(prefix, i))
	}
	return r.away
}

// RemoveGroup implements port.Streams.
func (r *Model) RemoveGroup(_ context.Context, prefix, group string, first, end int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := first; i < end; i++ {
		if s := r.streams[shardKey(prefix, i)]; s != nil {
			delete(s.groups, group)
		}
	}
	return r.away
}

// Ping implements port.Streams.
func (r *Model) Ping(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.away
}

// InspectShards implements port.Inspector.
func (r *Model) InspectShards(ctx context.Context, q port.ShardQuery) ([]port.ShardState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmp.Or(context.Cause(ctx), r.away); err != nil {
		return nil, err
	}
	r.looks++
	states := make([]port.ShardState, len(q.Keys))
	for i, key := range q.Keys {
		states[i] = r.look(key, &q)
	}
	return states, nil
}

func (r *Model) look(key string, q *port.ShardQuery) port.ShardState {
	if err := r.broken[key]; err != nil {
		return port.ShardState{Err: err}
	}
	state := port.ShardState{MemoryBytes: port.Unknown}
	s, there := r.streams[key]
	if !there {
		return state
	}
	state.Exists, state.Length, state.Added, state.LastGeneratedID = true, int64(len(s.entries)), s.added, s.last
	if n := len(s.entries); n > 0 {
		state.FirstID, state.LastID = s.entries[0].ID, s.entries[n-1].ID
	}
	if q.Memory {
		state.MemoryBytes = 100
	}
	g, there := s.groups[q.Group]
	if !there {
		return state
	}
	p := &port.GroupPosition{LastDeliveredID: g.delivered, Pending: int64(len(g.pending)), Exact: true}
	before := 0
	for _, e := range s.entries {
		if compareIDs(e.ID, g.delivered) <= 0 {
			before++
			continue
		}
		if p.Undelivered++; p.OldestID == "" {
			p.OldestID = e.ID
			ms, _ := splitID(e.ID)
			p.OldestAge = max(0, modelNow.Sub(time.UnixMilli(int64(ms))))
		}
	}
	p.Estimate = p.Undelivered
	if limit := int64(q.CountUpTo); p.Undelivered > limit && int64(before) > limit {
		p.Undelivered, p.Exact = limit, false
	}
	state.Group = p
	return state
}

// ReadEntries implements port.Inspector.
func (r *Model) ReadEntries(ctx context.Context, ranges []port.EntryRange) ([]port.EntryPage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := cmp.Or(context.Cause(ctx), r.away); err != nil {
		return nil, err
	}
	pages := make([]port.EntryPage, len(ranges))
	for i, q := range ranges {
		if s, there := r.streams[q.Key]; there {
			pages[i] = s.page(q)
			r.read += len(pages[i].Entries)
		}
	}
	return pages, nil
}

func (s *modelStream) page(q port.EntryRange) (p port.EntryPage) {
	entries := slices.Clone(s.entries)
	if q.Backward {
		slices.Reverse(entries)
	}
	bytes := 0
	for _, e := range entries {
		order := 1
		if q.After != "" {
			order = compareIDs(e.ID, q.After)
		}
		if q.Backward && q.After != "" {
			order = -order
		}
		switch {
		case order <= 0 || q.Only != "" && compareIDs(e.ID, q.Only) != 0:
			continue
		case len(p.Entries) == q.Count || bytes >= cmp.Or(q.Bytes, 1<<20):
			p.More = true
			return p
		}
		p.Entries = append(p.Entries, e)
		bytes += e.Size()
	}
	return p
}

// compareIDs orders the ids of entries.
func compareIDs(a, b string) int {
	ams, aseq := splitID(a)
	bms, bseq := splitID(b)
	return cmp.Or(cmp.Compare(ams, bms), cmp.Compare(aseq, bseq))
}

func splitID(id string) (ms, seq uint64) {
	left, right, _ := strings.Cut(id, "-")
	ms, err := strconv.ParseUint(left, 10, 64)
	seq, err2 := strconv.ParseUint(cmp.Or(right, "0"), 10, 64)
	if err := errors.Join(err, err2); err != nil {
		panic(err)
	}
	return ms, seq
}
