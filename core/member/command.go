package member

import (
	"time"

	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Input is everything that a decision may depend on besides state and command.
type Input struct {
	// Mono is the monotonic time since an arbitrary start; it never goes back.
	Mono time.Duration
	// Wall is the wall time. It may jump, and unlike Mono it goes on while the
	// machine is suspended.
	Wall time.Time
	// ID is a fresh random id, never used before, of at most MaxIDBytes.
	ID string
	// Rules switches rules off, in tests only.
	Rules rules.Set
}

// MaxIDBytes bounds Input.ID, which becomes part of request ids and incarnations.
const MaxIDBytes = 128

// Command is something that happened to a member.
type Command interface{ isCommand() }

// Tick lets time pass. The driver applies it at Response.WakeAt.
type Tick struct{}

// Answer is the answer to a request. It is applied whenever it comes; one that
// no longer counts is ignored.
type Answer struct{ Response *protocol.HeartbeatResponse }

// Failed says that a request got no answer: refused, broken off, unreadable.
// One that is no longer outstanding is ignored.
type Failed struct{ RequestID string }

// Released says that the application has let go of a shard that was Revoked or
// Lost: nothing of it is read or in flight any more.
type Released struct {
	Shard protocol.ShardIndex
	// Token is the one that the shard was assigned with.
	Token protocol.Epoch
}

// Progress says how far the shards have come, for display; the rows replace
// those of the last Progress. A row that says Missing for the first time is sent
// at once, since it asks the coordinator to provision the stream again.
type Progress struct {
	// Rows belong to the state from now on and must not be changed.
	Rows []protocol.ShardProgress
	// Available is how many handlers are idle.
	Available int
}

// Leave ends the member: all shards are revoked, no other is taken, and the
// coordinator is told until nothing is held. A second Leave can only bring the
// end nearer.
type Leave struct {
	// Within bounds the goodbye. What is still held at its end is Lost.
	Within time.Duration
}

func (Tick) isCommand()     {}
func (Answer) isCommand()   {}
func (Failed) isCommand()   {}
func (Released) isCommand() {}
func (Progress) isCommand() {}
func (Leave) isCommand()    {}

// Response is what the driver is to do now.
type Response struct {
	// Abandon says that the request in flight is of no use any more; its answer
	// would be ignored.
	Abandon bool
	// Send is a request to send now, nil for none. It must not be changed.
	Send *protocol.Heartbeat
	// GiveUpAt is the time on the monotonic clock at which the driver may break
	// Send off; the state gives up on it then by itself.
	GiveUpAt time.Duration
	// WakeAt is the time on the monotonic clock at which a Tick is due at the
	// latest. It is never later than the end of the lease. Without meaning when
	// Done.
	WakeAt time.Duration
	// Done says that the member has left and nothing is to be done any more,
	// but for Released of shards that were still held.
	Done bool
}

// Event is something that happened, for the application, logs and metrics.
type Event interface{ isEvent() }

// Joined: the coordinator took the incarnation in.
type Joined struct {
	Incarnation string
	Epoch       protocol.Epoch
}

// Assigned: the shard may be read from now on.
type Assigned struct {
	Shard protocol.ShardIndex
	// Token rises with each new holder of the shard; an application can fence
	// its own store with it.
	Token protocol.Epoch
}

// Revoked: reading the shard must stop at once; what is being handled may
// finish. The driver answers with Released, at Deadline at the latest.
type Revoked struct {
	Shard protocol.ShardIndex
	Token protocol.Epoch
	// Deadline is on the monotonic clock. It lies somewhat before the end of the
	// rebalance timeout.
	Deadline time.Duration
}

// Lost: the shard is not ours any more, or may not be. Reading must stop at
// once, what was fetched is dropped, handlers are cancelled and nothing is
// acknowledged. It comes instead of Revoked or after it. The driver answers
// with Released when all of that is done.
type Lost struct {
	Shard protocol.ShardIndex
	Token protocol.Epoch
}

// LeaseEnded: no answer came in time, so the incarnation was given up.
type LeaseEnded struct{ Incarnation string }

// Fenced: the coordinator says that the incarnation is over.
type Fenced struct {
	Incarnation string
	Status      protocol.Status
	Reason      string
}

// Waiting: the coordinator did not take a request; it is repeated. Reason says
// what is waited for.
type Waiting struct {
	Status protocol.Status
	Reason string
}

// Standby: the member has joined and there is no shard for it, because the
// group has more members than shards or others have to let go first.
type Standby struct {
	// Pending are the shards that it will get from others.
	Pending protocol.Shards
}

// Left: the member has ended.
type Left struct {
	// Clean is true when the coordinator knows that nothing is held any more;
	// otherwise what was held becomes free when the lease runs out.
	Clean bool
}

func (Joined) isEvent()     {}
func (Assigned) isEvent()   {}
func (Revoked) isEvent()    {}
func (Lost) isEvent()       {}
func (LeaseEnded) isEvent() {}
func (Fenced) isEvent()     {}
func (Waiting) isEvent()    {}
func (Standby) isEvent()    {}
func (Left) isEvent()       {}
