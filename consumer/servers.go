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
	// acknowledgements go. Blocked reads are never in it.
	sharedConnections = 8
	// defaultReadTimeout bounds a command that does not block.
	defaultReadTimeout = 3 * time.Second
	// defaultDialTimeout is that of go-redis.
	defaultDialTimeout = 5 * time.Second
	// askTime is how long a reader follows a slot that is on its way before it looks
	// whether it has arrived.
	askTime = 2 * time.Second
)

// servers is the Redis that holds the stream: one server, Sentinel's present
// master, or the nodes of a Cluster.
type servers struct {
	options redis.UniversalOptions
	// shared carries what may be sent again: acknowledgements.
	shared redis.UniversalClient
	// reached is the master that shared has reached, with Sentinel.
	reached reached
	// maxBlocked is how many readers may have a connection of their own.
	maxBlocked int
	// patience is limits.link.
	patience time.Duration

	stop     context.CancelFunc
	watching sync.WaitGroup

	mu sync.Mutex
	// nodes are the servers that links lead to, by address.
	nodes map[string]*node
	// blocked counts the links with a connection of their own.
	blocked int
}

func newServers(ctx context.Context, o redis.UniversalOptions, maxBlocked int, patience time.Duration) *servers {
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
	s := &servers{options: o, shared: newShared(&o), maxBlocked: maxBlocked, patience: patience, nodes: map[string]*node{}}
	if o.MasterName != "" {
		s.shared.AddHook(&s.reached)
	}
	ctx, s.stop = context.WithCancel(ctx)
	s.watching.Go(func() { s.watch(ctx) })
	return s
}

// newShared makes the client that all shards share.
func newShared(o *redis.UniversalOptions) redis.UniversalClient {
	if o.MasterName != "" || len(o.Addrs) < 2 && !o.IsClusterMode {
		return redis.NewUniversalClient(o)
	}
	cluster := o.Cluster()
	cluster.NewClient = func(opt *redis.Options) *redis.Client {
		client := redis.NewClient(opt)
		client.AddHook(brisk{})
		return client
	}
	return redis.NewClusterClient(cluster)
}

func orDefault(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// close ends the watch and what links have in common.
func (s *servers) close() {
	s.stop()
	s.mu.Lock()
	nodes := s.nodes
	s.nodes = map[string]*node{}
	s.mu.Unlock()
	for _, n := range nodes {
		n.close()
	}
	_ = s.shared.Close()
	// Only now: it may wait for an answer, and ends with the connections.
	s.watching.Wait()
}

// open makes a link to the server that holds key, as far as is known, or that at
// names; its first command connects. Beyond maxBlocked links it joins the rota of
// the server.
func (s *servers) open(ctx context.Context, key string, at target) (*link, error) {
	if cluster, ok := s.shared.(*redis.ClusterClient); ok && at.addr == "" {
		home, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("find the node of %s: %w", key, err)
		}
		at.addr = home.Options().Addr
	} else if !ok {
		at = target{}
	}
	l := &link{
		servers: s, key: key, asking: at.ask, opened: time.Now(),
		timeout: s.options.ReadTimeout, dial: orDefault(s.options.DialTimeout, defaultDialTimeout),
		halt: make(chan struct{}), severed: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l.node = s.node(at.addr)
	l.node.links[l] = struct{}{}
	// ASKING is a matter of one connection.
	if s.blocked >= s.maxBlocked && !at.ask {
		if l.node.rota == nil {
			l.node.rota = newRota(s.connect(at.addr, 1, true)) //nolint:contextcheck // It outlives who comes first.
		}
		l.conn, l.turn = l.node.client, &turn{rota: l.node.rota}
		return l, nil
	}
	s.blocked++
	// A deadline must not drop a connection on which records are on their way.
	l.client = s.connect(at.addr, 1, false)
	switch {
	case at.ask:
		l.client.AddHook(asks{})
	case s.options.MasterName != "":
		l.client.AddHook(&l.reached)
	}
	l.sticky = l.client.Conn()
	l.conn = l.sticky
	return l, nil
}

// node returns the node at addr; the caller holds the mutex.
func (s *servers) node(addr string) *node {
	n, known := s.nodes[addr]
	if !known {
		n = &node{addr: addr, links: map[*link]struct{}{}}
		if shared, only := s.shared.(*redis.Client); only {
			n.client, n.borrowed = shared, true
		} else {
			n.client = s.connect(addr, controlConnections, true)
		}
		s.nodes[addr] = n
	}
	return n
}

// connect makes a client of one server.
func (s *servers) connect(addr string, connections int, deadlines bool) *redis.Client {
	o := s.options
	o.PoolSize, o.ContextTimeoutEnabled = connections, deadlines
	if !deadlines {
		// A link has limits of its own, see link.run. This one must leave a pipeline
		// time for the blocking read in it.
		o.ReadTimeout *= 2
	}
	switch shared := s.shared.(type) {
	case *redis.ClusterClient:
		o.Addrs, o.DB = []string{addr}, 0
	case *redis.Client:
		if o.MasterName != "" {
			// Its dialer knows the present master. What it made of the options must
			// not be taken for the defaults.
			opt := *shared.Options()
			opt.MaxRetries, opt.DialerRetries, opt.PoolSize, opt.ContextTimeoutEnabled = -1, 1, connections, deadlines
			return redis.NewClient(&opt)
		}
	}
	return redis.NewClient(o.Simple())
}

// release forgets a link, and its node with the last one.
func (s *servers) release(l *link) {
	s.mu.Lock()
	if !l.polled() {
		s.blocked--
	}
	n := l.node
	delete(n.links, l)
	last := len(n.links) == 0 && s.nodes[n.addr] == n
	if last {
		delete(s.nodes, n.addr)
	}
	s.mu.Unlock()
	if last {
		n.close()
	}
}

// outdated reports whether a link is not what open would make now: there is room
// for a connection of its own, or the slot that it followed may have arrived.
func (s *servers) outdated(l *link) bool {
	if l.asking {
		return time.Since(l.opened) > askTime
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.polled() && s.blocked < s.maxBlocked
}

// home returns the address of the node that holds key, as far as is known; empty
// where there is one server only.
func (s *servers) home(ctx context.Context, key string) string {
	cluster, ok := s.shared.(*redis.ClusterClient)
	if !ok {
		return ""
	}
	ctx, done := context.WithTimeout(ctx, pulse)
	defer done()
	node, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return ""
	}
	return node.Options().Addr
}

// look has the map of the cluster read anew, in the background.
func (s *servers) look(ctx context.Context) {
	if cluster, ok := s.shared.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

// clustered reports whether redirects can be followed.
func (s *servers) clustered() bool {
	_, ok := s.shared.(*redis.ClusterClient)
	return ok
}

// isReply reports whether err is what the server answered: it was reached, and
// the connection is in order.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}
