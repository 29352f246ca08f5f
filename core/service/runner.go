package service

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// runner drives the engine of one group from one goroutine. Store calls run
// beside it, one at a time, and report back through the inbox.
type runner struct {
	c      *Coordinator
	key    port.GroupKey
	engine *engine.Engine
	inbox  chan message
	ctx    context.Context
	stop   context.CancelFunc
	// users counts requests that are using the runner; guarded by c.mu.
	users int
	// idle is true when the group does not exist and nothing waits.
	idle atomic.Bool
	// view is what is known of the group, nil for nothing.
	view atomic.Pointer[group.View]
	// replies are the callers that wait, by the id that the engine knows.
	replies map[uint64]chan<- protocol.HeartbeatResponse
	nextID  atomic.Uint64
	// unlock releases the mutex while it is held; used by calls only, of which
	// one runs at a time.
	unlock func()
	calls  sync.WaitGroup
	timer  *time.Timer
	ending bool
	// told is the state that was passed on last, known is false when that was that there
	// is none.
	told  *group.View
	known bool
	// answered counts answers, complaints what the engine complained of.
	answered   statusCounts
	complaints uint64
	// conflicts counts writes in a row that met another record; used by calls only.
	conflicts int
}

// message is a happening, with the caller that waits for it, or a question.
type message struct {
	what  engine.Happening
	reply chan<- protocol.HeartbeatResponse
	// look asks for what is known of the group; nothing happens then.
	look chan<- GroupLook
	// engine is the one that asked for an outcome, nil for what any may hear.
	engine *engine.Engine
}

// inboxSize lets a burst of heartbeats in without one goroutine switch each.
const inboxSize = 1024

func newRunner(c *Coordinator, key port.GroupKey) *runner {
	ctx, stop := context.WithCancel(c.life)
	r := &runner{
		c: c, key: key, ctx: ctx, stop: stop,
		inbox:   make(chan message, inboxSize),
		replies: map[uint64]chan<- protocol.HeartbeatResponse{},
		timer:   time.NewTimer(0),
	}
	r.engine = r.newEngine()
	return r
}

// heartbeat hands a request over and waits for its answer.
func (r *runner) heartbeat(ctx context.Context, q *protocol.Heartbeat) protocol.HeartbeatResponse {
	id := r.nextID.Add(1)
	reply, used := r.c.replies.Get().(chan protocol.HeartbeatResponse)
	if !used {
		reply = make(chan protocol.HeartbeatResponse, 1)
	}
	over := func() protocol.HeartbeatResponse {
		return protocol.NewHeartbeatResponse(q, protocol.StatusRetry, protocol.ErrTerminating.Message, r.c.cfg.Timings)
	}
	select {
	case r.inbox <- message{what: engine.Arrived{ID: id, Request: q}, reply: reply}:
	case <-ctx.Done():
		return over()
	case <-r.ctx.Done():
		return over()
	}
	select {
	case a, answered := <-reply:
		if !answered {
			return protocol.NewHeartbeatResponse(q, protocol.StatusRetry, "the group is being read again after a fault: repeat the request", r.c.cfg.Timings)
		}
		// Nobody sends to it any more.
		r.c.replies.Put(reply)
		return a
	case <-ctx.Done():
		r.send(engine.Canceled{ID: id})
		return over()
	case <-r.ctx.Done():
		select {
		case a, answered := <-reply:
			if answered {
				return a
			}
		default:
		}
		return over()
	}
}

// send tells the engine something, unless the runner has ended.
func (r *runner) send(what engine.Happening) {
	select {
	case r.inbox <- message{what: what}:
	case <-r.ctx.Done():
	}
}

// close begins the shutdown; run returns once everything is answered.
func (r *runner) close() {
	r.c.owned.Add(1)
	go func() {
		defer r.c.owned.Done()
		r.send(engine.Closing{})
	}()
}

func (r *runner) run() {
	defer r.timer.Stop()
	defer r.finish()
	for {
		select {
		case m := <-r.inbox:
			if _, closing := m.what.(engine.Closing); closing {
				r.ending = true
			}
			if m.look != nil {
				m.look <- r.look()
			} else {
				r.step(m)
			}
		case <-r.timer.C:
			r.step(message{what: engine.Woke{}})
		case <-r.ctx.Done():
			return
		}
		if r.ending && r.engine.Quiet() && len(r.inbox) == 0 {
			return
		}
	}
}

// finish waits for what is open and gives the mutex back.
func (r *runner) finish() {
	r.stop()
	r.calls.Wait()
	if r.unlock != nil {
		r.unlock()
	}
}

func (r *runner) step(m message) {
	if m.engine != nil && m.engine != r.engine {
		// The outcome of something that an engine before this one asked for.
		return
	}
	switch what := m.what.(type) {
	case engine.Arrived:
		r.replies[what.ID] = m.reply
	case engine.Canceled:
		delete(r.replies, what.ID)
	}
	for _, effect := range r.decide(m.what) {
		r.carryOut(effect)
	}
	r.tellState()
	v, _ := r.engine.View()
	r.view.Store(v)
	r.idle.Store(r.engine.Idle() && len(r.inbox) == 0)
}

// decide steps the engine. A fault in it ends what this group was doing, and
// neither the process nor the group: everybody who waits is told to ask again,
// and a new engine reads the group anew.
func (r *runner) decide(what engine.Happening) (effects []engine.Effect) {
	defer func() {
		fault := recover()
		if fault == nil {
			return
		}
		r.c.cfg.Logger.Error("a fault in the coordinator: the group is read again, please report it",
			"stream", r.key.Stream, "group", r.key.Group, "fault", fmt.Sprint(fault), "stack", string(debug.Stack()))
		effects = []engine.Effect{engine.Unlock{}, engine.WakeAt{Mono: r.c.ports.Clock.Mono() + r.c.cfg.TickInterval}}
		for id, reply := range r.replies {
			delete(r.replies, id)
			close(reply)
		}
		r.engine = r.newEngine()
		if r.ending {
			r.engine.Step(r.c.input(), engine.Closing{})
		}
	}()
	return r.engine.Step(r.c.input(), what)
}

func (r *runner) newEngine() *engine.Engine {
	return engine.New(engine.Config{
		Stream: r.key.Stream, Group: r.key.Group, TickInterval: r.c.cfg.TickInterval, Timings: r.c.cfg.Timings,
	})
}

func (r *runner) carryOut(effect engine.Effect) {
	switch e := effect.(type) {
	case engine.Answer:
		if reply, waits := r.replies[e.ID]; waits {
			delete(r.replies, e.ID)
			reply <- e.Response
			r.answered.add(e.Response.Status)
		}
	case engine.WakeAt:
		r.timer.Reset(max(0, e.Mono-r.c.ports.Clock.Mono()))
	case engine.Publish:
		r.c.publish(r.key, e.Events)
	case engine.Complain:
		r.complaints++
		r.c.cfg.Logger.Error("group stopped", "stream", r.key.Stream, "group", r.key.Group, "err", e.Err)
	case engine.Load:
		r.call(func(ctx context.Context) engine.Happening { return r.load(ctx, e) })
	case engine.Renew:
		r.call(func(ctx context.Context) engine.Happening { return r.renew(ctx, e) })
	case engine.Save:
		r.call(func(ctx context.Context) engine.Happening { return r.save(ctx, e) })
	case engine.Ensure:
		r.call(func(ctx context.Context) engine.Happening {
			return engine.Ensured{Err: r.c.ensureForJoin(ctx, r.key)}
		})
	case engine.Unlock:
		// The call that locked it is over: a mutex is only ever open between
		// calls.
		if r.unlock != nil {
			unlock := r.unlock
			r.unlock = nil
			r.calls.Add(1)
			go func() {
				defer r.calls.Done()
				unlock()
			}()
		}
	}
}

// call runs a store call beside the loop and sends its outcome back.
func (r *runner) call(do func(ctx context.Context) engine.Happening) {
	r.calls.Add(1)
	asked := r.engine
	go func() {
		defer r.calls.Done()
		ctx, cancel := context.WithTimeout(r.ctx, r.c.cfg.CallTimeout)
		defer cancel()
		done := message{what: do(ctx), engine: asked}
		select {
		case r.inbox <- done:
		case <-r.ctx.Done():
		}
	}()
}

func (r *runner) load(ctx context.Context, l engine.Load) engine.Happening {
	if l.Lock && r.c.ports.Mutex != nil {
		unlock, err := r.c.ports.Mutex.LockGroup(ctx, r.key)
		if err != nil {
			r.c.storeTrouble(ctx, "lock group", err)
			return engine.Loaded{Err: err}
		}
		r.unlock = unlock
	}
	rec, err := r.c.ports.Store.LoadGroup(ctx, r.key, port.Version(l.Known))
	if err != nil {
		r.c.storeTrouble(r.ctx, "load group", err) //nolint:contextcheck // A call that timed out is trouble, the end of the runner is not.
		return engine.Loaded{Err: err}
	}
	r.c.health.storeUp(r.c.cfg.Logger)
	return engine.Loaded{Version: engine.Version(rec.Version), Body: rec.Body, Stamps: rec.Stamps}
}

func (r *runner) renew(ctx context.Context, n engine.Renew) engine.Happening {
	err := r.c.ports.Store.RenewGroup(ctx, r.key, port.Renewal{
		Expected: port.Version(n.Expected), Stamps: stamps(n.Stamps), Reports: reports(n.Reports),
	})
	return engine.Renewed{Outcome: r.outcome("renew leases", operationOf(n.Stamps), err), Err: err}
}

func (r *runner) save(ctx context.Context, s engine.Save) engine.Happening {
	v, err := r.c.ports.Store.SaveGroup(ctx, r.key, port.GroupSave{
		Expected: port.Version(s.Expected), Relied: stamps(s.Relied), Nonce: s.Nonce, Body: s.Body,
		SchemaVersion: group.SchemaVersion, UpdatedAt: s.UpdatedAt.UTC().Format(time.RFC3339Nano),
		Stamps: stamps(s.Stamps), Reports: reports(s.Reports), Ended: s.Ended,
	})
	return engine.Saved{Outcome: r.outcome("save group", operationOf(s.Stamps), err), Err: err, Version: engine.Version(v)}
}

// What a write was for, when it is in conflict.
const (
	onHeartbeat   = "heartbeat"
	onTick        = "tick-refresh"
	onGroupChange = "change-group"
)

// operationOf says what a write with stamps was for: those of heartbeats come first,
// marks in place of stamps that were lost are written at ticks alone.
func operationOf(stamps []engine.Stamp) string {
	if len(stamps) > 0 {
		if _, heard := engine.StampTime(stamps[0].Value); heard {
			return onHeartbeat
		}
	}
	return onTick
}

func (r *runner) outcome(what, operation string, err error) engine.Outcome {
	switch {
	case err == nil:
		r.conflicts = 0
		return engine.Done
	case errors.Is(err, port.ErrConflict):
		r.conflicts++
		r.c.conflict(operation, r.conflicts)
		return engine.Conflict
	case errors.Is(err, port.ErrTooLarge):
		return engine.Refused
	default:
		r.c.storeTrouble(r.ctx, what, err)
		return engine.Unknown
	}
}

func stamps(in []engine.Stamp) []port.Stamp {
	out := make([]port.Stamp, len(in))
	for i, s := range in {
		out[i] = port.Stamp(s)
	}
	return out
}

func reports(in []engine.Report) []port.Report {
	out := make([]port.Report, len(in))
	for i, s := range in {
		out[i] = port.Report(s)
	}
	return out
}
