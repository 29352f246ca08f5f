package producer

import (
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Observer is told what a producer does, for metrics and traces of the
// application's own. Embed NopObserver and write the methods that you want:
// later versions add methods, and an observer that embeds it still compiles.
//
// Methods are called at the same time from several goroutines, never with a lock
// held, and on the goroutine that does the work: one that takes long holds up
// messages. A panic is contained, and logged the first time. What an event holds
// belongs to the observer, but for the errors, which may be shared.
type Observer interface {
	// Published: Redis has confirmed a message.
	Published(PublishedEvent)
	// Failed: a message has ended with an error. A message that Send did not take
	// is no part of it.
	Failed(FailedEvent)
	// Exchanged: a request to Redis, with one message or a pipeline of them, was
	// answered, or was not.
	Exchanged(ExchangedEvent)
	// Redirected: a node of a Redis Cluster sent messages elsewhere.
	Redirected(RedirectedEvent)
	// Dropped: a length limit has removed records; see Config.WhenFull.
	Dropped(DroppedEvent)
	// RoutingChanged: the stream has another number of shards than before, or it is
	// known for the first time.
	RoutingChanged(RoutingChangedEvent)
	// RoutingFailed: the routing could not be asked for. It is tried again.
	RoutingFailed(RoutingFailedEvent)

	// embed makes NopObserver part of every observer.
	embed()
}

// NopObserver is an Observer that does nothing, to be embedded.
type NopObserver struct{}

// Published does nothing.
func (NopObserver) Published(PublishedEvent) {}

// Failed does nothing.
func (NopObserver) Failed(FailedEvent) {}

// Exchanged does nothing.
func (NopObserver) Exchanged(ExchangedEvent) {}

// Redirected does nothing.
func (NopObserver) Redirected(RedirectedEvent) {}

// Dropped does nothing.
func (NopObserver) Dropped(DroppedEvent) {}

// RoutingChanged does nothing.
func (NopObserver) RoutingChanged(RoutingChangedEvent) {}

// RoutingFailed does nothing.
func (NopObserver) RoutingFailed(RoutingFailedEvent) {}

func (NopObserver) embed() {}

// PublishedEvent is a message that is stored.
type PublishedEvent struct {
	Receipt Receipt
	// Bytes is the size of the record's names and values.
	Bytes int
	// Latency is the time from the call of Publish, or from when Send took the
	// message, to the confirmation, with everything that was waited for between them.
	Latency time.Duration
}

// FailedEvent is a message that is not stored, or perhaps.
type FailedEvent struct {
	// Err is what the caller gets.
	Err *PublishError
	// Latency is that of PublishedEvent, to the error.
	Latency time.Duration
}

// ExchangedEvent is one request to Redis.
type ExchangedEvent struct {
	// Addr is the node that was asked.
	Addr string
	// Messages is how many were in it, Stored how many the node confirmed.
	Messages, Stored int
	// RoundTrip is the time from the request to the last answer.
	RoundTrip time.Duration
}

// RedirectedEvent is an answer MOVED or ASK.
type RedirectedEvent struct {
	// StreamKey is the shard's key, and To the node that was named.
	StreamKey, To string
	// Ask tells a slot that is being moved from one that was.
	Ask bool
	// Messages is how many were answered so.
	Messages int
}

// DroppedEvent is records that made room for one that was stored.
type DroppedEvent struct {
	Shard     int
	StreamKey string
	Drops     Drops
}

// RoutingChangedEvent is another number of shards.
type RoutingChangedEvent struct {
	// MetadataVersion is the new version of the stream.
	MetadataVersion int64
	// Shards is the number of shards now, Before what it was, -1 at first.
	Shards, Before int
}

// RoutingFailedEvent is a request for the routing that failed.
type RoutingFailedEvent struct {
	Err error
	// LeaseLeft is how much longer messages are published all the same, 0 or less
	// when they are refused.
	LeaseLeft time.Duration
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

// notify tells o of an event by calling method, such as Observer.Published. Where
// an event costs something to make, its maker asks first whether o is nil.
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
