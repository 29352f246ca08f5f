package service

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// Config is what a coordinator is told.
type Config struct {
	// ID names this coordinator in logs and health. Must not be empty.
	ID string
	// Timings are given to groups that are created here. The zero value means
	// protocol.DefaultTimings.
	Timings protocol.Timings
	// TickInterval is the time between two looks at each group's leases.
	//
	// Defaults to 1 s.
	TickInterval time.Duration
	// RoutingLease is how long a producer may use a routing snapshot.
	//
	// Defaults to 30 s.
	RoutingLease time.Duration
	// DefaultShards is the shard count of a stream that is created without one.
	//
	// Defaults to 1.
	DefaultShards int
	// MaxShards bounds the shard count of a stream, at most protocol.MaxShards.
	//
	// Defaults to protocol.DefaultMaxShards.
	MaxShards int
	// MemberRetention is how long a member that expired or was fenced is listed.
	//
	// Defaults to 10 min.
	MemberRetention time.Duration
	// CallTimeout bounds every call of the store.
	//
	// Defaults to 5 s.
	CallTimeout time.Duration
	// Logger takes what operators should know. nil means slog.Default.
	Logger *slog.Logger
	// OnGroupEvents and OnStreamEvents, if set, are told what happened after it
	// was saved, from one goroutine for each group; they must not block.
	OnGroupEvents func(key port.GroupKey, events []group.Event)
	// OnStoreLost, if set, is told that the store was emptied while the
	// coordinator ran; it must not block.
	OnStoreLost func()
	// OnShardsRecreated, if set, is told that shards of a stream, which its members did
	// not find in Redis, were created again. Only that is held up by it.
	OnShardsRecreated func(prefix string, shards int)
	OnStreamEvents    func(prefix string, events []stream.Event)
	// OnGroupState, if set, is told each state of a group that is seen here, whoever wrote
	// it, and nil once the group is gone; from one goroutine for each group, after the
	// events that led to the state. It must not block, or change what it is given.
	OnGroupState func(key port.GroupKey, v *group.View)
	// OnConflict, if set, is told of each write that met a record changed by somebody
	// else; attempt counts those in a row. It must not block.
	OnConflict func(operation string, attempt int)
	// OnRound, if set, is told how long each round of the event loop took.
	OnRound func(took time.Duration)
}

// Ports are the parts of the world that a coordinator works with.
type Ports struct {
	// Store keeps the records. Must not be nil.
	Store port.Store
	// Streams creates shards in Redis; nil where streams are provisioned by
	// others.
	Streams port.Streams
	// Shards lets removed shards go; nil where no Redis is configured.
	Shards port.Shards
	// Inspector looks into the streams; nil where no Redis is configured, and then
	// everything that asks for it is refused.
	Inspector port.Inspector
	// Mutex keeps coordinators from colliding; nil for none.
	Mutex port.Mutex
	// Signal tells of what other coordinators write; nil where that is seen at the
	// next tick only.
	Signal port.Signal
	// Clock and IDs default to the system's.
	Clock port.Clock
	IDs   port.IDs
}

const (
	defaultTick            = time.Second
	defaultRoutingLease    = 30 * time.Second
	defaultMemberRetention = 10 * time.Minute
	defaultCallTimeout     = 5 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Timings == (protocol.Timings{}) {
		c.Timings = protocol.DefaultTimings()
	}
	c.TickInterval = orDefault(c.TickInterval, defaultTick)
	c.RoutingLease = orDefault(c.RoutingLease, defaultRoutingLease)
	c.DefaultShards = orDefault(c.DefaultShards, 1)
	c.MaxShards = orDefault(c.MaxShards, protocol.DefaultMaxShards)
	c.MemberRetention = orDefault(c.MemberRetention, defaultMemberRetention)
	c.CallTimeout = orDefault(c.CallTimeout, defaultCallTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func orDefault[T int | time.Duration](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}

func (c Config) validate() error {
	var bad []error
	refuse := func(field, format string, args ...any) {
		bad = append(bad, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if c.ID == "" {
		refuse("ID", "must not be empty")
	}
	if err := c.Timings.Validate(); err != nil {
		bad = append(bad, err)
	}
	if c.TickInterval < time.Millisecond || c.TickInterval > c.Timings.Lease/3 {
		refuse("TickInterval", "is %s, must be between 1ms and a third of the lease (%s)", c.TickInterval, c.Timings.Lease/3)
	}
	if c.RoutingLease < time.Second || c.RoutingLease > time.Hour {
		refuse("RoutingLease", "is %s, must be between 1s and 1h", c.RoutingLease)
	}
	if c.MaxShards < 1 || c.MaxShards > protocol.MaxShards {
		refuse("MaxShards", "is %d, must be between 1 and %d", c.MaxShards, protocol.MaxShards)
	}
	if c.DefaultShards < 1 || c.DefaultShards > c.MaxShards {
		refuse("DefaultShards", "is %d, must be between 1 and %d", c.DefaultShards, c.MaxShards)
	}
	if c.MemberRetention < 0 {
		refuse("MemberRetention", "is %s, must not be negative", c.MemberRetention)
	}
	if c.CallTimeout < 100*time.Millisecond {
		refuse("CallTimeout", "is %s, must be at least 100ms", c.CallTimeout)
	}
	return errors.Join(bad...)
}
