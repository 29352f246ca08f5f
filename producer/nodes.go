package producer

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
)

// maxRedirectClients bounds the clients kept for nodes that the cluster client
// does not know yet.
const maxRedirectClients = 16

// nodes finds the client of the one server that a command goes to. Records are
// always sent on such a client and never through the cluster client, which sends
// a command again after a broken connection although it may have been executed;
// what MOVED and ASK ask for is done by the sender.
type nodes struct {
	single  *redis.Client        // one server, or Sentinel's present master
	cluster *redis.ClusterClient // else nil
	options redis.UniversalOptions

	mu        sync.Mutex
	redirects []*redirectClient // least recently used first
	closed    bool
}

// redirectClient is a client of our own for a node that a redirect named before
// the cluster client has heard of it, such as a new node that still owns no slot.
type redirectClient struct {
	addr   string
	client *redis.Client
	users  int
}

func newNodes(o redis.UniversalOptions) *nodes {
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	o.Addrs = slices.Clone(o.Addrs)
	n := &nodes{options: o}
	switch {
	case o.MasterName != "":
		n.single = redis.NewFailoverClient(o.Failover())
	case len(o.Addrs) > 1 || o.IsClusterMode:
		n.cluster = redis.NewClusterClient(o.Cluster())
	default:
		n.single = redis.NewClient(o.Simple())
	}
	return n
}

// forKey returns the client of the node that holds key, as far as is known.
func (n *nodes) forKey(ctx context.Context, key string) (*redis.Client, error) {
	if n.single != nil {
		return n.single, nil
	}
	return n.cluster.MasterForKey(ctx, key)
}

// forRedirect returns the client of the node at addr, and a function to call when
// it is no longer used.
func (n *nodes) forRedirect(ctx context.Context, addr string) (*redis.Client, func(), error) {
	if known := n.known(ctx, addr); known != nil {
		return known, func() {}, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, func() {}, redis.ErrClosed
	}
	at := slices.IndexFunc(n.redirects, func(r *redirectClient) bool { return r.addr == addr })
	var r *redirectClient
	if at >= 0 {
		r = n.redirects[at]
		n.redirects = slices.Delete(n.redirects, at, at+1)
	} else {
		o := n.options
		o.Addrs, o.DB = []string{addr}, 0
		r = &redirectClient{addr: addr, client: redis.NewClient(o.Simple())}
	}
	r.users++
	n.redirects = append(n.redirects, r)
	n.evict()
	return r.client, func() { n.release(r) }, nil
}

// known returns the cluster client's own client for addr, nil if it has none.
func (n *nodes) known(ctx context.Context, addr string) *redis.Client {
	var mu sync.Mutex // ForEachShard calls back from a goroutine per node
	var found *redis.Client
	_ = n.cluster.ForEachShard(ctx, func(_ context.Context, c *redis.Client) error {
		if c.Options().Addr == addr {
			mu.Lock()
			found = c
			mu.Unlock()
		}
		return nil
	})
	return found
}

func (n *nodes) release(r *redirectClient) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.users--
	n.evict()
}

// evict closes unused clients beyond the limit, the longest unused first. Those
// in use are closed when they are released.
func (n *nodes) evict() {
	for i := 0; i < len(n.redirects) && len(n.redirects) > maxRedirectClients; {
		if n.redirects[i].users > 0 {
			i++
			continue
		}
		_ = n.redirects[i].client.Close()
		n.redirects = slices.Delete(n.redirects, i, i+1)
	}
}

// forgot reports an error of the kind that a client which is closed returns, where
// the cluster client has closed it by itself: the node has left the cluster while
// somebody was about to use it.
func (n *nodes) forgot(err error) bool {
	if n.cluster == nil || !errors.Is(err, redis.ErrClosed) {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.closed
}

// moved tells the cluster client that its map of slots is old.
func (n *nodes) moved(ctx context.Context) {
	if n.cluster != nil {
		n.cluster.ReloadState(ctx)
	}
}

func (n *nodes) close() error {
	n.mu.Lock()
	n.closed = true
	redirects := n.redirects
	n.redirects = nil
	n.mu.Unlock()
	for _, r := range redirects {
		_ = r.client.Close()
	}
	if n.single != nil {
		return n.single.Close()
	}
	return n.cluster.Close()
}

// completeAddr fills in what a redirect may leave out: a node that does not know
// its own address sends none, and means the address that it was reached at.
func completeAddr(addr, reachedAt string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		// An IPv6 address comes without brackets: the port is behind the last colon.
		for i := len(addr) - 1; i >= 0; i-- {
			if addr[i] == ':' {
				return net.JoinHostPort(addr[:i], addr[i+1:])
			}
		}
		return addr
	}
	if host != "" && host != "?" {
		return addr
	}
	if reached, _, err := net.SplitHostPort(reachedAt); err == nil {
		host = reached
	}
	return net.JoinHostPort(host, port)
}
