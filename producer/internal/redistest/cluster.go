package redistest

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slotCount = 16384

// After nodeTimeout a node that does not answer is taken for dead by the others. It is
// long, since a node of a machine at load may stand still for seconds; FailOverFast makes
// it short where a failover is what is tested.
const nodeTimeout = Patience

// StartCluster starts n masters that share the slots of a Redis Cluster evenly,
// in order, and waits until all of them know it.
func StartCluster(tb testing.TB, n int) []*Server {
	tb.Helper()
	ctx := tb.Context()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = startNode(tb)
	}
	for i, s := range servers {
		must(tb, s.Client.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", i*slotCount/n, (i+1)*slotCount/n-1).Err())
		must(tb, s.Client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	}
	first := servers[0]
	for _, s := range servers[1:] {
		host, port, _ := net.SplitHostPort(s.Addr)
		must(tb, first.Client.Do(ctx, "CLUSTER", "MEET", host, port, s.busPort()).Err())
	}
	for _, s := range servers {
		Eventually(tb, "the cluster to be complete", func() bool {
			info := s.Client.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_slots_ok:16384") && strings.Contains(info, "cluster_state:ok")
		})
	}
	return servers
}

// startNode starts a server that may be part of a cluster.
func startNode(tb testing.TB, extra ...string) *Server {
	tb.Helper()
	return start(tb, func() []string {
		return append([]string{
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(freePort(tb)),
			"--cluster-node-timeout", strconv.FormatInt(nodeTimeout.Milliseconds(), 10),
		}, extra...)
	})
}

// FailOverFast has the nodes notice soon that another one is dead. From then on one that
// stands still for a moment is taken for dead too, and back in the cluster soon after it
// goes on.
func FailOverFast(tb testing.TB, nodes ...*Server) {
	tb.Helper()
	for _, s := range nodes {
		must(tb, s.Client.ConfigSet(tb.Context(), "cluster-node-timeout", "2000").Err())
	}
}

// AddReplica starts a replica of master, and waits until every node knows it and it
// has what the master has.
func AddReplica(tb testing.TB, servers []*Server, master *Server) *Server {
	tb.Helper()
	ctx := tb.Context()
	s := startNode(tb, "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(s.Addr)
	must(tb, master.Client.Do(ctx, "CLUSTER", "MEET", host, port, s.busPort()).Err())
	must(tb, master.Client.ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err())
	id := master.NodeID()
	// One that does not know its master's slots yet would claim some for itself.
	Eventually(tb, "the replica to know its master", func() bool {
		return strings.Contains(s.Client.ClusterInfo(ctx).Val(), "cluster_slots_ok:16384") && s.Client.Do(ctx, "CLUSTER", "REPLICATE", id).Err() == nil
	})
	Eventually(tb, "the replica to follow", func() bool {
		return strings.Contains(s.Client.Info(ctx, "replication").Val(), "master_link_status:up")
	})
	for _, other := range servers {
		Eventually(tb, "the replica to be known", func() bool {
			for _, line := range strings.Split(other.Client.ClusterNodes(ctx).Val(), "\n") {
				if strings.Contains(line, s.Addr) && strings.Contains(line, "slave") {
					return true
				}
			}
			return false
		})
	}
	return s
}

// Copied waits until the replica has what the master has at the moment of the call.
func (s *Server) Copied(replica *Server) {
	s.tb.Helper()
	written := s.replicationOffset("master_repl_offset")
	Eventually(s.tb, "the replica to have it all", func() bool { return replica.replicationOffset("slave_repl_offset") >= written })
}

func (s *Server) replicationOffset(field string) int64 {
	s.tb.Helper()
	offset, err := strconv.ParseInt(s.Client.InfoMap(s.tb.Context(), "replication").Item("Replication", field), 10, 64)
	must(s.tb, err)
	return offset
}

// IsMaster reports whether the server says so itself.
func (s *Server) IsMaster() bool {
	return strings.Contains(s.Client.Info(s.tb.Context(), "replication").Val(), "role:master")
}

func (s *Server) busPort() string {
	for i, arg := range s.args {
		if arg == "--cluster-port" {
			return s.args[i+1]
		}
	}
	return ""
}

// NodeID returns the server's id in its cluster.
func (s *Server) NodeID() string {
	s.tb.Helper()
	id, err := s.Client.Do(s.tb.Context(), "CLUSTER", "MYID").Text()
	must(s.tb, err)
	return id
}

// MoveSlot gives slot to another server, the keys in it included, as a reshard
// does. With half set it stops before the last step, so that the slot is still
// owned by from and its keys are already at to: from answers ASK.
func MoveSlot(tb testing.TB, slot int, from, to *Server, half bool) {
	tb.Helper()
	ctx := tb.Context()
	must(tb, to.Client.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", from.NodeID()).Err())
	must(tb, from.Client.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", to.NodeID()).Err())
	keys, err := from.Client.ClusterGetKeysInSlot(ctx, slot, 100).Result()
	must(tb, err)
	host, port, _ := net.SplitHostPort(to.Addr)
	for _, key := range keys {
		must(tb, from.Client.Migrate(ctx, host, port, key, 0, Patience).Err())
	}
	if half {
		return
	}
	FinishMove(tb, slot, from, to)
}

// FinishMove ends a MoveSlot that was left half done.
func FinishMove(tb testing.TB, slot int, from, to *Server) {
	tb.Helper()
	for _, s := range []*Server{to, from} {
		must(tb, s.Client.Do(tb.Context(), "CLUSTER", "SETSLOT", slot, "NODE", to.NodeID()).Err())
	}
}

// Eventually waits for a condition, and fails the test when it does not come.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	deadline := time.Now().Add(Patience)
	for !holds() {
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
