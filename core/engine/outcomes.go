package engine

import (
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// loaded takes a load over: it refreshes the cache, looks at the leases, and
// goes on with what waits.
func (e *Engine) loaded(in Input, l Loaded) {
	if e.phase != loading {
		return
	}
	if l.Err != nil {
		e.giveUp("the metadata store cannot be reached: repeat the request")
		return
	}
	if l.Version.Revision == 0 {
		e.missing(in)
		return
	}
	moved := l.Version != e.known || e.view == nil
	if moved {
		state, err := group.Decode(l.Body)
		if err != nil {
			e.fail(err)
			return
		}
		e.landed(l.Version)
		// One that could not be saved yet stays due, unless another coordinator
		// has opened one.
		if k := e.wentBackwards(&state, l.Version.Instance); k != nil || state.Correction != nil {
			e.correction = k
		}
		e.adopt(group.NewView(&state), l.Version)
	}
	if e.clocks.observe(in.Mono, e.gap(), l.Version.Instance, e.view, l.Stamps) || moved {
		e.clocks.adopt(in.Mono, e.view)
	}
	e.saving, e.fresh = nil, true
	e.releaseHolds(in)
	e.work(in)
}

// landed publishes the events of a save whose reply was lost, if it is what was
// found now.
func (e *Engine) landed(found Version) {
	if e.saving != nil && e.saving.save.Nonce == found.Nonce {
		e.do(Publish{e.saving.events})
	}
}

// wentBackwards returns the correction to open if the state that was found
// cannot have followed on what was seen before: another instance of the store
// answers than the one it was saved in, or the last save that this coordinator
// saw is not among its last ones.
func (e *Engine) wentBackwards(found *group.State, instance string) *group.Correct {
	cmd := group.Correct{Seen: e.seen.epoch, SeenVersion: e.seen.version}
	switch {
	case found.Instance != "" && found.Instance != instance && e.cfg.Rules.On(rules.InstanceIsNoticed):
		cmd.Reason = group.AnotherInstance
	case e.seen.save.Revision > 0 && e.seen.created.Equal(found.CreatedAt) && !found.Remembers(e.seen.save) && e.cfg.Rules.On(rules.RingIsCompared):
		cmd.Reason = "the store has lost writes that this coordinator has seen"
	default:
		return nil
	}
	return &cmd
}

// gap is how long polling may pause before what was seen earlier no longer
// counts: half a lease, but never less than a few ticks.
func (e *Engine) gap() time.Duration {
	return max(e.timings().Lease/2, 3*e.cfg.TickInterval)
}

// missing decides what a group without an aggregate means: a join may create
// it, everything else is unknown.
func (e *Engine) missing(in Input) {
	e.forget()
	e.absent = true
	e.releaseHolds(in)
	rest := e.batch[:0]
	for _, w := range e.batch {
		if isJoin(w) && w.q.ProtocolVersion == protocol.Version {
			rest = append(rest, w)
			continue
		}
		e.answer(w.id, protocol.NewHeartbeatResponse(w.q, protocol.StatusUnknownMember, "no such group, or no such member in it", e.cfg.Timings))
	}
	e.batch = rest
	switch {
	case len(e.batch) == 0:
		e.endCycle()
	case e.ensured:
		e.giveUp("the group was created but its record is not there: repeat the request")
	default:
		e.phase = ensuring
		e.do(Ensure{})
	}
}

// ensuredGroup goes on after the stream was asked to create the group.
func (e *Engine) ensuredGroup(h Ensured) {
	if e.phase != ensuring {
		return
	}
	if h.Err == nil {
		e.ensured = true
		e.load()
		return
	}
	status, reason := Refusal(h.Err)
	for _, w := range e.batch {
		e.answer(w.id, protocol.NewHeartbeatResponse(w.q, status, reason, e.cfg.Timings))
	}
	e.batch = nil
	e.endCycle()
}

func (e *Engine) renewed(in Input, h Renewed) {
	if e.phase != renewing {
		return
	}
	r := e.renewing
	switch h.Outcome {
	case Done:
		e.renewedLeases(in.Mono, r.proofs)
		e.marked(in, r.proofs.marks)
		e.answerAll(r.asked, r.answers)
		e.gathering.served(len(r.asked), in.Mono)
		e.endCycle()
	case Conflict:
		e.again()
	default:
		e.giveUp("the metadata store cannot be reached: repeat the request")
	}
}

func (e *Engine) saved(in Input, h Saved) {
	if e.phase != saving {
		return
	}
	s := e.saving
	switch h.Outcome {
	case Done:
		e.adopt(s.view, h.Version)
		e.correction = nil
		e.clocks.adopt(in.Mono, e.view)
		e.clocks.renewed(in.Mono, s.save.Stamps)
		e.answerAll(s.asked, s.resp.Answers)
		e.gathering.served(len(s.asked), in.Mono)
		e.do(Publish{s.events})
		e.marked(in, s.marks)
		e.endCycle()
		e.releaseHolds(in)
	case Conflict:
		e.collided = true
		e.again()
	case Refused:
		e.unwritable(in, h.Err)
	default:
		// It may have been written: the load shows it, and every command can be
		// applied again.
		e.again()
	}
}

// again reloads and applies the batch anew, a bounded number of times.
func (e *Engine) again() {
	e.attempts++
	e.renewing = nil
	if e.attempts >= maxAttempts {
		e.forget()
		e.giveUp("the group's state changed again and again: repeat the request")
		return
	}
	e.load()
}

// Refusal turns the answer of the stream into the answer of a join.
func Refusal(err error) (protocol.Status, string) {
	told := asProtocol(err)
	switch {
	case told == nil:
		return protocol.StatusRetry, "the group could not be created: repeat the request"
	case told.Is(protocol.ErrGroupNotFound) || told.Is(protocol.ErrStreamNotFound):
		return protocol.StatusUnknownMember, told.Message
	case told.Is(protocol.ErrLimit) || told.Is(protocol.ErrInvalidRequest):
		return protocol.StatusInvalidRequest, told.Message
	}
	return protocol.StatusRetry, told.Message
}
