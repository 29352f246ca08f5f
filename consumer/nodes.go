package consumer

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// controlConnections is the size of the pool, of each node, through which
	// CLIENT UNBLOCK goes, the commands of shards without a connection of their own,
	// and the watch.
	controlConnections = 4
	// pulse is how often a server with readers is asked whether it is there.
	// It has as long to answer before it is called silent.
	pulse = 500 * time.Millisecond
)

// node is one server that links lead to. It lives as long as one does.
type node struct {
	// addr is empty where there is one server only.
	addr   string
	client *redis.Client
	// borrowed: client is the shared one.
	borrowed bool

	// The fields below are guarded by the mutex of servers.
	links map[*link]struct{}
	rota  *rota
	// silent is since when it does not answer, zero while it does.
	silent time.Time
}

// close ends what belongs to the node.
func (n *node) close() {
	if n.rota != nil {
		n.rota.close()
	}
	if !n.borrowed {
		_ = n.client.Close()
	}
}

// watch looks after the servers until ctx ends. A connection to a server that is
// gone without a word stays blocked for as long as the read may take, which is
// long; so the server is asked beside it. One that does not answer any more, while
// the cluster has given the shard to another, or for longer than a command may
// take, has its links cut: the readers look for the shard anew.
func (s *servers) watch(ctx context.Context) {
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		nodes := make([]*node, 0, len(s.nodes))
		for _, n := range s.nodes {
			nodes = append(nodes, n)
		}
		s.mu.Unlock()
		var asking sync.WaitGroup
		for _, n := range nodes {
			asking.Go(func() { s.feel(ctx, n) })
		}
		asking.Wait()
	}
}

// feel asks one server whether it is there.
func (s *servers) feel(ctx context.Context, n *node) {
	begin := time.Now()
	call, done := context.WithTimeout(ctx, pulse)
	err := n.client.Ping(call).Err()
	done()
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil || isReply(err) {
		n.silent = time.Time{}
		s.dropOldMaster(n)
		return
	}
	if n.silent.IsZero() {
		n.silent = begin
	}
	if cluster, ok := s.shared.(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
	given := time.Since(n.silent) >= s.options.ReadTimeout
	for l := range n.links {
		if given || s.movedAway(ctx, l) {
			l.sever()
		}
	}
}

// movedAway reports whether the map of the cluster has the shard at another node.
func (s *servers) movedAway(ctx context.Context, l *link) bool {
	home := s.home(ctx, l.key)
	return home != "" && home != l.node.addr && !l.asking
}

// dropOldMaster cuts the links that lead to a master which Sentinel has replaced: the
// shared client has reached another. The caller holds the mutex.
func (s *servers) dropOldMaster(n *node) {
	if s.options.MasterName == "" {
		return
	}
	master := s.reached.addr.Load()
	for l := range n.links {
		if at := l.reached.addr.Load(); master != nil && at != nil && *at != *master {
			l.sever()
		}
	}
}

// reached is a hook that notes which server a client has connected to last.
type reached struct{ addr atomic.Pointer[string] }

// DialHook notes the address.
func (r *reached) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err == nil {
			at := conn.RemoteAddr().String()
			r.addr.Store(&at)
		}
		return conn, err
	}
}

// ProcessHook changes nothing.
func (r *reached) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook changes nothing.
func (r *reached) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// brisk is a hook that bounds the questions about the cluster. They go to any node,
// one after the other, and a node that is silent must not keep us from hearing of
// its successor.
type brisk struct{}

// DialHook changes nothing.
func (brisk) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook bounds CLUSTER SLOTS and its like.
func (brisk) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "cluster" {
			return next(ctx, cmd)
		}
		ctx, done := context.WithTimeout(ctx, pulse)
		defer done()
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook changes nothing.
func (brisk) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
