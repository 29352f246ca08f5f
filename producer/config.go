package producer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The defaults and bounds of Config.
const (
	DefaultMaxMessageBytes  = 1 << 20
	DefaultPipelineMessages = 500
	DefaultPipelineBytes    = 1 << 20
	DefaultRetryFor         = 5 * time.Second

	DefaultMaxBufferedMessages = 10_000
	DefaultMaxBufferedBytes    = 64 << 20
	// MaxBatchMessages bounds the messages of one PublishBatch.
	MaxBatchMessages = 100_000

	maxMessageBytes     = 64 << 20
	maxPipelineMessages = 10_000
	maxPipelineBytes    = 64 << 20
	minRefreshInterval  = 100 * time.Millisecond
	maxCoordinators     = 64
	maxBufferedMessages = 10_000_000
	maxBufferedBytes    = 1 << 30
	maxLinger           = time.Second
)

// Config says what a producer publishes to and how. Stream, and one of
// Coordinators and Transport, must be set; every other zero value means the
// default that its comment states.
type Config struct {
	// Coordinators are base URLs such as "http://127.0.0.1:8080". One is enough;
	// with several, one that cannot be reached is skipped. A path in the URL
	// replaces the coordinator's default base path, /coord/v1.
	Coordinators []string
	// Credentials are presented to the coordinator; roles READ, WRITE and MEMBER
	// may read a routing.
	//
	// Defaults to none.
	Credentials Credentials
	// HTTPClient reaches the coordinators, for TLS settings or a proxy of your
	// own. It is not closed by the producer.
	//
	// Defaults to a client of the producer's own.
	HTTPClient *http.Client
	// Transport replaces Coordinators, Credentials and HTTPClient, in tests or
	// where the routing comes another way.
	Transport Transport

	// Stream is the stream's prefix: shard i is the Redis key "Stream:i".
	Stream string
	// Group is the consumer group whose routing is asked for. All groups of a
	// stream share one routing, and the group need not exist.
	//
	// Defaults to Stream.
	Group string

	// Redis says how to reach the Redis that holds the stream: one server, a
	// Cluster (several Addrs, or IsClusterMode), or Sentinel (MasterName). The
	// producer opens a client of its own and closes it.
	//
	// MaxRetries and ContextTimeoutEnabled are overridden: the client must never
	// send a record twice on its own account, and a deadline of the caller
	// counts. Timeouts cannot be switched off, and the settings that read from replicas
	// (ReadOnly, RouteByLatency, RouteRandomly) are refused.
	Redis redis.UniversalOptions

	// OmitKeyField leaves KeyField out of the records. Consumers then cannot
	// order by key inside a shard.
	OmitKeyField bool
	// MaxMessageBytes bounds the names and values of one record together.
	//
	// Defaults to 1 MiB, at most 64 MiB.
	MaxMessageBytes int
	// PipelineMessages and PipelineBytes bound one pipeline, of a batch or of what
	// Send has taken. A batch has one under way on one
	// connection: the next part is sent when this one is answered. A message larger than
	// PipelineBytes travels alone.
	//
	// Default to 500 messages and 1 MiB, at most 10,000 and 64 MiB.
	PipelineMessages int
	PipelineBytes    int

	// MaxBufferedMessages and MaxBufferedBytes bound what Send has taken and has no
	// outcome yet. When it is reached Send waits and TrySend refuses. Bytes are
	// those of names and values, and MaxBufferedBytes is at least MaxMessageBytes.
	//
	// Default to 10,000 messages and 64 MiB, at most 10,000,000 and 1 GiB.
	MaxBufferedMessages int
	MaxBufferedBytes    int
	// Linger is how long a pipeline of Send waits for more messages before it
	// leaves. Without it the first messages leave at once, and those that
	// gather while they are answered form the next pipeline. It saves Redis
	// requests where messages come in a trickle, and costs as much latency.
	//
	// Defaults to 0, at most 1 s.
	Linger time.Duration

	// MaxStreamLength bounds the records of each shard; WhenFull says what happens
	// at the bound. Records are then stored by a script, which takes the permission for
	// EVAL, EVALSHA and XLEN and costs the server two to three times the work of a bare
	// XADD in a pipeline. The policies that drop also need XRANGE and XINFO; at the
	// bound DropWhenFullExactly costs about eight times the work, since it looks at the
	// groups for each record.
	//
	// Defaults to no bound. Streams then grow until the consumers' retention trims
	// what every group is done with.
	MaxStreamLength int64
	// WhenFull is the policy at MaxStreamLength. Those that drop count in Stats what they
	// removed, and how much of it some group had not been given; a record
	// that was given and is not acknowledged yet counts as read.
	//
	// Defaults to RefuseWhenFull.
	WhenFull FullPolicy

	// TraceParent returns the trace that a message belongs to, in the form of the
	// W3C header traceparent, from the context of the call; empty for none. It
	// is written as TraceField, unless the message has a field of that name. It is
	// called once per message, by many goroutines.
	//
	// Defaults to none.
	TraceParent func(ctx context.Context) string

	// RefreshInterval is the time between two refreshes of the routing. It never
	// exceeds a third of the routing lease.
	//
	// Defaults to a third of the routing lease, at most 10 s.
	RefreshInterval time.Duration

	// RetryFor is how long a message that was certainly not stored, for a reason
	// that passes, is sent again with growing pauses before its error is returned.
	// It counts from the first failure since the call last stored anything.
	// Negative: never.
	//
	// Defaults to 5 s.
	RetryFor time.Duration
	// RetryUncertain also sends a message again whose outcome is unknown. It may
	// then be stored more than once; copies of a chain of messages come in order.
	//
	// Defaults to false.
	RetryUncertain bool

	// Observer is told what happens; see there.
	//
	// Defaults to none.
	Observer Observer
	// Logger gets what happens to the routing; never a message or a secret.
	//
	// Defaults to slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Group == "" {
		c.Group = c.Stream
	}
	if c.MaxMessageBytes == 0 {
		c.MaxMessageBytes = DefaultMaxMessageBytes
	}
	if c.PipelineMessages == 0 {
		c.PipelineMessages = DefaultPipelineMessages
	}
	if c.PipelineBytes == 0 {
		c.PipelineBytes = DefaultPipelineBytes
	}
	if c.MaxBufferedMessages == 0 {
		c.MaxBufferedMessages = DefaultMaxBufferedMessages
	}
	if c.MaxBufferedBytes == 0 {
		c.MaxBufferedBytes = max(DefaultMaxBufferedBytes, c.MaxMessageBytes)
	}
	if c.WhenFull == "" {
		c.WhenFull = RefuseWhenFull
	}
	switch {
	case c.RetryFor == 0:
		c.RetryFor = DefaultRetryFor
	case c.RetryFor < 0:
		c.RetryFor = 0
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// validate joins all complaints about a Config that has its defaults.
func (c *Config) validate() error {
	var bad []error
	complain := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	within := func(field string, value, limit int) {
		if value < 1 || value > limit {
			complain("%s: is %d, must be between 1 and %d", field, value, limit)
		}
	}

	if err := protocol.ValidatePrefix("Stream", c.Stream); err != nil {
		bad = append(bad, err)
	} else if err := protocol.ValidateName("Group", c.Group); err != nil {
		bad = append(bad, err)
	}
	switch n := len(c.Coordinators); {
	case c.Transport == nil && n == 0:
		complain(`Coordinators: is empty, name at least one, such as "http://127.0.0.1:8080"`)
	case c.Transport != nil && n > 0:
		complain("Coordinators: Transport is set too, use one of them")
	case n > maxCoordinators:
		complain("Coordinators: has %d entries, at most %d are allowed", n, maxCoordinators)
	}

	within("MaxMessageBytes", c.MaxMessageBytes, maxMessageBytes)
	within("PipelineMessages", c.PipelineMessages, maxPipelineMessages)
	within("PipelineBytes", c.PipelineBytes, maxPipelineBytes)
	within("MaxBufferedMessages", c.MaxBufferedMessages, maxBufferedMessages)
	within("MaxBufferedBytes", c.MaxBufferedBytes, maxBufferedBytes)
	if c.MaxBufferedBytes < c.MaxMessageBytes {
		complain("MaxBufferedBytes: is %d, must be at least MaxMessageBytes, which is %d", c.MaxBufferedBytes, c.MaxMessageBytes)
	}
	if c.Linger < 0 || c.Linger > maxLinger {
		complain("Linger: is %s, must be between 0 and %s", c.Linger, maxLinger)
	}
	if c.MaxStreamLength < 0 {
		complain("MaxStreamLength: is %d, must be 0 for no bound, or more", c.MaxStreamLength)
	}
	switch c.WhenFull {
	case RefuseWhenFull, DropWhenFull, DropWhenFullExactly:
	default:
		complain("WhenFull: is %q, must be %q, %q or %q", c.WhenFull, RefuseWhenFull, DropWhenFull, DropWhenFullExactly)
	}
	if c.RefreshInterval != 0 && c.RefreshInterval < minRefreshInterval {
		complain("RefreshInterval: is %s, must be at least %s", c.RefreshInterval, minRefreshInterval)
	}

	if c.Redis.ReadOnly || c.Redis.RouteByLatency || c.Redis.RouteRandomly {
		complain("Redis: ReadOnly, RouteByLatency and RouteRandomly read from replicas, and records must go to masters: switch them off")
	}
	if c.Redis.MasterName != "" && c.Redis.IsClusterMode {
		complain("Redis: MasterName is for Sentinel and IsClusterMode for a Cluster, use one of them")
	}
	if c.Redis.ReadTimeout < 0 || c.Redis.WriteTimeout < 0 {
		complain("Redis: ReadTimeout and WriteTimeout cannot be switched off: without them a lost answer blocks Publish for ever")
	}
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("producer config: %w", err)
	}
	return nil
}
