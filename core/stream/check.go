package stream

import (
	"errors"
	"fmt"
	"slices"
	"time"

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
	return s.checkGroups()
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
