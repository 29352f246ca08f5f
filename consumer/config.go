package consumer

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The defaults and bounds of Config.
const (
	DefaultBatchSize       = 100
	DefaultBlockTime       = 5 * time.Second
	DefaultAckInterval     = 10 * time.Millisecond
	DefaultShutdownTimeout = 25 * time.Second
	DefaultMaxWait         = 10 * time.Second
	DefaultConcurrency     = 16
	// DefaultMaxInFlight and DefaultMaxInFlightBytes are those of Config.
	DefaultMaxInFlight      = 4096
	DefaultMaxInFlightBytes = 64 << 20
	// DefaultMaxBlockedReaders is that of Config.MaxBlockedReaders.
	DefaultMaxBlockedReaders = 512

	maxBatchSize    = 10_000
	maxBlockTime    = time.Minute
	maxBlockedLimit = 65_536
	maxAckInterval  = 10 * time.Second
	maxConcurrency  = 10_000
	maxMaxInFlight  = 1_000_000
	maxCoordinators = 64
)

// Config says what a consumer reads and how. Stream, Group, one of Coordinators
// and Transport, and one of Handler and Lifecycle must be set; every other zero
// value means the default that its comment states.
type Config struct {
	// Coordinators are base URLs such as "http://127.0.0.1:8080". One is enough;
	// with several, the next one is asked when one does not answer, or says that it
	// can do nothing now, and two silent ones in a row end no lease. A path in
	// the URL replaces the coordinator's default base path, /coord/v1.
	Coordinators []string
	// Credentials are presented to the coordinator, which asks for the role
	// MEMBER if it is configured to ask at all.
	//
	// Defaults to none.
	Credentials Credentials
	// HTTPClient reaches the coordinators, for TLS settings or a proxy of your
	// own. It is not closed by the consumer, and must not have a Timeout below
	// MaxWait: heartbeats are held that long.
	//
	// Defaults to a client of the consumer's own.
	HTTPClient *http.Client
	// Transport replaces Coordinators, Credentials and HTTPClient, in tests or
	// where heartbeats travel another way.
	Transport Transport

	// Stream is the stream's prefix: shard i is the Redis key "Stream:i".
	Stream string
	// Group is the consumer group, for the coordinator and in Redis.
	Group string
	// MemberID names this member in its group, and is its consumer name in
	// Redis. No two running members may share it: the one started last works,
	// the other waits and says so.
	//
	// With the default a restarted process is a new member. Set an id that stays
	// the same, such as the pod name of a StatefulSet, and a restarted process
	// gets its shards back.
	//
	// Defaults to the host name and eight random characters.
	MemberID string
	// MemberName is for people.
	//
	// Defaults to MemberID.
	MemberName string

	// Handler is called for each record; see Handler.
	Handler Handler
	// Lifecycle takes Handler's place in an application that reads for itself.
	Lifecycle Lifecycle

	// Redis says how to reach the Redis that holds the stream: one server, a
	// Cluster (several Addrs, or IsClusterMode), or Sentinel (MasterName). The
	// consumer opens clients of its own, with one connection for each shard that
	// it reads and a few for acknowledgements, and closes them.
	//
	// Pool sizes, retries and ContextTimeoutEnabled are overridden: a read that
	// is sent again loses records. ReadOnly, RouteByLatency and RouteRandomly are
	// refused, since groups are read from masters.
	Redis redis.UniversalOptions

	// Concurrency is how many handlers run at the same time at most, for all shards
	// of this member together. Shards take turns.
	//
	// Defaults to 16, at most 10,000.
	Concurrency int
	// OrderBy returns the key whose records are handled one after the other, in the
	// order of their ids. Records of other keys are handled beside them. It is
	// called once for each record that was read, and must give the same key for the
	// same record.
	//
	// Defaults to Record.Key. Records of a shard without a key are kept in order
	// like those of one key: a function that returns Record.ID handles each record
	// for itself.
	OrderBy func(Record) string
	// MaxInFlight bounds the records that this member has read and not finished, in
	// all shards together; those that wait for another attempt, and those behind
	// them, count. Reading pauses at the bound. Half of it is shared out evenly, and
	// each shard may have one record even where others have filled it.
	//
	// Defaults to 4,096, at most 1,000,000.
	MaxInFlight int
	// MaxInFlightBytes bounds the names and values of these records in the same
	// way. A record that is larger than the bound passes alone. Sizes are known
	// after a read only: each shard expects what it has seen lately, so a stream
	// whose records grow all of a sudden may exceed the bound by one read for each
	// shard.
	//
	// Defaults to 64 MiB.
	MaxInFlightBytes int64
	// Retry says how a record is tried again whose handler failed.
	Retry Retry
	// DeadLetter says what becomes of records that cannot be handled.
	//
	// Defaults to trying again for ever: no record is dropped. Since order is kept,
	// records of the same key wait, and so does the shard once what waits fills
	// MaxInFlight.
	DeadLetter DeadLetter

	// BatchSize is how many records one read takes from a shard at most.
	//
	// Defaults to 100, at most 10,000.
	BatchSize int
	// BlockTime is how long a read waits for records on the server. It is cut to
	// what is left of the lease, and to 200 ms where CLIENT UNBLOCK is not allowed.
	//
	// Defaults to 5 s, at most 1 min.
	BlockTime time.Duration
	// MaxBlockedReaders is how many shards are read on a connection of their own,
	// where a read waits on the server and a new record arrives at once. Shards
	// beyond it share one connection for each node, and are looked at every 50 ms
	// at most while they have nothing. Negative: all of them do.
	//
	// Defaults to 512, at most 65,536.
	MaxBlockedReaders int
	// AckInterval is how long acknowledgements are collected before they are sent.
	//
	// Defaults to 10 ms, at most 10 s.
	AckInterval time.Duration
	// ShutdownTimeout is how long Run takes to return at most after its context
	// ended: handlers get nearly all of it to finish.
	//
	// Defaults to 25 s.
	ShutdownTimeout time.Duration
	// MaxWait is how long the coordinator is asked to hold a heartbeat until
	// something changes, so that this is heard of at once. It is capped at a
	// third of the lease. Negative: answer at once, and changes are heard of a
	// heartbeat interval late.
	//
	// Defaults to 10 s.
	MaxWait time.Duration

	// Retention says which records are removed from the stream once every group
	// has acknowledged them.
	//
	// Defaults to all of them, as soon as may be; see Retention.
	Retention Retention

	// Observer is told what the consumer does, to be measured.
	//
	// Defaults to none, which costs nothing.
	Observer Observer
	// Logger gets what happens to the member and its shards; never a record or a
	// secret.
	//
	// Defaults to slog.Default().
	Logger *slog.Logger

	limits limits
}

func (c Config) withDefaults() Config {
	if c.MemberID == "" {
		c.MemberID = defaultMemberID()
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = DefaultMaxInFlight
	}
	if c.MaxInFlightBytes == 0 {
		c.MaxInFlightBytes = DefaultMaxInFlightBytes
	}
	c.Retry = c.Retry.withDefaults(c.DeadLetter.Enabled)
	if c.BatchSize == 0 {
		c.BatchSize = DefaultBatchSize
	}
	if c.BlockTime == 0 {
		c.BlockTime = DefaultBlockTime
	}
	switch {
	case c.MaxBlockedReaders == 0:
		c.MaxBlockedReaders = DefaultMaxBlockedReaders
	case c.MaxBlockedReaders < 0:
		c.MaxBlockedReaders = 0
	}
	if c.AckInterval == 0 {
		c.AckInterval = DefaultAckInterval
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = DefaultShutdownTimeout
	}
	switch {
	case c.MaxWait == 0:
		c.MaxWait = DefaultMaxWait
	case c.MaxWait < 0:
		c.MaxWait = 0
	}
	if c.Retention.Interval == 0 {
		c.Retention.Interval = DefaultTrimInterval
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.limits = c.limits.withDefaults()
	c.Coordinators = slices.Clone(c.Coordinators)
	c.Redis.Addrs = slices.Clone(c.Redis.Addrs)
	return c
}

// handlers returns how many handlers run at most; an application that reads for
// itself counts as one.
func (c *Config) handlers() int {
	if c.Handler == nil {
		return 1
	}
	return c.Concurrency
}

// validate joins all complaints about a Config that has its defaults.
func (c *Config) validate() error {
	var bad []error
	complain := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	within := func(field string, value, low, high time.Duration) {
		if value < low || value > high {
			complain("%s: is %s, must be between %s and %s", field, value, low, high)
		}
	}
	bad = append(bad,
		protocol.ValidatePrefix("Stream", c.Stream),
		protocol.ValidateName("Group", c.Group),
		protocol.ValidateName("MemberID", c.MemberID))
	if c.MemberName != "" {
		bad = append(bad, protocol.ValidateName("MemberName", c.MemberName))
	}
	switch n := len(c.Coordinators); {
	case c.Transport == nil && n == 0:
		complain(`Coordinators: is empty, name at least one, such as "http://127.0.0.1:8080"`)
	case c.Transport != nil && n > 0:
		complain("Coordinators: Transport is set too, use one of them")
	case n > maxCoordinators:
		complain("Coordinators: has %d entries, at most %d are allowed", n, maxCoordinators)
	}
	switch {
	case c.Handler == nil && c.Lifecycle == nil:
		complain("Handler: is nil, set it, or set Lifecycle to read for yourself")
	case c.Handler != nil && c.Lifecycle != nil:
		complain("Lifecycle: Handler is set too, use one of them")
	}
	if c.Concurrency < 1 || c.Concurrency > maxConcurrency {
		complain("Concurrency: is %d, must be between 1 and %d", c.Concurrency, maxConcurrency)
	}
	if c.MaxInFlight < 1 || c.MaxInFlight > maxMaxInFlight {
		complain("MaxInFlight: is %d, must be between 1 and %d", c.MaxInFlight, maxMaxInFlight)
	}
	if c.MaxInFlightBytes < 1 {
		complain("MaxInFlightBytes: is %d, must be at least 1", c.MaxInFlightBytes)
	}
	within("Retry.First", c.Retry.First, time.Millisecond, maxRetryPause)
	within("Retry.Last", c.Retry.Last, c.Retry.First, maxRetryPause)
	if !(c.Retry.Jitter <= 1) {
		complain("Retry.Jitter: is %g, must be at most 1", c.Retry.Jitter)
	}
	switch n := c.Retry.MaxDeliveries; {
	case n < 0 || n > maxMaxDeliveries:
		complain("Retry.MaxDeliveries: is %d, must be between 1 and %d", n, maxMaxDeliveries)
	case n > 0 && !c.DeadLetter.Enabled:
		complain("Retry.MaxDeliveries: is %d, and there is nowhere to move a record to after that: set DeadLetter.Enabled too", n)
	}
	if c.DeadLetter.MaxLen < 0 {
		complain("DeadLetter.MaxLen: is %d, must not be negative", c.DeadLetter.MaxLen)
	}
	if c.BatchSize < 1 || c.BatchSize > maxBatchSize {
		complain("BatchSize: is %d, must be between 1 and %d", c.BatchSize, maxBatchSize)
	}
	within("BlockTime", c.BlockTime, time.Millisecond, maxBlockTime)
	if c.MaxBlockedReaders > maxBlockedLimit {
		complain("MaxBlockedReaders: is %d, must be at most %d", c.MaxBlockedReaders, maxBlockedLimit)
	}
	within("AckInterval", c.AckInterval, time.Millisecond, maxAckInterval)
	within("ShutdownTimeout", c.ShutdownTimeout, time.Millisecond, 24*time.Hour)
	bad = append(bad, c.Retention.validate())
	within("MaxWait", c.MaxWait, 0, time.Hour)
	if c.HTTPClient != nil && c.HTTPClient.Timeout != 0 && c.HTTPClient.Timeout <= c.MaxWait {
		complain("HTTPClient: gives up after %s, while heartbeats are held for up to %s: set no Timeout, or a shorter MaxWait", c.HTTPClient.Timeout, c.MaxWait)
	}
	if c.Redis.ReadOnly || c.Redis.RouteByLatency || c.Redis.RouteRandomly {
		complain("Redis: ReadOnly, RouteByLatency and RouteRandomly read from replicas, and a group is read from a master: switch them off")
	}
	if c.Redis.MasterName != "" && c.Redis.IsClusterMode {
		complain("Redis: MasterName is for Sentinel and IsClusterMode for a Cluster, use one of them")
	}
	if c.Redis.ReadTimeout < 0 || c.Redis.WriteTimeout < 0 {
		complain("Redis: ReadTimeout and WriteTimeout cannot be switched off: a server that does not answer would hold a shard for ever")
	}
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("consumer config: %w", err)
	}
	return nil
}

// defaultMemberID makes an id that no other member has: two consumers on one
// host, or in one process, must not take each other for the same.
func defaultMemberID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "consumer"
	}
	host = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '/' {
			return '-'
		}
		return r
	}, host)
	const random = 8
	return host[:min(len(host), protocol.MaxNameBytes-random-1)] + "-" + newID()[:random]
}

// newID draws 96 random bits; two are never the same.
func newID() string {
	var b [12]byte
	// Read never fails (crypto/rand, since Go 1.24).
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
