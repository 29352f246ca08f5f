package consumer

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Observer is told what a consumer does, for metrics and traces of the
// application's own. Embed NopObserver and write the methods that you want:
// later versions add methods, and an observer that embeds it still compiles.
//
// Methods are called at the same time from several goroutines, never with a lock
// held, and on the goroutine that does the work: one that takes long holds up a
// shard, but never the lease. A panic is contained, and logged the first time.
// What an event holds belongs to the observer, but for the errors, which may be
// shared.
type Observer interface {
	// ShardAssigned: a shard may be read from now on. It comes before the first
	// read.
	ShardAssigned(ShardAssignedEvent)
	// ShardRevoked: a shard was let go of, as the coordinator or a shutdown asked.
	// It comes when nothing of it is under way any more.
	ShardRevoked(ShardRevokedEvent)
	// ShardLost: a shard was taken away. It comes when nothing of it is under way
	// any more.
	ShardLost(ShardLostEvent)
	// Heartbeat: a heartbeat was answered, or was not. It is not told of one that
	// ends while it has not returned from an earlier one.
	Heartbeat(HeartbeatEvent)
	// Read: a read of new records returned, also one without any.
	Read(ReadEvent)
	// Handled: the handler returned, with or without an error. It comes before
	// the acknowledgement is sent.
	Handled(HandledEvent)
	// Retried: the handler failed, and will be called again for the same record.
	Retried(RetriedEvent)
	// DeadLettered: a record was moved to the dead-letter stream.
	DeadLettered(DeadLetteredEvent)
	// Acknowledged: acknowledgements were sent, with or without success.
	Acknowledged(AcknowledgedEvent)
	// Recovered: records were taken over from the pending list.
	Recovered(RecoveredEvent)
	// GroupRestored: the consumer group was gone and was created again.
	GroupRestored(GroupRestoredEvent)
	// TroubleBegan: a shard cannot be read. Until TroubleEnded comes it is tried
	// again, with pauses, and nothing is said.
	TroubleBegan(TroubleBeganEvent)
	// TroubleEnded: the shard is read again, or is not ours any more.
	TroubleEnded(TroubleEndedEvent)
	// Trimmed: retention looked at a shard; see Retention.
	Trimmed(TrimmedEvent)
	// NamesRemoved: consumer names that dead members left behind were removed.
	NamesRemoved(NamesRemovedEvent)

	// embed makes NopObserver part of every observer.
	embed()
}

// NopObserver is an Observer that does nothing, to be embedded.
type NopObserver struct{}

// ShardAssigned does nothing.
func (NopObserver) ShardAssigned(ShardAssignedEvent) {}

// ShardRevoked does nothing.
func (NopObserver) ShardRevoked(ShardRevokedEvent) {}

// ShardLost does nothing.
func (NopObserver) ShardLost(ShardLostEvent) {}

// Heartbeat does nothing.
func (NopObserver) Heartbeat(HeartbeatEvent) {}

// Read does nothing.
func (NopObserver) Read(ReadEvent) {}

// Handled does nothing.
func (NopObserver) Handled(HandledEvent) {}

// Retried does nothing.
func (NopObserver) Retried(RetriedEvent) {}

// DeadLettered does nothing.
func (NopObserver) DeadLettered(DeadLetteredEvent) {}

// Acknowledged does nothing.
func (NopObserver) Acknowledged(AcknowledgedEvent) {}

// Recovered does nothing.
func (NopObserver) Recovered(RecoveredEvent) {}

// GroupRestored does nothing.
func (NopObserver) GroupRestored(GroupRestoredEvent) {}

// TroubleBegan does nothing.
func (NopObserver) TroubleBegan(TroubleBeganEvent) {}

// TroubleEnded does nothing.
func (NopObserver) TroubleEnded(TroubleEndedEvent) {}

// Trimmed does nothing.
func (NopObserver) Trimmed(TrimmedEvent) {}

// NamesRemoved does nothing.
func (NopObserver) NamesRemoved(NamesRemovedEvent) {}

func (NopObserver) embed() {}

// ShardAssignedEvent is the beginning of a tenure.
type ShardAssignedEvent struct{ Shard Shard }

// ShardRevokedEvent is the ordinary end of a tenure.
type ShardRevokedEvent struct {
	Shard Shard
	// Held is how long the shard was ours, Drained how long it took to let it go
	// once that was asked for.
	Held, Drained time.Duration
	// Cause is why handlers were cancelled, nil if all finished in time:
	// ErrRevokeTimeout, ErrShutdownTimeout, or what Lost would have told.
	Cause error
}

// ShardLostEvent is the other end of a tenure.
type ShardLostEvent struct {
	Shard Shard
	// Held is how long the shard was ours.
	Held time.Duration
	// Stopped is how long the work on it took to end once it was lost: somebody
	// else may have worked on it in that time.
	Stopped time.Duration
	// Cause is why: ErrLeaseEnded, ErrFenced, ErrGrantReplaced or
	// ErrShutdownTimeout.
	Cause error
}

// HeartbeatEvent is what became of a heartbeat.
type HeartbeatEvent struct {
	// Status is what the coordinator said, empty without an answer.
	Status protocol.Status
	// RoundTrip is the time from the request to its answer. The coordinator may
	// hold an answer for Config.MaxWait until something changes, so it is no
	// measure of the network.
	RoundTrip time.Duration
	// Err is why there was no answer, nil with one.
	Err error
}

// ReadEvent is a read of new records.
type ReadEvent struct {
	Shard Shard
	// Records is how many came, Bytes the size of their names and values.
	Records, Bytes int
	// Waited is how long the read took, most of it blocked on the server when
	// nothing was there.
	Waited time.Duration
}

// HandledEvent is one call of the handler.
type HandledEvent struct {
	Shard Shard
	// ID and Key are those of the record.
	ID, Key string
	// Duration is how long the handler took.
	Duration time.Duration
	// Lag is how old the record was when its handler began: our clock less the
	// time in its id, which is that of the Redis server. It is off by what the
	// clocks are apart, so it may be negative, and means nothing in a stream
	// whose ids are no times.
	Lag time.Duration
	// Deliveries is how often Redis has handed the record out, as in Record.
	Deliveries int
	// Err is what the handler returned, a *PanicError if it panicked.
	Err error
}

// RetriedEvent is a record whose handler failed and will be called again.
type RetriedEvent struct {
	Shard Shard
	ID    string
	// Deliveries counts the deliveries so far, In is the pause before the next.
	Deliveries int
	In         time.Duration
	Err        error
}

// DeadLetteredEvent is a record that was given up.
type DeadLetteredEvent struct {
	Shard Shard
	ID    string
	// Deliveries is how often it was handed out in vain, Err the last reason.
	Deliveries int
	Err        error
}

// AcknowledgedEvent is one XACK.
type AcknowledgedEvent struct {
	Shard Shard
	// Records is how many were acknowledged together.
	Records int
	// RoundTrip is how long the pipeline took that it was part of.
	RoundTrip time.Duration
	// Err is why Redis did not confirm it; it is sent again.
	Err error
}

// RecoveredEvent is a page of records taken over from the pending list: left by
// an earlier owner, or lost on their way to us.
type RecoveredEvent struct {
	Shard Shard
	// Records is how many will be handled, Deleted how many were found to be no
	// longer in the stream.
	Records, Deleted int
}

// GroupRestoredEvent is a group that was created again.
type GroupRestoredEvent struct {
	Shard Shard
	// Start is the id after which it begins to read.
	Start string
}

// TroubleBeganEvent is the first failure after a success.
type TroubleBeganEvent struct {
	Shard Shard
	Err   error
}

// TroubleEndedEvent is the first success after failures.
type TroubleEndedEvent struct {
	Shard Shard
	// Lasted is the time since TroubleBegan, Failures how many attempts failed.
	Lasted   time.Duration
	Failures int
}

// TrimmedEvent is one look of retention at a shard.
type TrimmedEvent struct {
	Shard Shard
	// Records is how many were removed, Length how many are left.
	Records, Length int64
	// HeldBy is the group that still needs the oldest record of all that are
	// needed, and From the first id that is kept for it. Both are empty when
	// every group is done with everything.
	HeldBy, From string
	// Took is the round trip.
	Took time.Duration
	// Err is why nothing could be trimmed; it is tried again.
	Err error
}

// NamesRemovedEvent is a removal of consumer names.
type NamesRemovedEvent struct {
	Shard Shard
	Names []string
}

// observing hands events on to an Observer. Nil stands for none.
type observing struct {
	to   Observer
	log  *slog.Logger
	told sync.Once
}

func newObserving(cfg *Config) *observing {
	if cfg.Observer == nil {
		return nil
	}
	return &observing{to: cfg.Observer, log: cfg.Logger}
}

// notify tells o of an event by calling method, such as Observer.Read. Where an
// event costs something to make, its maker asks first whether o is nil.
func notify[E any](o *observing, method func(Observer, E), e E) {
	if o == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			stack := string(debug.Stack())
			o.told.Do(func() {
				o.log.Error("the Observer panicked: this is said once, and it is told of what happens all the same",
					slog.Any("panic", v), slog.String("stack", stack))
			})
		}
	}()
	method(o.to, e)
}
