package producer

import (
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
	// MaxBatchMessages bounds the messages of one PublishBatch.
	MaxBatchMessages = 100_000

	maxMessageBytes     = 64 << 20
	maxPipelineMessages = 10_000
	maxPipelineBytes    = 64 << 20
	minRefreshInterval  = 100 * time.Millisecond
	maxCoordinators     = 64
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
	// PipelineMessages and PipelineBytes bound what a batch has under way on one
	// connection: the next part is sent when this one is answered. A message larger than
	// PipelineBytes travels alone.
	//
	// Default to 500 messages and 1 MiB, at most 10,000 and 64 MiB.
	PipelineMessages int
	PipelineBytes    int

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
