package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// shaky is a store in front of another one that fails when it is told to.
type shaky struct {
	port.Store
	mu sync.Mutex
	// down makes every call fail, hang makes it wait for the end of its context.
	down, hang bool
	// before, if set, is called with the name of each call; an error of it is the
	// answer, and the call does not take place.
	before func(call string) error
	// loseReplies is how many saves of streams take place and fail all the same.
	loseReplies int
}

var errAway = errors.New("the store is away")

func (s *shaky) set(change func(*shaky)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *shaky) call(ctx context.Context, name string) error {
	s.mu.Lock()
	down, hang, before := s.down, s.hang, s.before
	s.mu.Unlock()
	switch {
	case hang:
		<-ctx.Done()
		return context.Cause(ctx)
	case down:
		return errAway
	case before != nil:
		return before(name)
	}
	return nil
}

func (s *shaky) LoadGroup(ctx context.Context, key port.GroupKey, known port.Version) (port.GroupRecord, error) {
	if err := s.call(ctx, "LoadGroup"); err != nil {
		return port.GroupRecord{}, err
	}
	return s.Store.LoadGroup(ctx, key, known)
}

func (s *shaky) SaveGroup(ctx context.Context, key port.GroupKey, save port.GroupSave) (port.Version, error) {
	if err := s.call(ctx, "SaveGroup"); err != nil {
		return port.Version{}, err
	}
	return s.Store.SaveGroup(ctx, key, save)
}

func (s *shaky) RenewGroup(ctx context.Context, key port.GroupKey, r port.Renewal) error {
	if err := s.call(ctx, "RenewGroup"); err != nil {
		return err
	}
	return s.Store.RenewGroup(ctx, key, r)
}

func (s *shaky) DeleteGroup(ctx context.Context, key port.GroupKey, expected port.Version) error {
	if err := s.call(ctx, "DeleteGroup"); err != nil {
		return err
	}
	return s.Store.DeleteGroup(ctx, key, expected)
}

func (s *shaky) ListGroups(ctx context.Context) ([]port.GroupKey, error) {
	if err := s.call(ctx, "ListGroups"); err != nil {
		return nil, err
	}
	return s.Store.ListGroups(ctx)
}

func (s *shaky) Reports(ctx context.Context, key port.GroupKey) (map[string][]byte, error) {
	if err := s.call(ctx, "Reports"); err != nil {
		return nil, err
	}
	return s.Store.Reports(ctx, key)
}

func (s *shaky) LoadStream(ctx context.Context, prefix string) (port.Record, error) {
	if err := s.call(ctx, "LoadStream"); err != nil {
		return port.Record{}, err
	}
	return s.Store.LoadStream(ctx, prefix)
}

func (s *shaky) SaveStream(ctx context.Context, prefix string, save port.StreamSave) (port.Version, error) {
	if err := s.call(ctx, "SaveStream"); err != nil {
		return port.Version{}, err
	}
	v, err := s.Store.SaveStream(ctx, prefix, save)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil && s.loseReplies > 0 {
		s.loseReplies--
		return port.Version{}, errAway
	}
	return v, err
}

func (s *shaky) DeleteStream(ctx context.Context, prefix string, expected port.Version) error {
	if err := s.call(ctx, "DeleteStream"); err != nil {
		return err
	}
	return s.Store.DeleteStream(ctx, prefix, expected)
}

func (s *shaky) ListStreams(ctx context.Context) ([]string, error) {
	if err := s.call(ctx, "ListStreams"); err != nil {
		return nil, err
	}
	return s.Store.ListStreams(ctx)
}

func (s *shaky) Ping(ctx context.Context) (string, error) {
	if err := s.call(ctx, "Ping"); err != nil {
		return "", err
	}
	return s.Store.Ping(ctx)
}

// fakeStreams is the Redis of the shards: it notes what exists.
type fakeStreams struct {
	mu sync.Mutex
	// shards maps a prefix to its shards, each with its groups.
	shards map[string]map[int][]string
	calls  []string
	// before, if set, is called first; an error of it is the answer.
	before func(ctx context.Context, call string) error
}

func (f *fakeStreams) begin(ctx context.Context, call string) error {
	f.mu.Lock()
	before := f.before
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	if before != nil {
		return before(ctx, call)
	}
	return nil
}

func (f *fakeStreams) set(before func(ctx context.Context, call string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

// on tells which groups every shard of the stream orders has; ok is false where
// shards differ or are missing.
func (f *fakeStreams) on(shards int) (groups []string, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	orders := f.shards["orders"]
	if len(orders) != shards {
		return nil, false
	}
	for i := range shards {
		if i > 0 && !slices.Equal(orders[i], groups) {
			return nil, false
		}
		groups = orders[i]
	}
	return groups, true
}

func (f *fakeStreams) count(call string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (f *fakeStreams) Provision(ctx context.Context, p port.Provision) error {
	if err := f.begin(ctx, "Provision"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.shards == nil {
		f.shards = map[string]map[int][]string{}
	}
	if f.shards[p.Prefix] == nil {
		f.shards[p.Prefix] = map[int][]string{}
	}
	for i := p.First; i < p.End; i++ {
		groups := slices.Concat(f.shards[p.Prefix][i], p.Groups)
		slices.Sort(groups)
		f.shards[p.Prefix][i] = slices.Compact(groups)
	}
	return nil
}

func (f *fakeStreams) Remove(ctx context.Context, prefix string, first, end int) error {
	if err := f.begin(ctx, "Remove"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := first; i < end; i++ {
		delete(f.shards[prefix], i)
	}
	return nil
}

func (f *fakeStreams) RemoveGroup(ctx context.Context, prefix, name string, first, end int) error {
	if err := f.begin(ctx, "RemoveGroup"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := first; i < end; i++ {
		f.shards[prefix][i] = slices.DeleteFunc(f.shards[prefix][i], func(g string) bool { return g == name })
	}
	return nil
}

func (f *fakeStreams) Ping(ctx context.Context) error { return f.begin(ctx, "Ping") }

// journal notes what coordinators publish.
type journal struct {
	mu               sync.Mutex
	granted, revoked map[string]int
	ended            []group.MemberEnded
	streams          []string
}

func (j *journal) group(key port.GroupKey, events []group.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.granted == nil {
		j.granted, j.revoked = map[string]int{}, map[string]int{}
	}
	for _, e := range events {
		switch e := e.(type) {
		case group.ShardGranted:
			j.granted[shardName(key, e.Shard)]++
		case group.ShardRevoked:
			j.revoked[shardName(key, e.Shard)]++
		case group.MemberEnded:
			j.ended = append(j.ended, e)
		}
	}
}

func shardName(key port.GroupKey, s protocol.ShardIndex) string { return fmt.Sprint(key, " ", s) }

func (j *journal) stream(prefix string, events []stream.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range events {
		switch e := e.(type) {
		case stream.Created:
			j.streams = append(j.streams, prefix+" created")
		case stream.Deleting:
			j.streams = append(j.streams, prefix+" deleting")
		case stream.GroupChanged:
			j.streams = append(j.streams, prefix+"/"+e.Group+" "+string(e.Phase))
		}
	}
}

// over returns how the lives that ended did.
func (j *journal) over() []group.MemberEnded {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.ended)
}
