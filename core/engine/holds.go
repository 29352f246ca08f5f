package engine

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// holds are the heartbeats whose answers wait for a change, at most one for
// each life.
type holds struct {
	byLife map[string]*held
	byID   map[uint64]*held
	// ends has the holds by their end.
	ends endings
	// checked is the state that the holds were last compared with.
	checked *group.View
}

type held struct {
	waiting
	life  string
	until time.Duration
	// place is the index in ends.
	place int
}

func newHolds() holds {
	return holds{byLife: map[string]*held{}, byID: map[uint64]*held{}}
}

func (h *holds) len() int { return len(h.byLife) }

// add holds a request; it returns the one of the same life that was held before,
// which it takes out, nil if there was none.
func (h *holds) add(w waiting, life string, until time.Duration) (before *held) {
	if before = h.byLife[life]; before != nil {
		h.remove(before)
	}
	// Its progress has been taken over, and is not kept for the wait.
	q := *w.q
	q.ShardProgress = nil
	w.q = &q
	entry := &held{waiting: w, life: life, until: until}
	h.byLife[life], h.byID[w.id] = entry, entry
	heap.Push(&h.ends, entry)
	return before
}

func (h *holds) remove(entry *held) {
	delete(h.byLife, entry.life)
	delete(h.byID, entry.id)
	heap.Remove(&h.ends, entry.place)
}

func (h *holds) cancel(id uint64) {
	if entry, there := h.byID[id]; there {
		h.remove(entry)
	}
}

// due takes out the holds that have ended.
func (h *holds) due(now time.Duration) []*held {
	var out []*held
	for len(h.ends) > 0 && h.ends[0].until <= now {
		out = append(out, h.ends[0])
		h.remove(h.ends[0])
	}
	return out
}

// changed takes out the holds whose member has something to hear from v.
func (h *holds) changed(v *group.View) []*held {
	if h.checked == v {
		return nil
	}
	h.checked = v
	return h.takeIf(func(entry *held) bool {
		if v == nil {
			return true
		}
		l, alive := v.Life(entry.life)
		return !alive || l.State != group.Active || l.Epoch != entry.q.MemberEpoch
	})
}

// takeIf takes out holds in the order of their requests, so that the same input
// gives the same output.
func (h *holds) takeIf(want func(*held) bool) []*held {
	var out []*held
	for _, entry := range h.byLife {
		if want(entry) {
			out = append(out, entry)
		}
	}
	slices.SortFunc(out, func(a, b *held) int { return cmp.Compare(a.id, b.id) })
	for _, entry := range out {
		h.remove(entry)
	}
	return out
}

// next is when the next hold ends.
func (h *holds) next() (time.Duration, bool) {
	if len(h.ends) == 0 {
		return 0, false
	}
	return h.ends[0].until, true
}

// endings is a heap of holds by their end.
type endings []*held

func (x endings) Len() int { return len(x) }
func (x endings) Less(i, j int) bool {
	if x[i].until != x[j].until {
		return x[i].until < x[j].until
	}
	return x[i].id < x[j].id
}

func (x endings) Swap(i, j int) {
	x[i], x[j] = x[j], x[i]
	x[i].place, x[j].place = i, j
}

// Push and Pop are for package heap.
func (x *endings) Push(v any) {
	if entry, ok := v.(*held); ok {
		entry.place = len(*x)
		*x = append(*x, entry)
	}
}

// Pop removes the last element.
func (x *endings) Pop() any {
	old := *x
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*x = old[:len(old)-1]
	return last
}

// releaseHolds answers held requests whose wait is over or whose member has
// something to hear. The end of a hold applies nothing: the answer is made from
// the state that was saved.
func (e *Engine) releaseHolds(in Input) {
	for _, entry := range e.holds.changed(e.view) {
		e.answerHeld(entry)
	}
	for _, entry := range e.holds.due(in.Mono) {
		e.answerHeld(entry)
	}
}

func (e *Engine) answerHeld(entry *held) {
	if e.view == nil {
		e.retry(entry.waiting, "the group's state has to be read again: repeat the request")
		return
	}
	if l, alive := e.view.Life(entry.life); !alive || l.State != group.Active {
		e.answer(entry.id, protocol.NewHeartbeatResponse(entry.q, protocol.StatusFencedEpoch,
			"this incarnation is over: stop reading and join as a new one", e.timings()))
		return
	}
	e.answer(entry.id, e.view.Answer(entry.q, entry.life))
}

// supersede releases the held request of the incarnation that a newer one comes
// from.
func (e *Engine) supersede(q *protocol.Heartbeat) {
	if e.view == nil || e.holds.len() == 0 {
		return
	}
	key := group.LifeKey(q.MemberID, q.Incarnation)
	if q.Incarnation == "" {
		l, alive := e.view.Active(q.MemberID)
		if !alive || !l.Legacy {
			return
		}
		key = l.Key()
	}
	if entry, there := e.holds.byLife[key]; there {
		e.holds.remove(entry)
		e.answerHeld(entry)
	}
}
