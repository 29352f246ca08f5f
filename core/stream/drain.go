package stream

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Shard is what a shard holds, at one moment.
type Shard struct {
	Index int
	// Exists is false where there is no such key; nothing else is set then.
	Exists bool
	// LastID is the last id that was generated in it. With it a shard is named in
	// this condition: once it was written to, or provisioned again, it has another.
	LastID  string
	Records int64
	// Cursors are all consumer groups on it, those of others too.
	Cursors []Cursor
	// Reader is somebody who has not let go of it since it was found empty, nil where
	// there is nobody.
	Reader *Reader
}

// Cursor is how far a consumer group has come in a shard.
type Cursor struct {
	Group string
	// Pending counts the records that were handed out and not acknowledged; OldestID is
	// the first of them.
	Pending  int64
	OldestID string
	// NextID is the first record that was not handed out, empty for none.
	NextID string
	// Unread counts those records, at least: where there is one, it is not 0.
	Unread int64
	// Lag is what Redis says of it, -1 for unknown. It is wrong after trims: for
	// display only.
	Lag int64
}

// behind reports whether the group still has something to do in the shard.
func (c *Cursor) behind(off rules.Set) bool {
	if off.Off(rules.DrainByCursor) {
		return c.Lag > 0
	}
	return c.Pending > 0 || c.NextID != ""
}

// Left counts what the groups still have to do in the shard, at least.
func (sh *Shard) Left() (records int64) {
	for i := range sh.Cursors {
		records += sh.Cursors[i].Pending + sh.Cursors[i].Unread
	}
	return records
}

// Drained reports whether nobody misses anything if the shard goes. A shard that holds
// records and has nobody to read them is not drained, nor is one that one of our groups
// is missing on: somebody has deleted it there, or created the shard late.
func (s *State) Drained(in Input, sh *Shard) bool {
	if !sh.Exists || s.GivenUp.Contains(sh.Index) {
		return true
	}
	readers := false
	for i := range sh.Cursors {
		c := &sh.Cursors[i]
		if slices.Contains(s.Ignored, c.Group) {
			continue
		}
		if readers = true; c.behind(in.Rules) {
			return false
		}
	}
	if len(s.lacking(sh)) > 0 && in.Rules.On(rules.GroupsAreOnShards) {
		return false
	}
	return readers || sh.Records == 0
}

// lacking are the groups of ours that are missing on a shard that holds records.
func (s *State) lacking(sh *Shard) (names []string) {
	if !sh.Exists || sh.Records == 0 {
		return nil
	}
	return slices.DeleteFunc(s.live(), func(name string) bool {
		return slices.ContainsFunc(sh.Cursors, func(c Cursor) bool { return c.Group == name })
	})
}

// Restore are steps that bring our groups back to removed shards which hold records and
// lack them. They begin at the first record: where they were is not known.
func (s *State) Restore(in Input, shards []Shard) (steps []ProvisionStep) {
	for i := range shards {
		sh := &shards[i]
		if s.GivenUp.Contains(sh.Index) || in.Rules.Off(rules.GroupsAreOnShards) {
			continue
		}
		if names := s.lacking(sh); len(names) > 0 {
			steps = append(steps, ProvisionStep{First: sh.Index, End: sh.Index + 1, Groups: names, Start: protocol.StartEarliest})
		}
	}
	return steps
}

// routesOver reports whether nobody can be writing to removed shards any more.
func (s *State) routesOver(in Input) bool {
	return in.RoutesOver == s.Switched || in.Rules.Off(rules.RoutesRunOut)
}

// Prove makes proofs of the shards that are drained.
func (s *State) Prove(in Input, shards []Shard) Prove {
	var p Prove
	for i := range shards {
		if sh := &shards[i]; s.Drained(in, sh) && len(p.Proofs) < maxProofs {
			p.Proofs = append(p.Proofs, Proof{sh.Index, sh.LastID})
		}
	}
	return p
}

// Clock is what one coordinator knows by its own clock of the routes that producers may
// still use. The zero value knows nothing.
type Clock struct {
	instance string
	switched int64
	since    time.Duration
}

// Loaded notes which instance of the store the record was loaded from. Another one may
// have lost the last writes, and with them routes that producers were told: it is waited
// for them anew.
func (c *Clock) Loaded(instance string) {
	if c.instance != instance {
		*c = Clock{instance: instance}
	}
}

// RoutesOver returns the switch since which the longest routing lease has passed on
// the monotonic clock of this coordinator, and on every clock that runs up to a tenth
// slower; 0 for none.
func (c *Clock) RoutesOver(now time.Duration, s *State) int64 {
	if s.Switched != c.switched {
		c.switched, c.since = s.Switched, now
	}
	if now-c.since < s.RoutingLease+s.RoutingLease/10 {
		return 0
	}
	return s.Switched
}

// Blocked names what the change of the shard count waits for, at most
// protocol.MaxBlockers. shards are the removed ones, where they were looked at; trouble
// is the last failure of a step that creates shards.
func (s *State) Blocked(in Input, shards []Shard, trouble error) []protocol.Blocker {
	out := []protocol.Blocker{}
	m, open := s.Migrating()
	if open && (m.State == protocol.MigrationPreparing || m.State == protocol.MigrationRollingBack) {
		b := protocol.Blocker{Kind: protocol.BlockedByProvisioning, Reason: "the shards are being created"}
		if trouble != nil {
			b.Reason = fmt.Sprintf("the shards could not be created, which is tried again: %v", trouble)
		}
		return append(out, b)
	}
	for _, name := range s.behind() {
		out = append(out, protocol.Blocker{
			Kind: protocol.BlockedByGroup, ConsumerGroup: name,
			Reason: fmt.Sprintf("group %q does not follow the new shards yet, which is tried again: see the coordinator's log if it stays so", name),
		})
	}
	if s.ReadCount > s.ShardCount || open {
		if !s.routesOver(in) {
			out = append(out, protocol.Blocker{Kind: protocol.BlockedByRoutes,
				Reason: fmt.Sprintf("producers may use what they were told before for up to %s", s.RoutingLease)})
		}
	}
	for i := range shards {
		if len(out) >= protocol.MaxBlockers {
			return out[:protocol.MaxBlockers]
		}
		sh := &shards[i]
		if !s.Drained(in, sh) {
			out = append(out, s.blockers(sh)...)
		} else if sh.Reader != nil {
			out = append(out, stillRead(sh))
		}
	}
	return out[:min(len(out), protocol.MaxBlockers)]
}

// stillRead says who has not let go of an empty shard.
func stillRead(sh *Shard) protocol.Blocker {
	index, r := protocol.ShardIndex(sh.Index), sh.Reader
	b := protocol.Blocker{Kind: protocol.BlockedByReader, Shard: &index, ConsumerGroup: r.Group}
	switch {
	case r.Err != nil:
		b.Kind = protocol.BlockedByGroup
		b.Reason = fmt.Sprintf("shard %d is empty, and whether group %q still reads it cannot be found out, which is tried again: %v", sh.Index, r.Group, r.Err)
	case r.Member == "":
		b.Reason = fmt.Sprintf("shard %d is empty, and group %q is being told to read it no more, which is tried again: see the coordinator's log if it stays so", sh.Index, r.Group)
	default:
		b.Reason = fmt.Sprintf("shard %d is empty, and member %q of group %q has not let go of it: it is removed when the member has, or its lease is over", sh.Index, r.Member, r.Group)
	}
	return b
}

func (s *State) blockers(sh *Shard) (out []protocol.Blocker) {
	index := protocol.ShardIndex(sh.Index)
	readers := false
	for i := range sh.Cursors {
		c := &sh.Cursors[i]
		if slices.Contains(s.Ignored, c.Group) {
			continue
		}
		if readers = true; !c.behind(0) {
			continue
		}
		b := protocol.Blocker{Kind: protocol.BlockedByBacklog, Shard: &index, ConsumerGroup: c.Group, Pending: c.Pending, Unread: c.Unread, NextID: c.OldestID}
		if b.NextID == "" {
			b.NextID = c.NextID
		}
		advice := "have its members read on, or give the records up"
		if _, ours := s.find(c.Group); !ours {
			advice = "it is not one of the coordinator's: read the records with it, have it ignored, or remove it in Redis"
		}
		b.Reason = fmt.Sprintf("group %q has %d records of shard %d pending and at least %d unread: %s", c.Group, c.Pending, sh.Index, c.Unread, advice)
		out = append(out, b)
	}
	missing := s.lacking(sh)
	for _, name := range missing {
		out = append(out, protocol.Blocker{Kind: protocol.BlockedByBacklog, Shard: &index, ConsumerGroup: name, Unread: sh.Records,
			Reason: fmt.Sprintf("group %q is missing on shard %d, which holds %d records: it is being created there again, from the first of them", name, sh.Index, sh.Records)})
	}
	if !readers && len(missing) == 0 {
		out = append(out, protocol.Blocker{Kind: protocol.BlockedByNobody, Shard: &index, Unread: sh.Records,
			Reason: fmt.Sprintf("shard %d holds %d records that no consumer group was there to read: create a group, or give the records up", sh.Index, sh.Records)})
	}
	return out
}
