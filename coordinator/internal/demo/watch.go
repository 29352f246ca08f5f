package demo

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// watchEvery is how often a coordinator is asked how the group is.
const watchEvery = 100 * time.Millisecond

// watcher keeps what the coordinators say of the group.
type watcher struct {
	api *api

	mu   sync.Mutex
	last sample
}

// sample is what a coordinator said when one was asked last.
type sample struct {
	// asked is when; the answer is no older.
	asked   time.Time
	group   protocol.Group
	members []protocol.Member
	// err says that none answered; group and members are the last known.
	err error
}

// run asks until ctx ends.
func (w *watcher) run(ctx context.Context) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		asked := time.Now()
		g, members, err := w.api.describe(ctx)
		w.mu.Lock()
		w.last.asked, w.last.err = asked, err
		if err == nil {
			w.last.group, w.last.members = g, members
		}
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *watcher) latest() sample {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// settled says what is still to come until the shards are with the members of
// live and nobody else, nothing when they are. since is the moment that the
// answer must be newer than.
func (s *sample) settled(live []string, shards int, since time.Time) (missing string) {
	switch {
	case s.asked.Before(since):
		return "the coordinator has not answered yet"
	case s.err != nil:
		return "the coordinator does not answer: " + s.err.Error()
	}
	granted := 0
	absent := slices.Clone(live)
	for i := range s.members {
		m := &s.members[i]
		switch m.State {
		case protocol.MemberActive, protocol.MemberLeaving:
		default:
			continue
		}
		switch {
		case !slices.Contains(live, m.MemberID):
			return m.MemberID + " is still in the group"
		case len(m.Revoking) > 0:
			return m.MemberID + " has shards to let go"
		case len(m.GrantedAssignment) == 0:
			return m.MemberID + " has no shard"
		}
		granted += len(m.GrantedAssignment)
		absent = slices.DeleteFunc(absent, func(name string) bool { return name == m.MemberID })
	}
	switch {
	case len(absent) > 0:
		return absent[0] + " has not joined yet"
	case granted < shards:
		return "not every shard has an owner"
	case granted > shards:
		return "shards that are gone are still held"
	case s.group.State != protocol.GroupStable:
		return "the group is " + string(s.group.State)
	}
	return ""
}

// owner returns who holds a shard according to the coordinator, empty for nobody.
func (s *sample) owner(shard int) string {
	for i := range s.members {
		if slices.Contains(s.members[i].GrantedAssignment, protocol.ShardIndex(shard)) {
			return s.members[i].MemberID
		}
	}
	return ""
}

// letsGo reports whether a member is asked to let a shard go.
func (s *sample) letsGo(member string, shard int) bool {
	for i := range s.members {
		if s.members[i].MemberID == member {
			return slices.Contains(s.members[i].Revoking, protocol.ShardIndex(shard))
		}
	}
	return false
}
