package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/member"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// Why a heartbeat in flight ends that is of no use any more.
var (
	errSuperseded = errors.New("a newer heartbeat takes its place")
	errTooLate    = errors.New("no answer in time")
)

// agent drives the protocol: it owns the member's state, and is the only one to
// touch it. What happens comes in through channels; what is to be done goes out
// as a request in flight and as steps of shards. It never blocks on either.
type agent struct {
	cfg       *Config
	transport Transport
	lifecycle Lifecycle
	gate      *gate
	observing *observing
	log       *slog.Logger
	// progress, if set, tells how far the shards have come.
	progress func() (rows []protocol.ShardProgress, idle int)

	// start is the zero of the monotonic clock that the member lives by.
	start time.Time
	state member.State

	// news is poked when progress is worth a look.
	news     chan struct{}
	released chan member.Released
	answers  chan outcome
	// over is closed when the member has left: nobody receives any more.
	over chan struct{}

	// drop ends the request in flight, which has failed at giveUpAt.
	drop     context.CancelCauseFunc
	giveUpAt time.Duration
	requests sync.WaitGroup
	// telling is set while the observer is told of a heartbeat.
	telling atomic.Bool

	shards map[protocol.ShardIndex]*tenure
	// tenures counts the goroutines of shards.
	tenures sync.WaitGroup
	// cause is why shards are lost, if they are.
	cause error
	// endAt is when handlers must end because the consumer shuts down.
	endAt time.Time
	// joined: a coordinator has answered, in this life or one before.
	joined bool
	// waitingFor keeps the log from repeating itself.
	waitingFor member.Waiting
	// ailment is what keeps heartbeats from being answered.
	ailment complaint
}

// outcome is what became of a request.
type outcome struct {
	id       string
	response *protocol.HeartbeatResponse
	err      error
}

func newAgent(cfg *Config, transport Transport, lifecycle Lifecycle, g *gate, o *observing) (*agent, error) {
	state, err := member.New(member.Config{
		MemberID: cfg.MemberID, MemberName: cfg.MemberName, MaxConcurrency: cfg.handlers(), MaxWait: cfg.MaxWait,
	})
	if err != nil {
		return nil, err
	}
	return &agent{
		cfg: cfg, transport: transport, lifecycle: lifecycle, gate: g, observing: o, state: state,
		log:      cfg.Logger.With(slog.String("stream", cfg.Stream), slog.String("group", cfg.Group), slog.String("member", cfg.MemberID)),
		news:     make(chan struct{}, 1),
		released: make(chan member.Released),
		answers:  make(chan outcome),
		over:     make(chan struct{}),
		shards:   map[protocol.ShardIndex]*tenure{},
	}, nil
}

// poke makes the agent look at the progress.
func (a *agent) poke() {
	select {
	case a.news <- struct{}{}:
	default:
	}
}

// run lives the member's life. It begins to leave when ctx ends, and ends at
// once when abort is closed. When it returns, no request is in flight; shards
// may still be on their way out, see tenures.
func (a *agent) run(ctx context.Context, abort <-chan struct{}) {
	a.start = time.Now()
	stop := ctx.Done()
	// The goodbye and what leads to it outlive the context.
	ctx = context.WithoutCancel(ctx)
	wake := time.NewTimer(0)
	defer wake.Stop()
	for done := false; !done; {
		var r member.Response
		select {
		case <-wake.C:
			r = a.step(ctx, member.Tick{})
		case <-a.news:
			r = a.step(ctx, member.Tick{})
		case x := <-a.released:
			r = a.step(ctx, x)
		case o := <-a.answers:
			r = a.settle(ctx, o)
		case <-stop:
			stop = nil
			a.log.Info("leaving", slog.Duration("within", a.cfg.ShutdownTimeout))
			// Handlers end a little earlier, so that the goodbye still gets out.
			a.endAt = time.Now().Add(a.cfg.ShutdownTimeout - min(a.cfg.ShutdownTimeout/10, 500*time.Millisecond))
			r = a.step(ctx, member.Leave{Within: a.cfg.ShutdownTimeout})
		case <-abort:
			abort = nil
			a.endAt = time.Now()
			r = a.step(ctx, member.Leave{})
		}
		done = r.Done
		wake.Reset(time.Until(a.start.Add(r.WakeAt)))
	}
	close(a.over)
	a.requests.Wait()
}

// settle applies what became of a request.
func (a *agent) settle(ctx context.Context, o outcome) member.Response {
	if o.err != nil {
		if !errors.Is(o.err, errSuperseded) {
			if attempts, since, say := a.ailment.note(fault{faultNoAnswer, "reading goes on until the lease ends: see to the coordinator and the way to it"}, o.err); say {
				a.log.Warn("the coordinator did not answer a heartbeat", slog.Int("attempts", attempts),
					slog.Duration("for", time.Since(since).Round(time.Millisecond)), slog.Duration("lease_left", a.gate.left().Round(time.Millisecond)), slog.Any("err", o.err))
			}
		}
		return a.step(ctx, member.Failed{RequestID: o.id})
	}
	if o.response.Status.RenewsLease() {
		if attempts, since, say := a.ailment.over(); say {
			a.log.Info("the coordinator answers again", slog.Int("attempts", attempts), slog.Duration("after", time.Since(since).Round(time.Millisecond)))
		}
	}
	return a.step(ctx, member.Answer{Response: o.response})
}

// step applies a command, with the progress before it, and carries out what
// comes of it.
func (a *agent) step(ctx context.Context, cmd member.Command) member.Response {
	if x, ok := cmd.(member.Released); ok {
		if t := a.shards[x.Shard]; t != nil && t.shard.Token == int64(x.Token) {
			delete(a.shards, x.Shard)
		}
	} else if a.progress != nil {
		rows, idle := a.progress()
		r := a.apply(ctx, member.Progress{Rows: rows, Available: idle})
		if r.Done {
			return r
		}
	}
	return a.apply(ctx, cmd)
}

func (a *agent) apply(ctx context.Context, cmd member.Command) member.Response {
	now := time.Now()
	in := member.Input{Mono: now.Sub(a.start), Wall: now.Round(0), ID: newID()}
	next, r, events, err := member.Apply(a.state, in, cmd)
	if err != nil {
		// Only a defect of this driver leads here; the state is as it was.
		a.log.Error("a step of the member was refused", slog.Any("err", err))
		next, r, events, err = member.Apply(a.state, in, member.Tick{})
		if err != nil {
			return member.Response{WakeAt: in.Mono + time.Second}
		}
	}
	a.state = next
	a.openGate()
	for _, e := range events {
		a.happened(ctx, e)
	}
	if r.Abandon && a.drop != nil {
		why := errSuperseded
		if in.Mono >= a.giveUpAt {
			// The state notices it as its driver does, at the same moment. It is a
			// failure all the same: whoever was asked is not to be asked again.
			why = errTooLate
		}
		a.drop(why)
		a.drop = nil
	}
	if r.Send != nil {
		a.send(ctx, r.Send, r.GiveUpAt)
	}
	return r
}

// openGate tells readers how long the lease lasts.
func (a *agent) openGate() {
	e := leaseEnd{lease: a.state.Timings().Lease}
	if mono, wall, held := a.state.Lease(); held {
		e.mono, e.wall = a.start.Add(mono), wall
	}
	a.gate.set(e)
}

// send puts a request on its way.
func (a *agent) send(ctx context.Context, q *protocol.Heartbeat, giveUpAt time.Duration) {
	ctx, drop := context.WithCancelCause(ctx)
	a.drop, a.giveUpAt = drop, giveUpAt
	a.requests.Go(func() {
		defer drop(nil)
		ctx, done := context.WithDeadline(ctx, a.start.Add(giveUpAt))
		defer done()
		sent := time.Now()
		r, err := a.transport.Heartbeat(ctx, q)
		switch {
		case errors.Is(context.Cause(ctx), errSuperseded):
			r, err = nil, errSuperseded
		case err == nil && r == nil:
			err = errors.New("the transport returned no answer and no error")
		case err == nil && r.ResponseTo != q.RequestID:
			// It would be ignored, and nothing sent before the time is up.
			err = fmt.Errorf("what came is not the answer to the heartbeat but to %.40q: check that a coordinator is asked", r.ResponseTo)
		}
		e := HeartbeatEvent{RoundTrip: time.Since(sent), Err: err}
		if err == nil {
			e.Status = r.Status
		}
		select {
		case a.answers <- outcome{q.RequestID, r, err}:
		case <-a.over:
		}
		// Only now: nobody is to wait for an observer with the lease in hand.
		// And an observer that does not return is to hold one goroutine only.
		if !errors.Is(err, errSuperseded) && a.telling.CompareAndSwap(false, true) {
			notify(a.observing, Observer.Heartbeat, e)
			a.telling.Store(false)
		}
	})
}

// happened logs an event and hands it on to the shard.
func (a *agent) happened(ctx context.Context, e member.Event) {
	switch e := e.(type) {
	case member.Joined:
		a.joined, a.waitingFor, a.cause = true, member.Waiting{}, nil
		a.log.Info("joined", slog.String("incarnation", e.Incarnation), slog.Int64("epoch", int64(e.Epoch)))
	case member.Assigned:
		a.assign(ctx, e)
	case member.Revoked:
		a.revoke(e)
	case member.Lost:
		a.lose(e)
	case member.LeaseEnded:
		a.cause = ErrLeaseEnded
		a.log.Warn("the lease ended: all reading stops until a coordinator answers")
	case member.Fenced:
		a.cause = ErrFenced.With("%s: %s", e.Status, e.Reason)
		a.log.Warn("the coordinator ended this incarnation: all reading stops, then it joins again",
			slog.String("status", string(e.Status)), slog.String("reason", e.Reason))
	case member.Waiting:
		if e != a.waitingFor {
			a.waitingFor = e
			a.log.Warn("the coordinator did not take a heartbeat", slog.String("status", string(e.Status)), slog.String("reason", e.Reason))
		}
	case member.Standby:
		a.log.Info("nothing to read: other members have all shards, or have to let go of ours first", slog.Any("pending", e.Pending))
	case member.Left:
		switch {
		case e.Clean:
			a.log.Info("left")
		case !a.joined:
			a.log.Warn("ended before a coordinator let it join")
		default:
			a.log.Warn("left without a goodbye: what was held is free when the lease runs out")
		}
	}
}

func (a *agent) assign(ctx context.Context, e member.Assigned) {
	ctx, t := newTenure(ctx, Shard{
		Stream: a.cfg.Stream, Index: int(e.Shard), Key: routing.StreamKey(a.cfg.Stream, int(e.Shard)), Token: int64(e.Token),
	})
	a.shards[e.Shard] = t
	a.log.Info("shard assigned", slog.Int("shard", t.shard.Index), slog.Int64("token", t.shard.Token))
	a.tenures.Go(func() {
		t.run(ctx, a.lifecycle, a.log, a.observing)
		select {
		case a.released <- member.Released(e):
		case <-a.over:
		}
	})
}

func (a *agent) revoke(e member.Revoked) {
	deadline, cause := a.start.Add(e.Deadline), error(ErrRevokeTimeout)
	if !a.endAt.IsZero() && a.endAt.Before(deadline) {
		deadline, cause = a.endAt, ErrShutdownTimeout
	}
	a.log.Info("shard revoked", slog.Int("shard", int(e.Shard)), slog.Duration("within", time.Until(deadline).Round(time.Millisecond)))
	if t := a.shards[e.Shard]; t != nil {
		t.revoke(deadline, cause)
	}
}

func (a *agent) lose(e member.Lost) {
	cause := a.cause
	switch {
	case cause != nil:
	case !a.endAt.IsZero():
		cause = ErrShutdownTimeout
	default:
		cause = ErrGrantReplaced
	}
	a.log.Warn("shard lost", slog.Int("shard", int(e.Shard)), slog.Any("err", cause))
	if t := a.shards[e.Shard]; t != nil {
		t.lose(cause)
	}
}
