package faultkit

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	clusterMasters = 3
	slotCount      = 16384
	// nodeTimeout is how long a node is missed before its replica takes over. A
	// shorter one makes failovers, and with them losses, out of a busy test machine's
	// hiccups, which last for seconds.
	nodeTimeout = 5 * time.Second
	// wholeTimeout is how long a cluster may take to agree on itself.
	wholeTimeout = 90 * time.Second
)

// form starts the nodes and makes a cluster of them: three masters that share
// the slots evenly, with a replica each unless they are behind proxies.
func (s *Server) form(program string, args []string, o Options) {
	s.tb.Helper()
	args = append(args,
		"--cluster-node-timeout", strconv.Itoa(int(nodeTimeout.Milliseconds())),
		"--cluster-replica-validity-factor", "0",
		// A master that has given all its slots away stays a master.
		"--cluster-allow-replica-migration", "no",
		"--repl-diskless-sync-delay", "0")
	count := 2 * clusterMasters
	if o.Proxied {
		count = clusterMasters
	}
	s.Nodes = make([]*Node, count)
	for i := range s.Nodes {
		s.Nodes[i] = s.startFronted(program, args, o)
	}
	ctx := s.ctx()
	for i, n := range s.Nodes {
		if i < clusterMasters {
			must(s.tb, n.Client.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", i*slotCount/clusterMasters, (i+1)*slotCount/clusterMasters-1).Err())
		}
		must(s.tb, n.Client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	}
	first := s.Nodes[0]
	for _, n := range s.Nodes[1:] {
		must(s.tb, first.Client.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", n.clientPort(), n.busPort).Err())
	}
	s.awaitKnown()
	for i, n := range s.Nodes[min(clusterMasters, len(s.Nodes)):] {
		must(s.tb, n.Client.Do(ctx, "CLUSTER", "REPLICATE", s.Nodes[i].id(ctx)).Err())
	}
	s.AwaitWhole()
}

// startFronted starts a node of the cluster, with what is to be in front of it.
func (s *Server) startFronted(program string, args []string, o Options) *Node {
	s.tb.Helper()
	front, setTarget := "", func(string) {}
	switch {
	case o.Proxied:
		p := NewProxy(s.tb, "")
		s.Proxies = append(s.Proxies, p)
		front, setTarget = p.Addr, p.SetTarget
	case o.Gated:
		g := NewGate(s.tb, "")
		s.Gates = append(s.Gates, g)
		front, setTarget = g.Addr, g.SetTarget
	}
	own := slices.Clone(args)
	if front != "" {
		own = append(own, "--cluster-announce-ip", "127.0.0.1", "--cluster-announce-port", strconv.Itoa(port(s.tb, front)))
	}
	n := startNode(s.tb, program, true, own...)
	n.announced = front
	setTarget(n.Addr)
	return n
}

// awaitKnown waits until every node knows every other.
func (s *Server) awaitKnown() {
	s.tb.Helper()
	Eventually(s.tb, wholeTimeout, "the nodes of the cluster know each other", func() bool {
		for _, n := range s.Nodes {
			if !strings.Contains(n.Client.ClusterInfo(s.ctx()).Val(), fmt.Sprintf("cluster_known_nodes:%d\r\n", len(s.Nodes))) ||
				strings.Contains(n.Client.ClusterNodes(s.ctx()).Val(), "handshake") {
				return false
			}
		}
		return true
	})
}

// AwaitWhole waits until every node that runs sees all slots served and every
// replica that runs follows its master.
func (s *Server) AwaitWhole() {
	s.tb.Helper()
	Eventually(s.tb, wholeTimeout, "the cluster is whole", func() bool {
		ctx := s.ctx()
		for _, n := range s.Nodes {
			if !n.Runs() {
				continue
			}
			info := n.Client.ClusterInfo(ctx).Val()
			if !strings.Contains(info, "cluster_slots_ok:16384") || !strings.Contains(info, "cluster_state:ok") {
				return false
			}
			if !n.master(ctx) && !strings.Contains(n.Client.Info(ctx, "replication").Val(), "master_link_status:up") {
				return false
			}
		}
		return len(s.Masters()) == clusterMasters
	})
	// The client asks who is master once a minute only, also when one is dead.
	if c, ok := s.Client.(*redis.ClusterClient); ok {
		c.ReloadState(s.ctx())
	}
}

// master reports whether the node says that it is one.
func (n *Node) master(ctx context.Context) bool {
	return strings.Contains(n.Client.Info(ctx, "replication").Val(), "role:master")
}

// id is the node's id in its cluster.
func (n *Node) id(ctx context.Context) string {
	n.tb.Helper()
	id, err := n.Client.Do(ctx, "CLUSTER", "MYID").Text()
	must(n.tb, err)
	return id
}

// Owner returns the node that serves a key.
func (s *Server) Owner(key string) *Node {
	s.tb.Helper()
	if !s.Kind.Clustered {
		return s.Nodes[0]
	}
	var owner *Node
	Eventually(s.tb, wholeTimeout, "somebody serves "+key, func() bool {
		for _, n := range s.Masters() {
			// Another node answers MOVED, and one without the key's slot CLUSTERDOWN.
			if err := n.Client.Exists(s.ctx(), key).Err(); err == nil {
				owner = n
				return true
			}
		}
		return false
	})
	return owner
}

// failoverPatience is when a replica is asked once more to take over: it gives up by
// itself after 5 s if its master is busy.
const failoverPatience = 6 * time.Second

// Failover makes a replica take over from its master without losing anything,
// as CLUSTER FAILOVER does.
func (s *Server) Failover(master *Node) {
	s.tb.Helper()
	replica := s.Replica(master)
	var asked time.Time
	Eventually(s.tb, wholeTimeout, "the replica has taken over", func() bool {
		if replica.master(s.ctx()) {
			return !master.master(s.ctx())
		}
		if time.Since(asked) > failoverPatience {
			asked = time.Now()
			must(s.tb, replica.Client.Do(s.ctx(), "CLUSTER", "FAILOVER").Err())
		}
		return false
	})
	s.AwaitWhole()
}

// KillMaster kills a master and waits until its replica serves the slots. What
// had not reached the replica is lost with it.
func (s *Server) KillMaster(master *Node) {
	s.tb.Helper()
	replica := s.Replica(master)
	master.Kill()
	Eventually(s.tb, wholeTimeout, "the replica has taken over", func() bool { return replica.master(s.ctx()) })
	s.AwaitWhole()
}

// SucceedFrozen freezes a master and waits until its replica serves the slots. Resume
// lets the old one go on, which for a moment does not know that it was succeeded.
func (s *Server) SucceedFrozen(master *Node) {
	s.tb.Helper()
	replica := s.Replica(master)
	master.Pause()
	Eventually(s.tb, wholeTimeout, "the replica has taken over", func() bool { return replica.master(s.ctx()) })
	s.AwaitWhole()
}

// InStep waits until the replica of a master has all that the master has now. A master
// answers before its replica has what it wrote; WAIT would only wait for what its own
// connection wrote.
func (s *Server) InStep(master *Node) {
	s.tb.Helper()
	ctx := s.ctx()
	written := offset(master.Client.Info(ctx, "replication").Val(), "master_repl_offset")
	replica := s.Replica(master)
	Eventually(s.tb, wholeTimeout, "the replica is in step", func() bool {
		return written >= 0 && offset(replica.Client.Info(ctx, "replication").Val(), "slave_repl_offset") >= written
	})
}

// offset reads a number of INFO, -1 where it is missing.
func offset(info, name string) int64 {
	_, rest, _ := strings.Cut(info, name+":")
	digits, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Replica returns a running replica of a master.
func (s *Server) Replica(master *Node) *Node {
	s.tb.Helper()
	ctx := s.ctx()
	follows := "master_port:" + master.clientPort() + "\r\n"
	for _, n := range s.Nodes {
		if n != master && n.Runs() && strings.Contains(n.Client.Info(ctx, "replication").Val(), follows) {
			return n
		}
	}
	s.tb.Fatalf("%s has no replica", master.Addr)
	return nil
}

// pastFronts dials the node behind a proxy or a gate where that is named.
func (s *Server) pastFronts() func(ctx context.Context, network, addr string) (net.Conn, error) {
	behind := map[string]string{}
	for i, front := range s.fronts() {
		behind[front] = s.Nodes[i].Addr
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if direct, ok := behind[addr]; ok {
			addr = direct
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
}
