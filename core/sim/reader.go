package sim

import (
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// What a process does with the shards that it owns: it reads each of them now and then,
// claims what is pending when it begins and once in a lease time, handles what it got, and
// acknowledges it. Each of these takes effect a while later, also when the process has
// been fenced meanwhile.

// tenure is the time for which a process owns a shard.
type tenure struct {
	shard protocol.ShardIndex
	token protocol.Epoch
}

// take is what one read has brought.
type take struct {
	tenure
	records []*record
}

// readEvery bounds the time between two reads of a process.
const readEvery = 700 * time.Millisecond

// poll reads all shards that the process owns.
func (p *process) poll() {
	w := p.w
	w.settled = true
	if !p.up {
		return
	}
	w.after(w.between(readEvery/2, readEvery), p.poll)
	if p.paused() || len(p.reading) == 0 {
		return
	}
	asks := make([]tenure, 0, len(p.reading))
	claims := make([]bool, 0, len(p.reading))
	for _, index := range sorted(p.reading) {
		t := tenure{index, p.reading[index]}
		at, swept := p.swept[t]
		claim := !swept || w.now-at >= w.shape.Timings.Lease
		if claim {
			p.swept[t] = w.now
		}
		asks, claims = append(asks, t), append(claims, claim)
	}
	w.after(w.dataDelay(), func() {
		w.settled = true
		var got []take
		for i, t := range asks {
			sh, there := w.streams.keys[int(t.shard)]
			if !there {
				continue
			}
			records, exists := sh.read(p.groupName, claims[i])
			if !exists && p.reading[t.shard] == t.token {
				// The group alone is gone: the reader makes it anew. It creates no stream.
				sh.create(p.groupName, 0)
			}
			if len(records) > 0 {
				got = append(got, take{t, records})
			}
		}
		if len(got) > 0 {
			w.after(w.between(time.Millisecond, 20*time.Millisecond), func() {
				w.settled = true
				p.do(func() { p.handle(got) })
			})
		}
	})
}

// dataDelay draws the time until a command takes effect in the Redis of the streams.
func (w *world) dataDelay() time.Duration {
	switch {
	case w.chance(w.shape.Late):
		return w.between(w.shape.Timings.Lease/2, 2*w.shape.Timings.Lease)
	case w.chance(w.shape.Middle / 2):
		return w.between(0, w.shape.Timings.HeartbeatInterval)
	}
	return w.between(time.Millisecond, 20*time.Millisecond)
}

// handle works on what was read, if the shard is still this process's, or it is
// finishing its work.
func (p *process) handle(got []take) {
	w := p.w
	kept := got[:0]
	for _, t := range got {
		work, draining := p.working[t.shard]
		mine := p.reading[t.shard] == t.token || (draining && work.token == t.token && !work.lost)
		if !mine {
			continue
		}
		for _, r := range t.records {
			r.handled |= w.bit(p.groupName)
			w.counts.Handled++
		}
		kept = append(kept, t)
	}
	if len(kept) == 0 {
		return
	}
	w.after(w.dataDelay(), func() {
		w.settled = true
		for _, t := range kept {
			if sh, there := w.streams.keys[int(t.shard)]; there {
				for _, r := range sh.acknowledge(p.groupName, t.records) {
					// Also where the group was set back meanwhile.
					r.handled |= w.bit(p.groupName)
				}
			}
		}
	})
}
