package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
)

// The defaults of Config.
const (
	DefaultURL         = "redis://127.0.0.1:6379"
	DefaultKeyPrefix   = "redis-stream:coord"
	DefaultDialTimeout = 2 * time.Second
	DefaultTimeout     = 3 * time.Second
	DefaultPatience    = 5 * time.Second
	DefaultWaitTimeout = time.Second

	DefaultAuditEntries = 1000

	DefaultMutexTTL            = 1500 * time.Millisecond
	DefaultMutexAcquireTimeout = 5 * time.Second
	DefaultMutexRetryInterval  = 100 * time.Millisecond
)

// The bounds of Config.
const (
	maxKeyPrefixBytes = 200
	minTimeout        = 10 * time.Millisecond
	maxTimeout        = time.Minute
	maxPoolSize       = 10_000
	maxAddrs          = 1_000
	maxWaitReplicas   = 100
	maxAuditEntries   = 1_000_000
	// minMutexTTL leaves room for renewals, a third of it apart, that take as
	// long as calls do on a busy server.
	minMutexTTL           = 100 * time.Millisecond
	maxMutexTTL           = time.Hour
	minMutexRetryInterval = time.Millisecond
)

// Config says which Redis to use and how: one server by URL, a Redis Cluster by
// Addrs, or the master that Sentinels at Addrs know as MasterName. The zero value
// is a server of this machine with the documented layout.
type Config struct {
	// URL is where the one server is: redis://[user:password@]host[:port][/database],
	// rediss:// for TLS, or unix://[user:password@]/path/of/socket[?db=database].
	//
	// Defaults to redis://127.0.0.1:6379 unless Addrs is set.
	URL string
	// Addrs are host:port of some nodes of a Redis Cluster, one is enough; with
	// MasterName of Sentinels. The metadata store and the mutex need a URL.
	Addrs []string
	// MasterName is what the Sentinels call the server. Empty means no Sentinels.
	MasterName string
	// SentinelUsername and SentinelPassword are for the Sentinels themselves, where
	// they ask for any.
	SentinelUsername string
	SentinelPassword string
	// Database is the number of the database behind Sentinels; a URL has its own,
	// and a Cluster has no other than 0.
	Database int
	// Username and Password replace those of URL. Empty leaves them.
	Username string
	Password string
	// TLS replaces the settings that rediss:// stands for. nil leaves them; any
	// other value switches TLS on.
	TLS *tls.Config

	// KeyPrefix begins every key of the store, verbatim. Shards are not under it.
	//
	// Defaults to redis-stream:coord.
	KeyPrefix string

	// DialTimeout bounds the making of a connection.
	//
	// Defaults to 2 s.
	DialTimeout time.Duration
	// Timeout bounds each write and each read of a call, and how long a call
	// waits for a connection. A call's context can only shorten it; one that is
	// cancelled while the answer is awaited waits on until then.
	//
	// Defaults to 3 s.
	Timeout time.Duration
	// Patience is how long a call on streams waits out that a server carries
	// nothing out: it starts, another one takes over, or slots of a Cluster move.
	// A call's context can only shorten it.
	//
	// Defaults to 5 s.
	Patience time.Duration
	// PoolSize is how many connections there may be to a server.
	//
	// Defaults to 10 for each CPU.
	PoolSize int

	// WaitReplicas is how many replicas must have what the store writes, or reads of
	// what others wrote, before it is answered. One that too few have is an unknown
	// outcome. So whoever reaches only a master that was cut off from its replicas
	// is not answered, as another one may have taken its place.
	//
	// Defaults to 0: none, a write is answered when the master has it.
	WaitReplicas int
	// WaitTimeout is how long the replicas are waited for; less than Timeout.
	//
	// Defaults to 1 s, or half of Timeout if that is shorter.
	WaitTimeout time.Duration

	// AuditEntries is how many entries each list of the audit keeps.
	//
	// Defaults to 1000.
	AuditEntries int

	// Mutex are the settings of the mutex.
	Mutex MutexConfig

	// Logger hears of what no caller can be told: a mutex that was lost, names
	// that stay in an index, changes that cannot be announced.
	//
	// Defaults to none.
	Logger *slog.Logger
}

// MutexConfig are the settings of the mutex.
type MutexConfig struct {
	// Owner names this coordinator in the mutex keys, for whoever looks at them.
	// Empty leaves the name out.
	Owner string
	// TTL is how long a mutex outlives a holder that died, and others wait for it. A
	// living holder renews it every third of that; one that is too slow loses it, which
	// costs work and nothing else.
	//
	// Defaults to 1.5 s.
	TTL time.Duration
	// AcquireTimeout is how long to ask for a mutex that others hold, unless the
	// context ends before. An attempt under way is brought to its end.
	//
	// Defaults to 5 s.
	AcquireTimeout time.Duration
	// RetryInterval is the time between two attempts, half more or less at
	// random.
	//
	// Defaults to 100 ms.
	RetryInterval time.Duration
}

func (c Config) withDefaults() Config {
	if len(c.Addrs) == 0 && c.MasterName == "" {
		setDefault(&c.URL, DefaultURL)
	}
	c.Addrs = slices.Clone(c.Addrs)
	setDefault(&c.KeyPrefix, DefaultKeyPrefix)
	setDefault(&c.DialTimeout, DefaultDialTimeout)
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.Patience, DefaultPatience)
	setDefault(&c.WaitTimeout, min(DefaultWaitTimeout, c.Timeout/2))
	setDefault(&c.AuditEntries, DefaultAuditEntries)
	setDefault(&c.Mutex.TTL, DefaultMutexTTL)
	setDefault(&c.Mutex.AcquireTimeout, DefaultMutexAcquireTimeout)
	setDefault(&c.Mutex.RetryInterval, DefaultMutexRetryInterval)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate returns all complaints about a config that has its defaults.
func (c Config) validate() error {
	var bad []error
	complain := func(format string, args ...any) { bad = append(bad, fmt.Errorf(format, args...)) }
	bound := func(field string, d, least, most time.Duration) {
		if d < least || d > most {
			complain("%s is %s, must be between %s and %s", field, d, least, most)
		}
	}
	c.validateServers(complain)
	if len(c.KeyPrefix) > maxKeyPrefixBytes {
		complain("KeyPrefix is %d bytes long, at most %d are allowed", len(c.KeyPrefix), maxKeyPrefixBytes)
	}
	if strings.ContainsAny(c.KeyPrefix, "{}") || strings.ContainsFunc(c.KeyPrefix, unicode.IsControl) {
		complain("KeyPrefix is %q, must not contain braces or control characters", c.KeyPrefix)
	}
	bound("DialTimeout", c.DialTimeout, minTimeout, maxTimeout)
	bound("Timeout", c.Timeout, minTimeout, maxTimeout)
	bound("Patience", c.Patience, minTimeout, maxTimeout)
	if c.PoolSize < 0 || c.PoolSize > maxPoolSize {
		complain("PoolSize is %d, must be between 1 and %d, or 0 for the default", c.PoolSize, maxPoolSize)
	}
	if c.WaitReplicas < 0 || c.WaitReplicas > maxWaitReplicas {
		complain("WaitReplicas is %d, must be between 0 and %d", c.WaitReplicas, maxWaitReplicas)
	}
	if c.WaitTimeout < time.Millisecond || c.WaitTimeout >= c.Timeout {
		complain("WaitTimeout is %s, must be at least 1ms and less than Timeout (%s)", c.WaitTimeout, c.Timeout)
	}
	if c.AuditEntries < 1 || c.AuditEntries > maxAuditEntries {
		complain("AuditEntries is %d, must be between 1 and %d", c.AuditEntries, maxAuditEntries)
	}
	bound("Mutex.TTL", c.Mutex.TTL, minMutexTTL, maxMutexTTL)
	bound("Mutex.AcquireTimeout", c.Mutex.AcquireTimeout, minTimeout, maxMutexTTL)
	bound("Mutex.RetryInterval", c.Mutex.RetryInterval, minMutexRetryInterval, maxTimeout)
	return errors.Join(bad...)
}

// cluster reports whether the servers are those of a Redis Cluster.
func (c Config) cluster() bool { return len(c.Addrs) > 0 && c.MasterName == "" }

// validateServers checks what says where the servers are.
func (c Config) validateServers(complain func(format string, args ...any)) {
	if c.URL != "" && len(c.Addrs) > 0 {
		complain("URL and Addrs are both set: URL is for one server, Addrs for a Cluster or Sentinels, use one of them")
	}
	if c.MasterName != "" && len(c.Addrs) == 0 {
		complain("MasterName is %q, but Addrs names no Sentinel: set Addrs to host:port of the Sentinels", c.MasterName)
	}
	if c.MasterName == "" && (c.SentinelUsername != "" || c.SentinelPassword != "") {
		complain("SentinelUsername and SentinelPassword are for Sentinels, and MasterName is not set")
	}
	if c.Database != 0 && c.MasterName == "" {
		complain("Database is %d, which goes with MasterName only: a URL has a database of its own, and a Cluster has none but 0", c.Database)
	}
	if c.Database < 0 {
		complain("Database is %d, must not be negative", c.Database)
	}
	if len(c.Addrs) > maxAddrs {
		complain("Addrs has %d entries, at most %d are allowed", len(c.Addrs), maxAddrs)
	}
	for i, addr := range c.Addrs {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" {
			complain("Addrs[%d] is %.80q, must be host:port", i, addr)
		}
	}
}
