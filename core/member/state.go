package member

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Config is what a member is.
type Config struct {
	// MemberID names the member in its group; a later process with the same id
	// takes its place.
	MemberID string
	// MemberName is for people; empty means MemberID.
	MemberName string
	// MaxConcurrency is how many handlers run at most, for display.
	MaxConcurrency int
	// MaxWait is how long the coordinator may hold the answer to a heartbeat
	// until something changes; it is capped by protocol.MaxWait. Zero asks for
	// answers at once, so that changes are heard of a heartbeat interval late.
	MaxWait time.Duration
	// Timings are used until the first answer tells those of the group. The
	// zero value means protocol.DefaultTimings.
	Timings protocol.Timings
}

func (c Config) validate() error {
	var errs []error
	errs = append(errs, protocol.ValidateName("memberId", c.MemberID))
	if c.MemberName != "" {
		errs = append(errs, protocol.ValidateName("memberName", c.MemberName))
	}
	if c.MaxConcurrency < 1 {
		errs = append(errs, fmt.Errorf("MaxConcurrency is %d, must be at least 1", c.MaxConcurrency))
	}
	if c.MaxWait < 0 {
		errs = append(errs, fmt.Errorf("MaxWait is %s, must not be negative", c.MaxWait))
	}
	errs = append(errs, c.Timings.Validate())
	return errors.Join(errs...)
}

// phase is where a member stands in its life.
type phase uint8

const (
	// joining: an incarnation asks to be taken in.
	joining phase = iota
	// joined: it was.
	joined
	// stopping: an incarnation was given up, and its shards are still being
	// dropped.
	stopping
	// leaving: says goodbye until nothing is held.
	leaving
	// left: it is over.
	left
)

// hold is how a shard is held.
type hold uint8

const (
	// owned: it may be read.
	owned hold = iota
	// draining: revoked, the application lets go of it.
	draining
	// dropping: the grant under which it was read is no more, another one took
	// its place; the coordinator sees it as draining.
	dropping
	// released: let go of, and the coordinator has not confirmed that it knows.
	released
	// lost: of an incarnation that was given up; a new one waits for it.
	lost
	// stuck: as lost, but nobody waits for it any more.
	stuck
)

// holding is a shard that the application reads or has not let go of, or whose
// release the coordinator does not know yet. While there is one for a shard,
// the shard is not started again.
type holding struct {
	shard protocol.ShardIndex
	token protocol.Epoch
	hold  hold
	// said is true when the outstanding request reports the shard as REVOKED.
	said bool
	// releasedAt is when the application let go.
	releasedAt time.Time
}

// span is a stretch of time that is over when either clock says so: the
// monotonic clock stands still while a machine is suspended, the wall clock may
// be set back.
type span struct {
	from   time.Duration
	wall   time.Time
	length time.Duration
}

func (p span) over(mono time.Duration, wall time.Time) bool {
	return mono-p.from >= p.length || wall.Sub(p.wall) >= p.length
}

func (p span) end() time.Duration { return p.from + p.length }

// outstanding is the latest request, while its answer is awaited.
type outstanding struct {
	// id is empty when there is none.
	id     string
	sent   time.Duration
	wall   time.Time
	giveUp time.Duration
	// wait is how long the coordinator was asked to hold it.
	wait    time.Duration
	epoch   protocol.Epoch
	version int64
	// last is true for a leave that reports nothing as held.
	last bool
}

// State is a member. It is a value: Apply copies what it changes and leaves the
// State that it was given as it was. Make one with New.
type State struct {
	cfg     Config
	phase   phase
	timings protocol.Timings

	// incarnation is drawn with the first request of a life. stopped is the life
	// before it, which reads nothing any more.
	incarnation string
	stopped     string
	epoch       protocol.Epoch
	version     int64

	// leased is true while lease counts.
	leased bool
	lease  span
	// expiry is the lease of the incarnation that was given up, without our
	// margin: when it is over, nobody waits for that incarnation any more.
	expiry span

	out outstanding
	// holdings are sorted by shard.
	holdings []holding
	pending  protocol.Shards

	// news is true when there is something that no request has said yet.
	news bool
	// urgent news does not wait for the outstanding answer.
	urgent bool
	// nextAt is when the next heartbeat is due; notBefore holds news back after
	// failures.
	nextAt    time.Duration
	notBefore time.Duration
	failures  int

	leaveBy time.Duration
	standby bool

	progress []protocol.ShardProgress
	// turn is where the next request's share of the rows begins.
	turn      int
	available int

	// now is the monotonic time of the last Apply.
	now time.Duration
}

// New returns a member that has not joined yet. It joins with the first Tick.
// Errors: all complaints about c, joined.
func New(c Config) (State, error) {
	if c.Timings == (protocol.Timings{}) {
		c.Timings = protocol.DefaultTimings()
	}
	if err := c.validate(); err != nil {
		return State{}, err
	}
	return State{cfg: c, timings: c.Timings, available: c.MaxConcurrency}, nil
}

// Incarnation returns the id of the present life, empty between two.
func (s *State) Incarnation() string { return s.incarnation }

// Epoch returns the member epoch of the last answer, 0 before the first one.
func (s *State) Epoch() protocol.Epoch { return s.epoch }

// Timings returns the timings of the group, as the last answer told them.
func (s *State) Timings() protocol.Timings { return s.timings }

// Lease returns the times on the monotonic and the wall clock at which the
// lease ends: whichever comes first. Without a lease nothing may be read, and
// held is false.
func (s *State) Lease() (mono time.Duration, wall time.Time, held bool) {
	if !s.leased {
		return 0, time.Time{}, false
	}
	return s.lease.end(), s.lease.wall.Add(s.lease.length), true
}

// Owned returns the shards that may be read now, with their tokens, ascending.
func (s *State) Owned() []protocol.AssignedShard {
	var own []protocol.AssignedShard
	for i := range s.holdings {
		if h := &s.holdings[i]; h.hold == owned {
			own = append(own, protocol.AssignedShard{Shard: h.shard, Epoch: h.token})
		}
	}
	return own
}

// Pending returns the shards that the member will get when others let go of
// them, ascending; not to be changed.
func (s *State) Pending() protocol.Shards { return s.pending }

// find returns the place of a shard among the holdings.
func (s *State) find(shard protocol.ShardIndex) (int, bool) {
	return slices.BinarySearchFunc(s.holdings, shard, func(h holding, want protocol.ShardIndex) int {
		return int(h.shard) - int(want)
	})
}

// any reports whether a shard is held in one of the given ways.
func (s *State) any(holds ...hold) bool {
	return slices.ContainsFunc(s.holdings, func(h holding) bool { return slices.Contains(holds, h.hold) })
}
