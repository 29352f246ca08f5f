package sim

import (
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// legacy is a client of the existing implementation: it sends no incarnation,
// beats at a fixed interval, has no lease of its own, reports a revoked shard
// once, and says goodbye with one request. It is judged by the lease that it was
// given, although the real one reads on beyond it.
type legacy struct {
	w         *world
	groupName string
	id        string
	proc      string
	up        bool
	leaving   bool
	resumes   time.Duration

	epoch   protocol.Epoch
	version int64
	owned   map[protocol.ShardIndex]bool
	// draining are shards that it lets go of, with the time at which it is done.
	draining map[protocol.ShardIndex]time.Duration
	// leaseUntil is the end of the lease that it was given.
	leaseUntil time.Duration
	request    int
	waiting    bool
}

// legacyTimeout is when its HTTP client gives up.
const legacyTimeout = 5 * time.Second

func newLegacy(w *world, group, id, proc string) *legacy {
	l := &legacy{
		w: w, groupName: group, id: id, proc: proc, up: true,
		owned: map[protocol.ShardIndex]bool{}, draining: map[protocol.ShardIndex]time.Duration{},
	}
	w.logf("%s starts, an old client", proc)
	w.counts.LegacyStarts++
	l.round()
	return l
}

func (l *legacy) name() string              { return l.proc }
func (l *legacy) member() string            { return l.id }
func (l *legacy) group() string             { return l.groupName }
func (l *legacy) running() bool             { return l.up && !l.leaving }
func (l *legacy) gone() bool                { return !l.up }
func (l *legacy) pause(until time.Duration) { l.resumes = until }

func (l *legacy) paused() bool { return l.w.now < l.resumes }

func (l *legacy) crash() {
	l.up = false
	l.w.watch.over(l.w, l.id, l.proc)
	clear(l.owned)
	clear(l.draining)
}

// leave says goodbye once: what is idle is reported REVOKED, the rest as
// draining, and nothing more is ever said.
func (l *legacy) leave() {
	l.leaving = true
	q := l.heartbeat()
	q.MemberEpoch = protocol.EpochLeave
	for _, shard := range sorted(l.owned) {
		q.RevokingShards = append(q.RevokingShards, protocol.RevokingShard{Shard: shard, State: protocol.RevokeRevoked})
	}
	clear(l.owned)
	l.send(q, func(protocol.HeartbeatResponse) {})
	l.w.after(300*time.Millisecond, l.crash)
}

func (l *legacy) heartbeat() *protocol.Heartbeat {
	q := &protocol.Heartbeat{
		ProtocolVersion: 1, RequestID: l.w.id("l"), MemberID: l.id, MemberEpoch: l.epoch, MetadataVersion: l.version,
		Capacity: protocol.Capacity{MaxConcurrency: 1, AvailableConcurrency: 1}, OwnedShards: sorted(l.owned),
	}
	for _, shard := range sorted(l.draining) {
		r := protocol.RevokingShard{Shard: shard, State: protocol.RevokeDraining, InFlight: 1}
		if l.w.now >= l.draining[shard] {
			r.State, r.InFlight = protocol.RevokeRevoked, 0
		}
		q.RevokingShards = append(q.RevokingShards, r)
	}
	return q
}

// round is one turn of its loop.
func (l *legacy) round() {
	if !l.running() {
		return
	}
	l.w.after(l.w.shape.Timings.HeartbeatInterval, l.round)
	if l.waiting || l.w.now < l.resumes {
		return
	}
	q := l.heartbeat()
	for _, r := range q.RevokingShards {
		if r.Terminal() {
			// Reported once, whatever becomes of the request.
			delete(l.draining, r.Shard)
		}
	}
	l.waiting = true
	l.request++
	request, sent := l.request, l.w.now
	l.send(q, func(r protocol.HeartbeatResponse) {
		if l.running() && l.request == request && l.waiting {
			l.waiting = false
			l.handle(r, sent)
		}
	})
	l.w.after(legacyTimeout, func() {
		if l.request == request {
			l.waiting = false
		}
	})
}

func (l *legacy) send(q *protocol.Heartbeat, answer func(protocol.HeartbeatResponse)) {
	c := l.w.coords[l.w.rng.IntN(len(l.w.coords))]
	l.w.counts.Heartbeats++
	l.w.transmit(l.proc, c.name, func() {
		c.receive(l.groupName, q, func(r protocol.HeartbeatResponse) {
			l.w.transmit(c.name, l.proc, func() { answer(r) })
		})
	})
}

func (l *legacy) handle(r protocol.HeartbeatResponse, sent time.Duration) {
	switch r.Status {
	case protocol.StatusOK, protocol.StatusSyncMetadata, protocol.StatusRevokePending:
		l.epoch, l.version = r.MemberEpoch, r.MetadataVersion
		l.leaseUntil = sent + time.Duration(r.MemberLeaseTTLMs)*time.Millisecond
		l.take(r)
	case protocol.StatusUnknownMember, protocol.StatusFencedEpoch:
		l.w.logf("%s is fenced: %s %s", l.proc, r.Status, r.Reason)
		l.w.counts.LegacyFences++
		l.epoch, l.version = 0, 0
		clear(l.owned)
		clear(l.draining)
	}
}

func (l *legacy) take(r protocol.HeartbeatResponse) {
	assigned := map[protocol.ShardIndex]bool{}
	for _, s := range r.Assignment.AssignedShards {
		assigned[s.Shard] = true
		if _, drains := l.draining[s.Shard]; r.Status == protocol.StatusOK && !l.owned[s.Shard] && !drains {
			l.w.logf("%s reads shard %d (%d)", l.proc, s.Shard, s.Epoch)
			l.owned[s.Shard] = true
		}
	}
	for _, shard := range sorted(l.owned) {
		if !assigned[shard] {
			l.w.logf("%s lets go of shard %d", l.proc, shard)
			delete(l.owned, shard)
			l.draining[shard] = l.w.now + l.w.between(0, 300*time.Millisecond)
		}
	}
}

func (l *legacy) reads() []protocol.ShardIndex {
	if !l.up || l.w.now >= l.leaseUntil {
		return nil
	}
	return sorted(l.owned)
}

func (l *legacy) inFlight() []protocol.ShardIndex {
	if !l.up || l.w.now >= l.leaseUntil {
		return nil
	}
	var out []protocol.ShardIndex
	for _, shard := range sorted(l.draining) {
		if l.w.now < l.draining[shard] {
			out = append(out, shard)
		}
	}
	return out
}
