package group

import (
	"fmt"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Check reports what a state contradicts itself in. It is called after every
// Apply and after every load.
// Errors: ErrInvariant, with the contradiction.
func (s *State) Check() error {
	present := call(s.Lives)
	return s.check(&present)
}

// check is Check for who has called the roll already.
func (s *State) check(present *roll) error {
	if err := s.checkColumns(); err != nil {
		return err
	}
	if err := s.checkLives(present); err != nil {
		return err
	}
	return s.checkLedger()
}

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvariant, fmt.Sprintf(format, args...))
}

func (s *State) checkColumns() error {
	n := len(s.Target)
	switch {
	case s.ShardCount < 0 || s.ReadCount < s.ShardCount || s.ReadCount > protocol.MaxShards:
		return broken("%d shards are written to and %d are read", s.ShardCount, s.ReadCount)
	case !s.Closed.Proper() || s.Closed.Within(s.ShardCount, s.ReadCount).Len() != s.Closed.Len():
		return broken("shards %v are closed, of those from %d to %d", s.Closed, s.ShardCount, s.ReadCount)
	case n < s.ReadCount || n > protocol.MaxShards || len(s.Ledger.Holder) != n || len(s.Ledger.Grant) != n || len(s.Ledger.Revoke) != n:
		return broken("columns of %d, %d, %d and %d rows for %d shards",
			n, len(s.Ledger.Holder), len(s.Ledger.Grant), len(s.Ledger.Revoke), s.ReadCount)
	case n > s.ReadCount && s.Ledger.Holder[n-1] == None:
		return broken("a row for shard %d, which nobody reads", n-1)
	case s.GroupEpoch > s.Counter || s.AssignmentEpoch != s.GroupEpoch:
		return broken("group epoch %d, assignment epoch %d, counter %d", s.GroupEpoch, s.AssignmentEpoch, s.Counter)
	}
	return s.Timings.Validate()
}

func (s *State) checkLives(present *roll) error {
	for i := range s.Lives {
		l := &s.Lives[i]
		if l.Member == "" || l.Incarnation == "" {
			return broken("incarnation %q of member %q lacks a name", l.Incarnation, l.Member)
		}
		if at, _ := present.find(present.keys[i]); int(at) != i {
			return broken("incarnation %q of member %q is there twice", l.Incarnation, l.Member)
		}
		for later := present.next[i]; later != None; later = present.next[later] {
			if l.State == Active && s.Lives[later].State == Active {
				return broken("member %q has two living incarnations", l.Member)
			}
		}
		if l.JoinEpoch <= 0 || l.Epoch < l.JoinEpoch || l.Epoch > s.Counter || l.Acked < 0 || l.Acked > l.Epoch {
			return broken("member %q joined in epoch %d, has epoch %d, acknowledged %d, counter %d",
				l.Member, l.JoinEpoch, l.Epoch, l.Acked, s.Counter)
		}
	}
	return nil
}

func (s *State) checkLedger() error {
	members := s.hasTakers()
	for shard, h := range s.Ledger.Holder {
		grant, revoke, target := s.Ledger.Grant[shard], s.Ledger.Revoke[shard], s.Target[shard]
		switch {
		case h < None || int(h) >= len(s.Lives):
			return broken("shard %d is held by nobody known", shard)
		case h == None && (grant != 0 || revoke != 0):
			return broken("free shard %d has epochs %d and %d", shard, grant, revoke)
		case h != None && !s.Lives[h].granted(grant, revoke):
			return broken("shard %d was granted in epoch %d and revoked in %d to a life that was given epochs %d to %d",
				shard, grant, revoke, s.Lives[h].JoinEpoch, s.Lives[h].Epoch)
		case target < None || int(target) >= len(s.Lives) || (target == None) == (members && !s.closed(shard)):
			return broken("shard %d has no proper target", shard)
		case target != None && !s.Lives[target].takesShards():
			return broken("shard %d is meant for member %q, which takes none", shard, s.Lives[target].Member)
		}
	}
	return nil
}

// granted reports whether a life can hold a shard since one epoch that was taken
// back in another, 0 for not yet.
func (l *Life) granted(grant, revoke protocol.Epoch) bool {
	return l.JoinEpoch <= grant && grant <= l.Epoch && (revoke == 0 || grant <= revoke && revoke <= l.Epoch)
}
