package httpload

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// settleRounds bounds the rounds, in which all members of a fleet send a heartbeat,
	// that change something.
	settleRounds = 200
	// settlePause lies between two rounds that change nothing, and settlePatience is how
	// long those go on: what the fleet waits for may be up to members of others.
	settlePause    = 20 * time.Millisecond
	settlePatience = 30 * time.Second
	// retryPause lies before the repetition of a heartbeat that was not taken.
	retryPause = 100 * time.Millisecond
)

// Beat sends one heartbeat.
type Beat func(ctx context.Context, q *protocol.Heartbeat) (*protocol.HeartbeatResponse, error)

// Fleet is a number of members of one group. It is not safe for concurrent use.
type Fleet struct {
	members []*fleetMember
}

// fleetMember lets go of what is taken from it at once.
type fleetMember struct {
	id, incarnation string
	owned           protocol.Shards
	letGo           protocol.Shards
	last            protocol.HeartbeatResponse
	watch           *Watch // nil for none
}

// NewFleet makes so many members, with the names that begin with prefix. They are
// new incarnations.
func NewFleet(prefix string, members int) *Fleet {
	f := &Fleet{members: make([]*fleetMember, members)}
	life := rand.Text()
	for i := range f.members {
		f.members[i] = &fleetMember{id: fmt.Sprintf("%s%05d", prefix, i), incarnation: fmt.Sprintf("m-%s%05d", life, i)}
	}
	return f
}

// Tell has the members tell a watch what they own, from now on.
func (f *Fleet) Tell(w *Watch) {
	for _, m := range f.members {
		m.watch = w
	}
}

// Len returns how many members the fleet has.
func (f *Fleet) Len() int { return len(f.members) }

// Shards returns how many shards the members own.
func (f *Fleet) Shards() int {
	n := 0
	for _, m := range f.members {
		n += len(m.owned)
	}
	return n
}

// Requests returns the next heartbeat of each member. Once the fleet has settled,
// these are keepalives and stay so.
func (f *Fleet) Requests() []*protocol.Heartbeat {
	all := make([]*protocol.Heartbeat, len(f.members))
	for i, m := range f.members {
		all[i] = m.next()
	}
	return all
}

// Settle lets the members join and beat until each of them owns what it is to
// own and the coordinator knows it: shards says how many there are. The beats run
// at the same time, so many at once.
// Errors: those of beat; a coordinator that refuses a member; a fleet that does not
// settle; the cause of ctx.
func (f *Fleet) Settle(ctx context.Context, shards, atOnce int, beat Beat) error {
	last := time.Now() // when something changed
	for changes := 0; changes < settleRounds && time.Since(last) < settlePatience; {
		changed, waits, err := f.round(ctx, atOnce, beat)
		switch {
		case err != nil:
			return err
		case changed:
			changes++
			last = time.Now()
			continue
		case !waits && f.Shards() == shards:
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settlePause):
		}
	}
	return fmt.Errorf("the group did not settle: %d of %d shards are owned; is somebody else in it, or has it another number of shards?", f.Shards(), shards)
}

// round lets each member beat once, and reports whether anybody heard anything new,
// and whether anybody waits for something.
func (f *Fleet) round(ctx context.Context, atOnce int, beat Beat) (changed, waits bool, err error) {
	var next atomic.Int64
	var news, pending atomic.Bool
	errs := make([]error, max(1, min(atOnce, len(f.members))))
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() {
			for errs[i] == nil {
				n := int(next.Add(1)) - 1
				if n >= len(f.members) {
					return
				}
				m := f.members[n]
				r, err := beat(ctx, m.next())
				if err != nil {
					errs[i] = err
					return
				}
				fresh, waits, err := m.hear(r)
				if fresh {
					news.Store(true)
				}
				if waits {
					pending.Store(true)
				}
				errs[i] = err
			}
		})
	}
	wait.Wait()
	return news.Load(), pending.Load(), first(errs)
}

// Live lets each member live until ctx ends: it sends a heartbeat every interval,
// and one more at once when it has heard something that it has to acknowledge. With
// wait the coordinator is asked to hold each answer that long, and the next
// heartbeat follows it at once.
// Errors: those of beat; a coordinator that refuses a member.
func (f *Fleet) Live(ctx context.Context, interval, wait time.Duration, beat Beat) error {
	errs := make([]error, len(f.members))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	for i, m := range f.members {
		offset := interval * time.Duration(i) / time.Duration(len(f.members))
		running.Go(func() {
			if errs[i] = m.live(ctx, offset, interval, wait, beat); errs[i] != nil {
				stop()
			}
		})
	}
	running.Wait()
	return first(errs)
}

// first returns one error of many that say the same, nil if there is none.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *fleetMember) live(ctx context.Context, offset, interval, wait time.Duration, beat Beat) error {
	timer := time.NewTimer(offset)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		q := m.next()
		q.MaxWaitMs = wait.Milliseconds()
		r, err := beat(ctx, q)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		news, waits, err := m.hear(r)
		switch {
		case err != nil:
			return err
		case r.Status == protocol.StatusRetry:
			timer.Reset(retryPause)
		case wait > 0 || news && !waits:
			timer.Reset(0)
		default:
			timer.Reset(interval)
		}
	}
}

// next is the member's next heartbeat.
func (m *fleetMember) next() *protocol.Heartbeat {
	q := &protocol.Heartbeat{
		ProtocolVersion: protocol.Version, RequestID: rand.Text(), MemberID: m.id, Incarnation: m.incarnation,
		MemberEpoch: m.last.MemberEpoch, MetadataVersion: m.last.MetadataVersion,
		Capacity:    protocol.Capacity{MaxConcurrency: 1, AvailableConcurrency: 1},
		OwnedShards: slices.Clone(m.owned), RevokingShards: []protocol.RevokingShard{}, ShardProgress: []protocol.ShardProgress{},
	}
	for _, s := range m.letGo {
		q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: s, State: protocol.RevokeRevoked})
	}
	return q
}

// hear takes an answer over. It reports whether there was something in it that
// the member has to acknowledge, and whether it waits for something: for a shard, or to be
// heard at all.
func (m *fleetMember) hear(r *protocol.HeartbeatResponse) (news, waits bool, err error) {
	switch r.Status {
	case protocol.StatusOK, protocol.StatusRevokePending, protocol.StatusSyncMetadata:
	case protocol.StatusRetry:
		return false, true, nil
	default:
		return false, false, fmt.Errorf("the coordinator refuses member %s: %s: %s", m.id, r.Status, r.Reason)
	}
	owned := make(protocol.Shards, len(r.Assignment.AssignedShards))
	for i, a := range r.Assignment.AssignedShards {
		owned[i] = a.Shard
	}
	slices.Sort(owned)
	var letGo protocol.Shards
	for _, s := range m.owned {
		if _, kept := slices.BinarySearch(owned, s); !kept {
			letGo = append(letGo, s)
		}
	}
	m.tell(owned, letGo)
	news = r.MemberEpoch != m.last.MemberEpoch || !slices.Equal(owned, m.owned) || len(letGo)+len(m.letGo) > 0
	m.owned, m.letGo, m.last = owned, letGo, *r
	return news, len(r.Assignment.PendingShards) > 0, nil
}

// tell says what the member owns now, and what no longer.
func (m *fleetMember) tell(owned, letGo protocol.Shards) {
	if m.watch == nil {
		return
	}
	for _, s := range letGo {
		m.watch.Released(m.id, int(s))
	}
	for _, s := range owned {
		if _, before := slices.BinarySearch(m.owned, s); !before {
			m.watch.Assigned(m.id, int(s))
		}
	}
}
