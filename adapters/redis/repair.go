package redis

import (
	"context"
	"slices"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

var _ port.Repairer = (*Store)(nil)

// RepairIndex implements port.Repairer: it looks at the keys of every server, with
// SCAN. A key that moves from one server to another meanwhile may be missed; what
// is in the index already stays there all the same.
func (s *Store) RepairIndex(ctx context.Context) (port.Repair, error) {
	var done port.Repair
	groups, err := s.repair(ctx, s.keys.groups(), metadataSuffix, func(key string) bool {
		_, ours := s.keys.parseGroup(key)
		return ours
	})
	done.Added, done.Removed = groups.Added, groups.Removed
	if err == nil {
		var streams port.Repair
		streams, err = s.repair(ctx, s.keys.streams(), streamSuffix, func(string) bool { return true })
		done.Added, done.Removed = done.Added+streams.Added, done.Removed+streams.Removed
	}
	if err != nil {
		return done, failed("repair", "the index", err)
	}
	return done, nil
}

// repair makes one index set name the keys that there are.
func (s *Store) repair(ctx context.Context, set, suffix string, ours func(key string) bool) (done port.Repair, err error) {
	names, found, err := s.indexed(ctx, set)
	if err != nil {
		return done, err
	}
	for i, name := range names {
		if found[i].Exists {
			continue
		}
		if err := s.cmd.Unindex(ctx, set, name); err != nil {
			return done, err
		}
		done.Removed++
	}
	keys, err := s.cmd.Scan(ctx, s.keys.prefix+":{", suffix)
	if err != nil {
		return done, err
	}
	slices.Sort(names)
	for _, key := range keys {
		if _, there := slices.BinarySearch(names, key); there || !ours(key) {
			continue
		}
		if err := s.cmd.Index(ctx, set, key); err != nil {
			return done, err
		}
		done.Added++
	}
	return done, nil
}
