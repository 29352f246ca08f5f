package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options say which Redis to reach and how. All fields but the credentials and
// TLS must be set.
type Options struct {
	// URL is redis://, rediss:// or unix://.
	URL string
	// Username and Password replace those of URL, unless empty.
	Username, Password string
	// TLS replaces what rediss:// implies; not nil switches TLS on.
	TLS *tls.Config
	// DialTimeout bounds the making of a connection, Timeout one write and one
	// read on it.
	DialTimeout, Timeout time.Duration
	// PoolSize is the number of connections; 0 leaves it to the client library.
	PoolSize int
}

// Client sends commands to one Redis. It is safe for concurrent use.
type Client struct {
	rdb redis.UniversalClient
}

// New returns a client without connecting.
func New(o Options) (*Client, error) {
	opts, err := redis.ParseURL(o.URL)
	if err != nil {
		// The whole URL is in this error, and the password in the URL.
		if parse := (*url.Error)(nil); errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, err
	}
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
	return &Client{rdb: redis.NewClient(opts)}, nil
}

// Close closes all connections.
func (c *Client) Close() error { return c.rdb.Close() }

// Ping reaches the server.
func (c *Client) Ping(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return failed(ctx, c.rdb.Ping(ctx).Err())
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
		err = fmt.Errorf("no answer from Redis: %w", err)
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w (%w)", err, cause)
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
