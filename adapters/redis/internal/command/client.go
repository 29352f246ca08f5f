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
}

// Client sends commands to one server. It is safe for concurrent use.
type Client struct {
	rdb *redis.Client
}

// Open returns clients without connecting: for one server, which is nil with a
// Cluster, and for the keys of streams, wherever they are. Closing the latter
// closes both.
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
	streams := &Streams{nodes: n}
	if n.cluster != nil {
		return nil, streams, nil
	}
	return &Client{rdb: n.single}, streams, nil
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

// run carries a script out, which may write. The server is given the text of
// a script only when it does not know it: that refusal is certain, so sending
// it again is safe.
func (c *Client) run(ctx context.Context, s *redis.Script, keys []string, args ...any) (any, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	reply, err := s.Run(ctx, c.rdb, keys, args...).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, failed(ctx, err)
}

// failed words an error: what became of a command that was not answered, and
// why, when it is the caller who gave up.
func failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if !answered(err) {
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
