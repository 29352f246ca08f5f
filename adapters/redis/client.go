package redis

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"

	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/command"
)

// Client is the connection to one Redis, which is one server, the master that
// Sentinels watch, or a Cluster; the ports are opened on it and share its
// connections. It is safe for concurrent use.
type Client struct {
	cmd     *command.Client
	streams *command.Streams
	cfg     Config
}

// SetLibraryLogger sends what the client library says by itself to log, at level
// Debug. The library has one logger for the whole process, which writes to
// standard error unless somebody sets it; so this is for main to call, once.
// All that matters there is in the errors of the calls too.
func SetLibraryLogger(log *slog.Logger) { command.SetLogger(log) }

// Open reaches the Redis. Close the client when it is no longer needed.
// Errors: all that is wrong with cfg; else a server that cannot be reached, or is
// of another kind than cfg says.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("redis configuration: %w", err)
	}
	cmd, streams, err := command.Open(&command.Options{
		URL:              cfg.URL,
		Addrs:            cfg.Addrs,
		MasterName:       cfg.MasterName,
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: cfg.SentinelPassword,
		Database:         cfg.Database,
		Username:         cfg.Username,
		Password:         cfg.Password,
		TLS:              cfg.TLS,
		DialTimeout:      cfg.DialTimeout,
		Timeout:          cfg.Timeout,
		Patience:         cfg.Patience,
		PoolSize:         cfg.PoolSize,
		WaitReplicas:     cfg.WaitReplicas,
		WaitTimeout:      cfg.WaitTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("redis configuration: %w", err)
	}
	if err := streams.Probe(ctx); err != nil {
		_ = streams.Close() // nothing of worth in it
		return nil, fmt.Errorf("reach redis: %w", err)
	}
	return &Client{cmd: cmd, streams: streams, cfg: cfg}, nil
}

// Unavailable reports whether an error of this package may be gone after a while,
// without anybody changing the settings: nobody listens there, what does breaks
// connections off, or it starts, fails over or is busy. A program that starts beside
// its Redis waits for these.
func Unavailable(err error) bool { return command.Unavailable(err) }

// Close closes the connections. Nothing opened on the client works afterwards.
func (c *Client) Close() error { return c.streams.Close() }

// Store opens the metadata store under the configured prefix; the first to do
// so draws the store's id.
func (c *Client) Store(ctx context.Context) (*Store, error) {
	s := &Store{keys: layout{prefix: c.cfg.KeyPrefix}, log: c.cfg.Logger, drawn: rand.Text()}
	if c.cfg.cluster() {
		s.parts = s.keys.storeParts()
	}
	records, hasRunID, err := c.cmd.OpenRecords(ctx, s.storeID(s.drawn))
	if err != nil {
		return nil, fmt.Errorf("open the metadata store: %w", err)
	}
	if !hasRunID {
		s.log.WarnContext(ctx, "redis does not tell its run id: a restart or failover is only noticed by what it lost; allow INFO to close this gap")
	}
	records.Muted = s.muted
	s.cmd = records
	return s, nil
}

// Mutex returns the mutex under the configured prefix.
func (c *Client) Mutex() *Mutex {
	return &Mutex{
		cmd:     c.cmd,
		keys:    layout{prefix: c.cfg.KeyPrefix},
		cfg:     c.cfg.Mutex,
		timeout: c.cfg.Timeout,
		log:     c.cfg.Logger,
	}
}

// Streams returns what creates and removes shards in this Redis.
func (c *Client) Streams() *Streams { return &Streams{cmd: c.streams} }
