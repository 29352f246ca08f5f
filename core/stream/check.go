package stream

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/spans"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// maxRoutingLease bounds what a record may say; what is announced is far shorter.
const maxRoutingLease = 24 * time.Hour

// check reports what a record contradicts itself in.
func (s *State) check() error {
	switch {
	case s.Prefix == "":
		return errors.New("has no name")
	case s.ShardCount < 0 || s.ShardCount > protocol.MaxShards || s.HighestCount < s.ShardCount || s.HighestCount > protocol.MaxShards:
		return fmt.Errorf("has %d shards and had up to %d", s.ShardCount, s.HighestCount)
	case s.GroupStart != protocol.StartEarliest && s.GroupStart != protocol.StartLatest:
		return fmt.Errorf("starts groups at %q", s.GroupStart)
	case s.RoutingLease < 0 || s.RoutingLease > maxRoutingLease:
		return fmt.Errorf("has a routing lease of %s", s.RoutingLease)
	case len(s.Groups) > protocol.MaxGroups || len(s.Deleted) > maxDeleted || len(s.Held) > len(s.Deleted):
		return fmt.Errorf("has %d groups and remembers %d", len(s.Groups), len(s.Deleted))
	case s.Removal != nil && len(s.Groups) > 0:
		return fmt.Errorf("is to be removed and has %d groups", len(s.Groups))
	case odd(s.CreatedAt) || odd(s.UpdatedAt) || slices.ContainsFunc(s.Groups, func(g Group) bool { return odd(g.CreatedAt) }):
		return errors.New("has a time that no record can hold")
	}
	if err := s.checkReshard(); err != nil {
		return err
	}
	return s.checkGroups()
}

// checkReshard looks at what is removed, and at the changes of the count.
func (s *State) checkReshard() error {
	within := func(set spans.Set) bool {
		return set.Proper() && len(set.Within(s.ShardCount, s.ReadCount)) == len(set) && set.Within(s.ShardCount, s.ReadCount).Len() == set.Len()
	}
	removed := s.Removed()
	last := -1
	for _, p := range s.Proofs {
		if p.Shard <= last || !removed.Contains(p.Shard) {
			return fmt.Errorf("has a proof that shard %d is empty", p.Shard)
		}
		last = p.Shard
	}
	switch {
	case s.ReadCount < s.ShardCount || s.ReadCount > s.HighestCount:
		return fmt.Errorf("has %d shards that are written to, and %d that are read", s.ShardCount, s.ReadCount)
	case !within(s.Retired) || !within(s.GivenUp):
		return errors.New("removes shards that nobody was to remove")
	case s.Switched > s.Version:
		return fmt.Errorf("has version %d and was switched in %d", s.Version, s.Switched)
	case len(s.Proofs) > maxProofs || len(s.Ignored) > MaxIgnored || len(s.Migrations) > maxMigrations:
		return fmt.Errorf("has %d proofs, ignores %d groups and remembers %d changes", len(s.Proofs), len(s.Ignored), len(s.Migrations))
	case !slices.IsSorted(s.Ignored):
		return errors.New("ignores groups out of order")
	}
	for i := range s.Migrations {
		m := &s.Migrations[i]
		switch m.State {
		case protocol.MigrationPreparing, protocol.MigrationActive, protocol.MigrationDraining, protocol.MigrationRollingBack:
			if i < len(s.Migrations)-1 {
				return fmt.Errorf("has a change %q that is under way below a later one", m.ID)
			}
		case protocol.MigrationDeprecated, protocol.MigrationRolledBack:
		default:
			return fmt.Errorf("has a change %q in the unknown state %q", m.ID, m.State)
		}
		if m.From < 0 || m.To < 0 || max(m.From, m.To) > s.HighestCount || odd(m.CreatedAt) || odd(m.UpdatedAt) {
			return fmt.Errorf("has a change %q from %d to %d shards at an impossible time or of an impossible number", m.ID, m.From, m.To)
		}
	}
	return nil
}

func (s *State) checkGroups() error {
	before := ""
	for _, g := range s.Groups {
		switch g.Phase {
		case GroupCreating, GroupLive, GroupDeleting:
		default:
			return fmt.Errorf("has group %q in the unknown phase %q", g.Name, g.Phase)
		}
		if g.Name <= before {
			return fmt.Errorf("has group %q after %q", g.Name, before)
		}
		before = g.Name
	}
	return nil
}

// odd reports a time that was read with an offset and lies, in UTC, in a year
// that has too many digits to be written again.
func odd(t time.Time) bool {
	y := t.UTC().Year()
	return y < 0 || y > 9999
}
