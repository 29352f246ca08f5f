package command

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// redirects are the clients of servers that redirects named, for one run. The
// Cluster client may not know them yet, such as a new one that owns no slot.
type redirects struct {
	options *redis.Options
	clients map[string]*redis.Client
}

// client returns the client of the server at addr: the Cluster client's own, if
// there is one.
func (r *redirects) client(ctx context.Context, cluster *redis.ClusterClient, addr string) *redis.Client {
	if c := r.clients[addr]; c != nil {
		return c
	}
	if c := known(ctx, cluster, addr); c != nil {
		return c
	}
	o := *r.options
	o.Network, o.Addr = "tcp", addr
	c := redis.NewClient(&o)
	if r.clients == nil {
		r.clients = map[string]*redis.Client{}
	}
	r.clients[addr] = c
	return c
}

// known returns the Cluster client's own client for addr, nil if it has none.
func known(ctx context.Context, cluster *redis.ClusterClient, addr string) *redis.Client {
	var mu sync.Mutex // ForEachShard calls back from a goroutine per server
	var found *redis.Client
	_ = cluster.ForEachShard(ctx, func(_ context.Context, c *redis.Client) error {
		if c.Options().Addr == addr {
			mu.Lock()
			found = c
			mu.Unlock()
		}
		return nil
	})
	return found
}

func (r *redirects) close() {
	for _, c := range r.clients {
		_ = c.Close() // nothing of worth in it
	}
}
