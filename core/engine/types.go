package engine

import (
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/internal/rules"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Config is what an engine is told once.
type Config struct {
	// Stream and Group name the group.
	Stream string
	Group  string
	// TickInterval is the time between two looks at the group's leases.
	TickInterval time.Duration
	// Timings are used in answers as long as the group's own are not known.
	Timings protocol.Timings
	// Rules switches rules off, in tests only.
	Rules rules.Set
}

// The limits and waits of an engine.
const (
	// maxQueue bounds the heartbeats that wait for one group.
	maxQueue = 4 * protocol.MaxMembers
	// maxAttempts bounds how often one batch is applied.
	maxAttempts = 5
	// reportEvery bounds how often a member's report is written when its shards are
	// the same, repeatEvery when all that it says is.
	reportEvery = time.Second
	repeatEvery = 30 * time.Second
)

// Version names one written state of the aggregate; Revision 0 is none.
type Version struct {
	Instance string
	Revision int64
	Nonce    string
}

// Stamp is the proof of life of an incarnation.
type Stamp struct {
	Life  string
	Value string
}

// Report is what an incarnation last said of itself.
type Report struct {
	Life string
	Body []byte
}

// Input comes with everything that happens.
type Input struct {
	// Mono is the coordinator's own monotonic clock; every decision about time
	// is made by it.
	Mono time.Duration
	// Now is the wall time, for records that people read.
	Now time.Time
	// ID is a fresh random id.
	ID string
}

// Happening is something that an engine is told.
type Happening interface{ isHappening() }

// Arrived: a heartbeat came in. ID is the runner's name for it.
type Arrived struct {
	ID      uint64
	Request *protocol.Heartbeat
}

// Canceled: the client of a heartbeat is gone.
type Canceled struct{ ID uint64 }

// Loaded answers Load.
type Loaded struct {
	Err error
	// Version is the stored one; Body is nil when it equals Load.Known.
	Version Version
	Body    []byte
	Stamps  map[string]string
}

// Outcome says how a conditional write ended.
type Outcome uint8

// The outcomes.
const (
	// Done: it was written.
	Done Outcome = iota
	// Conflict: a condition does not hold; nothing was written.
	Conflict
	// Unknown: it may have been written, or not.
	Unknown
	// Refused: it will never be written as it is.
	Refused
)

// Renewed answers Renew.
type Renewed struct {
	Outcome Outcome
	Err     error
}

// Saved answers Save.
type Saved struct {
	Outcome Outcome
	Err     error
	Version Version
}

// Ensured answers Ensure; Err is nil when the group exists now.
type Ensured struct{ Err error }

// Woke: the time asked for by WakeAt has come.
type Woke struct{}

// Closing: the coordinator shuts down; nothing new is begun.
type Closing struct{}

func (Arrived) isHappening()  {}
func (Canceled) isHappening() {}
func (Loaded) isHappening()   {}
func (Renewed) isHappening()  {}
func (Saved) isHappening()    {}
func (Ensured) isHappening()  {}
func (Woke) isHappening()     {}
func (Closing) isHappening()  {}

// Effect is something that the runner is to do. Of Load, Renew, Save and Ensure
// at most one is open at any time.
type Effect interface{ isEffect() }

// Load asks for the aggregate, without its body if it is still at Known. With
// Lock the group's mutex is taken first and kept until Unlock.
type Load struct {
	Known Version
	Lock  bool
}

// Renew asks to write stamps and reports at an unchanged aggregate.
type Renew struct {
	Expected Version
	Stamps   []Stamp
	Reports  []Report
}

// Save asks to write the aggregate.
type Save struct {
	Expected  Version
	Relied    []Stamp
	Nonce     string
	Body      []byte
	UpdatedAt time.Time
	Stamps    []Stamp
	Reports   []Report
	Ended     []string
}

// Ensure asks the stream to create the group, for a member that joins.
type Ensure struct{}

// Unlock releases the mutex.
type Unlock struct{}

// Answer answers a heartbeat.
type Answer struct {
	ID       uint64
	Response protocol.HeartbeatResponse
}

// Publish tells what happened, after it was saved.
type Publish struct{ Events []group.Event }

// Complain reports trouble with the group to its operators.
type Complain struct{ Err error }

// WakeAt asks for Woke at a time of the monotonic clock; it replaces the one
// asked for before.
type WakeAt struct{ Mono time.Duration }

func (Load) isEffect()     {}
func (Renew) isEffect()    {}
func (Save) isEffect()     {}
func (Ensure) isEffect()   {}
func (Unlock) isEffect()   {}
func (Answer) isEffect()   {}
func (Publish) isEffect()  {}
func (Complain) isEffect() {}
func (WakeAt) isEffect()   {}
