package member

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Errors of Apply: mistakes of the driver.
var (
	// ErrInput: the input cannot be used.
	ErrInput = errors.New("unusable input")
	// ErrNotHeld: Released of a shard that was not revoked or lost under this
	// token, or was released before.
	ErrNotHeld = errors.New("the shard is not being let go of under this token")
)

// Apply carries out cmd on s. It returns the next state, what is to be done
// now, and what happened, in order. On an error s is returned unchanged.
// Errors: ErrInput, ErrNotHeld.
func Apply(s State, in Input, cmd Command) (State, Response, []Event, error) {
	if err := check(&s, in, cmd); err != nil {
		return s, Response{}, nil, err
	}
	// Without its monotonic reading, which would make the wall clock stand still
	// together with the monotonic one.
	in.Wall = in.Wall.Round(0)
	c := change{s: s, in: in}
	c.s.now = in.Mono
	if let, ok := cmd.(Released); ok {
		// Before time: the application has let go, it need not be told to drop.
		c.release(let.Shard)
		c.expire()
	} else {
		// Time first: an answer that comes after the lease has ended is too late.
		c.expire()
		c.run(cmd)
	}
	c.next()
	return c.s, c.r, c.events, nil
}

func check(s *State, in Input, cmd Command) error {
	switch {
	case in.ID == "" || len(in.ID) > MaxIDBytes:
		return fmt.Errorf("%w: the id has %d bytes, between 1 and %d are needed", ErrInput, len(in.ID), MaxIDBytes)
	case in.Mono < s.now:
		return fmt.Errorf("%w: the monotonic clock went back from %s to %s", ErrInput, s.now, in.Mono)
	}
	switch cmd := cmd.(type) {
	case nil:
		return fmt.Errorf("%w: no command", ErrInput)
	case Answer:
		if cmd.Response == nil {
			return fmt.Errorf("%w: an answer without a response", ErrInput)
		}
	case Leave:
		if cmd.Within < 0 {
			return fmt.Errorf("%w: a leave within %s", ErrInput, cmd.Within)
		}
	case Released:
		i, found := s.find(cmd.Shard)
		if !found || s.holdings[i].token != cmd.Token || !letGo(s.holdings[i].hold) {
			return fmt.Errorf("%w: shard %d, token %d", ErrNotHeld, cmd.Shard, cmd.Token)
		}
	}
	return nil
}

// letGo reports whether the application has been told to let go of a shard.
func letGo(h hold) bool { return h != owned && h != released }

// change is one Apply in progress: a copy of the state, and what comes of it.
type change struct {
	s State
	// copied is true once the holdings are a copy of our own.
	copied bool
	in     Input
	r      Response
	events []Event
}

func (c *change) on(r rules.Rule) bool { return c.in.Rules.On(r) }

func (c *change) emit(e Event) { c.events = append(c.events, e) }

// holdings returns them for writing.
func (c *change) holdings() []holding {
	if !c.copied {
		c.copied = true
		c.s.holdings = slices.Clone(c.s.holdings)
	}
	return c.s.holdings
}

// drop removes the holdings for which gone says so.
func (c *change) drop(gone func(holding) bool) {
	if slices.ContainsFunc(c.s.holdings, gone) {
		c.s.holdings = slices.DeleteFunc(c.holdings(), gone)
	}
}

func (c *change) run(cmd Command) {
	switch cmd := cmd.(type) {
	case Answer:
		c.answer(cmd.Response)
	case Failed:
		if c.s.out.id != "" && c.s.out.id == cmd.RequestID {
			c.s.out = outstanding{}
			c.backOff()
		}
	case Progress:
		c.progress(cmd)
	case Leave:
		c.leave(cmd.Within)
	}
}

// release notes that the application has let go of a shard.
func (c *change) release(shard protocol.ShardIndex) {
	i, _ := c.s.find(shard)
	switch h := &c.holdings()[i]; h.hold {
	case draining, dropping:
		h.hold, h.releasedAt = released, c.in.Wall
	default:
		// It belonged to an earlier incarnation, of which nothing is reported.
		// If the present one was given the shard meanwhile, the next answer
		// starts it.
		c.s.holdings = slices.Delete(c.s.holdings, i, i+1)
	}
	c.s.news = c.s.news || c.s.phase == joined || c.s.phase == leaving
	if c.s.phase == leaving && !c.s.any(draining, dropping) {
		// Nothing is left but to be heard, and that must not take as long as a
		// handler may.
		c.s.leaveBy = min(c.s.leaveBy, c.s.now+protocol.ClientTimeout(c.s.timings.Lease))
	}
}

func (c *change) progress(p Progress) {
	rows := p.Rows
	byShard := func(a, b protocol.ShardProgress) int { return int(a.Shard) - int(b.Shard) }
	if !slices.IsSortedFunc(rows, byShard) {
		rows = slices.SortedStableFunc(slices.Values(rows), byShard)
	}
	for i := range rows {
		if rows[i].Missing && !c.missing(rows[i].Shard) && c.s.phase == joined {
			c.s.news = true
		}
	}
	c.s.progress = rows
	c.s.available = min(max(p.Available, 0), c.s.cfg.MaxConcurrency)
}

// missing reports whether the last Progress said that a shard's stream is gone.
func (c *change) missing(shard protocol.ShardIndex) bool {
	i, found := slices.BinarySearchFunc(c.s.progress, shard, func(p protocol.ShardProgress, want protocol.ShardIndex) int {
		return int(p.Shard) - int(want)
	})
	return found && c.s.progress[i].Missing
}

// hastyGoodbye bounds the goodbye of a member that was never answered.
const hastyGoodbye = time.Second

// leave begins the goodbye, or brings its end nearer.
func (c *change) leave(within time.Duration) {
	by := c.s.now + within
	switch c.s.phase {
	case left:
		return
	case leaving:
		c.s.leaveBy = min(c.s.leaveBy, by)
		return
	case stopping:
		// There is no incarnation that could say goodbye.
		c.end(false)
		return
	case joining:
		if c.s.incarnation == "" {
			// No join was sent, so nobody has heard of us.
			c.end(true)
			return
		}
	}
	c.s.phase = leaving
	c.s.leaveBy = by
	c.s.pending = nil
	c.s.news, c.s.urgent = true, true
	c.s.notBefore = min(c.s.notBefore, c.s.now)
	deadline := min(by, c.revokeDeadline())
	held := false
	hs := c.holdings()
	for i := range hs {
		switch h := &hs[i]; h.hold {
		case owned:
			h.hold = draining
			held = true
			c.emit(Revoked{Shard: h.shard, Token: h.token, Deadline: deadline})
		case draining, dropping:
			held = true
		}
	}
	if !held {
		c.s.leaveBy = min(by, c.s.now+protocol.ClientTimeout(c.s.timings.Lease))
	}
	if c.s.epoch == protocol.EpochJoin {
		// No coordinator ever answered. A join may have arrived all the same, so
		// it is tried, but nobody has to wait for it.
		c.s.leaveBy = min(c.s.leaveBy, c.s.now+hastyGoodbye)
	}
}

// revokeDeadline is when a shard that is revoked now must have been let go of:
// in time for the coordinator to hear of it. The coordinator counts from when it
// took the shard away, which was up to a heartbeat interval before we heard, on
// a clock that may run faster; past that it fences the whole member.
func (c *change) revokeDeadline() time.Duration {
	t := c.s.timings
	return c.s.now + max(0, t.RebalanceTimeout-t.HeartbeatInterval-protocol.LeaseMargin(t.RebalanceTimeout))
}

// end closes the member. What it still holds is lost.
func (c *change) end(clean bool) {
	c.loseAll()
	c.abandon()
	c.s.leased = false
	c.s.phase = left
	c.s.pending = nil
	c.emit(Left{Clean: clean})
}

// abandon drops the outstanding request.
func (c *change) abandon() {
	if c.s.out.id != "" {
		c.s.out = outstanding{}
		c.r.Abandon = true
	}
}
