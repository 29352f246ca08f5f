package redis

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
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

	DefaultMutexTTL            = 30 * time.Second
	DefaultMutexAcquireTimeout = 5 * time.Second
	DefaultMutexRetryInterval  = 100 * time.Millisecond
)

// The bounds of Config.
const (
	maxKeyPrefixBytes = 200
	minTimeout        = 10 * time.Millisecond
	maxTimeout        = time.Minute
	maxPoolSize       = 10_000
	// minMutexTTL leaves room for renewals, a third of it apart, that take as
	// long as calls do on a busy server.
	minMutexTTL           = 100 * time.Millisecond
	maxMutexTTL           = time.Hour
	minMutexRetryInterval = time.Millisecond
)

// Config says which Redis to use and how. The zero value is a server of this
// machine with the documented layout.
type Config struct {
	// URL is where the server is: redis://[user:password@]host[:port][/database],
	// rediss:// for TLS, or unix://[user:password@]/path/of/socket[?db=database].
	//
	// Defaults to redis://127.0.0.1:6379.
	URL string
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
	// PoolSize is how many connections there may be.
	//
	// Defaults to 10 for each CPU.
	PoolSize int

	// Mutex are the settings of the mutex.
	Mutex MutexConfig

	// Logger hears of what no caller can be told: a mutex that was lost, names
	// that stay in an index.
	//
	// Defaults to none.
	Logger *slog.Logger
}

// MutexConfig are the settings of the mutex.
type MutexConfig struct {
	// Owner names this coordinator in the mutex keys, for whoever looks at them.
	// Empty leaves the name out.
	Owner string
	// TTL is how long a mutex outlives a holder that died. A living holder
	// renews it every third of that.
	//
	// Defaults to 30 s.
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
	setDefault(&c.URL, DefaultURL)
	setDefault(&c.KeyPrefix, DefaultKeyPrefix)
	setDefault(&c.DialTimeout, DefaultDialTimeout)
	setDefault(&c.Timeout, DefaultTimeout)
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
	if len(c.KeyPrefix) > maxKeyPrefixBytes {
		complain("KeyPrefix is %d bytes long, at most %d are allowed", len(c.KeyPrefix), maxKeyPrefixBytes)
	}
	if strings.ContainsAny(c.KeyPrefix, "{}") || strings.ContainsFunc(c.KeyPrefix, unicode.IsControl) {
		complain("KeyPrefix is %q, must not contain braces or control characters", c.KeyPrefix)
	}
	bound("DialTimeout", c.DialTimeout, minTimeout, maxTimeout)
	bound("Timeout", c.Timeout, minTimeout, maxTimeout)
	if c.PoolSize < 0 || c.PoolSize > maxPoolSize {
		complain("PoolSize is %d, must be between 1 and %d, or 0 for the default", c.PoolSize, maxPoolSize)
	}
	bound("Mutex.TTL", c.Mutex.TTL, minMutexTTL, maxMutexTTL)
	bound("Mutex.AcquireTimeout", c.Mutex.AcquireTimeout, minTimeout, maxMutexTTL)
	bound("Mutex.RetryInterval", c.Mutex.RetryInterval, minMutexRetryInterval, maxTimeout)
	return errors.Join(bad...)
}
