package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// sharedConnections is the size of the pool, of each node, through which
	// acknowledgements and CLIENT UNBLOCK go. Blocked reads are never in it.
	sharedConnections = 8
	// defaultReadTimeout bounds a command that does not block.
	defaultReadTimeout = 3 * time.Second
	// defaultDialTimeout is that of go-redis.
	defaultDialTimeout = 5 * time.Second
	// linkPatience is how long a connection is given to return from a command
	// when its reader is to stop, before it is cut off.
	linkPatience = 500 * time.Millisecond
)

// servers is the Redis that holds the stream: one server, Sentinel's present
// master, or the nodes of a Cluster.
type servers struct {
	options redis.UniversalOptions
	shared  redis.UniversalClient
}

func newServers(o redis.UniversalOptions) *servers {
	// Never again by itself: after a broken connection nobody knows whether a
	// read was carried out, and what it delivered would be skipped.
	o.MaxRetries = -1
	// Trouble is waited out by the caller, with a pause that grows.
	o.DialerRetries = 1
	// Nothing that goes through the shared pool is lost when its reply is.
	o.ContextTimeoutEnabled = true
	o.ReadTimeout = orDefault(o.ReadTimeout, defaultReadTimeout)
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = sharedConnections, 0, 0, 0
	if o.MaintNotificationsConfig == nil {
		o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	}
	return &servers{options: o, shared: redis.NewUniversalClient(&o)}
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

func (s *servers) close() { _ = s.shared.Close() }

// link is a connection of its own to the server that holds one shard. One
// goroutine sends commands on it; another may stop it.
type link struct {
	// client has this connection only, so closing it cuts off a command that
	// does not return.
	client *redis.Client
	conn   *redis.Conn
	// node is the shared client of the same server.
	node *redis.Client
	// id is the connection's number on the server, 0 where it cannot be unblocked.
	id int64
	// timeout bounds a command beyond the time that it blocks, dial the
	// connecting.
	timeout, dial time.Duration

	mu      sync.Mutex
	stopped bool
	// busy is closed when the command under way has returned, nil without one.
	busy chan struct{}
	// blocking is how long the command under way may block.
	blocking time.Duration
	cut      sync.Once
}

// errStopped is what a link answers after stop.
var errStopped = errors.New("the reader was stopped")

// open makes a link to the server that holds key; its first command connects.
func (s *servers) open(ctx context.Context, key string) (*link, error) {
	o := s.options
	o.PoolSize = 1
	// A deadline must not drop a connection on which records are on their way.
	o.ContextTimeoutEnabled = false
	l := &link{timeout: o.ReadTimeout, dial: orDefault(o.DialTimeout, defaultDialTimeout)}
	switch shared := s.shared.(type) {
	case *redis.Client:
		l.node = shared
		if o.MasterName != "" {
			l.client = redis.NewFailoverClient(o.Failover())
		} else {
			l.client = redis.NewClient(o.Simple())
		}
	case *redis.ClusterClient:
		node, err := shared.MasterForKey(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("find the node of %s: %w", key, err)
		}
		l.node = node
		o.Addrs, o.DB = []string{node.Options().Addr}, 0
		l.client = redis.NewClient(o.Simple())
	default:
		return nil, fmt.Errorf("a client of type %T has no connection of its own to give", shared)
	}
	l.conn = l.client.Conn()
	return l, nil
}

// moved tells the cluster client that its map of slots is old, if err says so.
func (s *servers) moved(ctx context.Context, err error) {
	cluster, ok := s.shared.(*redis.ClusterClient)
	if !ok {
		return
	}
	if _, moved := redis.IsMovedError(err); moved {
		cluster.ReloadState(ctx)
	}
}

// connect opens the connection, and finds out whether reads on it can be
// unblocked: not every server knows CLIENT, and not every user may call it. ctx
// ends the connecting.
func (l *link) connect(ctx context.Context) error {
	return l.run(0, l.dial+l.timeout, func() error {
		id, err := l.conn.ClientID(ctx).Result()
		if err == nil {
			// Nothing is blocked yet, so this does nothing but show that it may be done.
			err = l.node.ClientUnblock(ctx, id).Err()
		}
		switch {
		case err == nil:
			l.mu.Lock()
			l.id = id
			l.mu.Unlock()
			return nil
		case isReply(err):
			return nil
		}
		return err
	})
}

// do sends a command, which blocks on the server for at most block.
// It returns errStopped without sending anything after stop.
func (l *link) do(block time.Duration, command func() error) error {
	// go-redis gives a blocking read ten seconds beyond its time.
	return l.run(block, block+l.timeout, command)
}

// run is do with another limit, at which the connection is cut.
func (l *link) run(block, limit time.Duration, command func() error) error {
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return errStopped
	}
	busy := make(chan struct{})
	l.busy, l.blocking = busy, block
	l.mu.Unlock()
	watch := time.AfterFunc(limit, l.sever)
	err := command()
	watch.Stop()
	l.mu.Lock()
	l.busy = nil
	l.mu.Unlock()
	close(busy)
	return err
}

// stop keeps further commands from being sent, and makes the one under way
// return: a blocked read is unblocked, which loses nothing, whereas cutting the
// connection might leave records delivered and unseen. It returns when no
// command is under way.
func (l *link) stop(ctx context.Context) {
	l.mu.Lock()
	l.stopped = true
	busy, blocking, id := l.busy, l.blocking, l.id
	l.mu.Unlock()
	if busy == nil {
		return
	}
	patience := linkPatience
	if id == 0 {
		patience += blocking
	}
	cut := time.AfterFunc(patience, l.sever)
	defer cut.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if blocking > 0 && id != 0 {
			// It may overtake the read, which then blocks all the same: repeat it.
			l.unblock(ctx, id)
		}
		again := time.NewTimer(pause)
		select {
		case <-busy:
			again.Stop()
			return
		case <-again.C:
		}
	}
}

func (l *link) unblock(ctx context.Context, id int64) {
	ctx, done := context.WithTimeout(ctx, linkPatience)
	defer done()
	if err := l.node.ClientUnblock(ctx, id).Err(); err != nil {
		l.sever()
	}
}

// sever cuts the connection, also under a command.
func (l *link) sever() {
	l.cut.Do(func() { _ = l.client.Close() })
}

// close gives the link up. No command is under way.
func (l *link) close() {
	l.cut.Do(func() {
		_ = l.conn.Close()
		_ = l.client.Close()
	})
}

// isReply reports whether err is what the server answered: it was reached, and
// the connection is in order.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
