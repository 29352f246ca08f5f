package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say which Redis to reach and how: one server by URL, a Cluster by
// Addrs, or the master that Sentinels at Addrs know as MasterName. The timeouts
// must be set.
type Options struct {
	// URL is redis://, rediss:// or unix://. Empty with Addrs.
	URL string
	// Addrs are host:port of some nodes, or of the Sentinels.
	Addrs []string
	// MasterName is what the Sentinels call the server; empty means a Cluster.
	MasterName string
	// SentinelUsername and SentinelPassword are for the Sentinels themselves.
	SentinelUsername, SentinelPassword string
	// Database goes with MasterName; a URL has its own, a Cluster has one.
	Database int
	// Username and Password replace those of URL, unless empty.
	Username, Password string
	// TLS replaces what rediss:// implies; not nil switches TLS on.
	TLS *tls.Config
	// DialTimeout bounds the making of a connection, Timeout one write and one
	// read on it.
	DialTimeout, Timeout time.Duration
	// Patience is how long a state is waited out in which a command is not
	// carried out, such as a failover.
	Patience time.Duration
	// PoolSize is the number of connections to a server; 0 leaves it to the client
	// library.
	PoolSize int
	// WaitReplicas is how many replicas must have what the store writes, and
	// WaitTimeout how long that is waited for.
	WaitReplicas int
	WaitTimeout  time.Duration
}

// Client sends the commands of the store and the mutex, each to the server that
// holds its key. It is safe for concurrent use.
type Client struct {
	nodes *nodes
	// replicas are to have what the store writes.
	replicas replicas
}

// Open returns clients without connecting: for the keys of the store, and for
// those of streams, wherever they are. Closing the latter closes both.
func Open(o *Options) (*Client, *Streams, error) {
	opts := &redis.Options{DB: o.Database}
	if len(o.Addrs) == 0 {
		var err error
		if opts, err = parseURL(o.URL); err != nil {
			return nil, nil, err
		}
	}
	o.apply(opts)
	n := &nodes{options: opts, patience: o.Patience}
	switch {
	case len(o.Addrs) == 0:
		n.single = redis.NewClient(opts)
	case o.MasterName != "":
		n.movable = true
		n.single = redis.NewFailoverClient(o.failover(opts))
	default:
		n.movable = true
		n.cluster = redis.NewClusterClient(o.cluster(opts))
	}
	return &Client{nodes: n, replicas: replicas{o.WaitReplicas, o.WaitTimeout}}, &Streams{nodes: n}, nil
}

func parseURL(text string) (*redis.Options, error) {
	opts, err := redis.ParseURL(text)
	if err != nil {
		// The whole URL is in this error, and the password in the URL.
		if parse := (*url.Error)(nil); errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fmt.Errorf("URL: %w", err)
	}
	return opts, nil
}

// apply sets what is the same for every server.
func (o *Options) apply(opts *redis.Options) {
	if o.Username != "" {
		opts.Username = o.Username
	}
	if o.Password != "" {
		opts.Password = o.Password
	}
	if o.TLS != nil {
		opts.TLSConfig = o.TLS
	}
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout = o.DialTimeout, o.Timeout, o.Timeout
	opts.PoolTimeout = o.Timeout
	if o.PoolSize > 0 {
		opts.PoolSize = o.PoolSize
	}
	// The library would send a write again whose reply was lost.
	opts.MaxRetries = -1
	// Whoever calls tries again; a server that is away is to be known at once.
	opts.DialerRetries = 1
	opts.ContextTimeoutEnabled = true
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

func (o *Options) failover(opts *redis.Options) *redis.FailoverOptions {
	return &redis.FailoverOptions{
		MasterName: o.MasterName, SentinelAddrs: slices.Clone(o.Addrs),
		SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		DB: opts.DB, Username: opts.Username, Password: opts.Password, TLSConfig: opts.TLSConfig,
		DialTimeout: opts.DialTimeout, ReadTimeout: opts.ReadTimeout, WriteTimeout: opts.WriteTimeout,
		PoolTimeout: opts.PoolTimeout, PoolSize: opts.PoolSize,
		MaxRetries: opts.MaxRetries, DialerRetries: opts.DialerRetries,
		ContextTimeoutEnabled: opts.ContextTimeoutEnabled, DisableIdentity: opts.DisableIdentity,
	}
}

func (o *Options) cluster(opts *redis.Options) *redis.ClusterOptions {
	return &redis.ClusterOptions{
		Addrs:    slices.Clone(o.Addrs),
		Username: opts.Username, Password: opts.Password, TLSConfig: opts.TLSConfig,
		DialTimeout: opts.DialTimeout, ReadTimeout: opts.ReadTimeout, WriteTimeout: opts.WriteTimeout,
		PoolTimeout: opts.PoolTimeout, PoolSize: opts.PoolSize,
		MaxRetries: opts.MaxRetries, DialerRetries: opts.DialerRetries,
		ContextTimeoutEnabled: opts.ContextTimeoutEnabled, DisableIdentity: opts.DisableIdentity,
		MaintNotificationsConfig: opts.MaintNotificationsConfig,
	}
}

// storePatience is how long a call of the store or the mutex waits while its
// server carries nothing out. It is short: the caller tells its clients to ask
// again, and some of what it was asked is too old by then.
const storePatience = time.Second

// one carries out one call. A reply of nil is no error.
func (c *Client) one(ctx context.Context, one *call) (any, error) {
	if err := c.nodes.runFor(ctx, storePatience, []*call{one}); err != nil {
		return nil, err
	}
	return one.reply, c.nodes.outcome(ctx, one)
}

// command carries out a command on key that can be repeated without harm.
func (c *Client) command(ctx context.Context, key string, args ...any) (any, error) {
	return c.one(ctx, &call{key: key, args: args})
}

// read carries out a script that writes nothing.
func (c *Client) read(ctx context.Context, s *script, keys []string, args ...any) (any, error) {
	return c.one(ctx, s.call(keys, args))
}

// write carries out a script that must not be carried out twice: after a lost
// answer it is not known whether it was.
func (c *Client) write(ctx context.Context, s *script, keys []string, args ...any) (any, error) {
	one := s.call(keys, args)
	one.once = true
	return c.one(ctx, one)
}

// keep is write, of what has to outlive the server.
func (c *Client) keep(ctx context.Context, s *script, keys []string, args ...any) (any, error) {
	one := s.call(keys, args)
	one.once, one.replicas = true, c.replicas
	return c.one(ctx, one)
}

// each carries out one call on each of n keys, and returns the first error.
func (c *Client) each(ctx context.Context, n int, command func(i int) *call) ([]*call, error) {
	calls := make([]*call, n)
	for i := range calls {
		calls[i] = command(i)
	}
	if err := c.nodes.runFor(ctx, storePatience, calls); err != nil {
		return nil, err
	}
	for _, one := range calls {
		if err := c.nodes.outcome(ctx, one); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// failed words an error: what became of a command that was not answered, and
// why, when it is the caller who gave up.
func failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if !answered(err) && !errors.Is(err, errFewReplicas) {
		err = fmt.Errorf("no answer from Redis: %w", firstOf(err))
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
	}
	return err
}

// firstOf returns the first of the errors that err joins, itself or inside: each
// of several servers or attempts tends to fail in the same way.
func firstOf(err error) error {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		joined, ok := inner.(interface{ Unwrap() []error })
		if ok && len(joined.Unwrap()) > 1 && strings.Contains(inner.Error(), "\n") {
			return joined.Unwrap()[0]
		}
	}
	return err
}

// answered tells whether err is an answer of the server, so that the command is
// known not to have been carried out.
func answered(err error) bool {
	var answer redis.Error
	return errors.As(err, &answer)
}

// Refused reports whether err is an answer of the server; after any other error
// a command may have been carried out.
func Refused(err error) bool { return answered(err) }

// errReply is an answer that a script of ours cannot give.
func errReply(reply any) error {
	return fmt.Errorf("unexpected reply of Redis: %T", reply)
}
