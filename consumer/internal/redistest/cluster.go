package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// alertMillis is for how long a node must be silent that is to be missed soon.
const alertMillis = 1500

// Slots is the number of slots of a Redis Cluster.
const Slots = 16384

// Cluster is a Redis Cluster that ends with its test.
type Cluster struct {
	// Masters share the slots evenly, in order; Replicas[i] follows Masters[i].
	Masters, Replicas []*Server

	tb    testing.TB
	buses map[*Server]int
}

// StartCluster starts a cluster of so many masters, the first of which have a
// replica each, and waits until it is complete. A node that is silent is missed after
// Patience only, see Alert.
func StartCluster(tb testing.TB, masters, replicas int) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb, buses: map[*Server]int{}}
	needServer(tb)
	for i := range masters + replicas {
		var bus int
		s := startAnywhere(tb, func(string) []string {
			_, port, _ := net.SplitHostPort(freeAddr(tb))
			bus, _ = strconv.Atoi(port)
			return []string{
				"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", port,
				"--cluster-node-timeout", strconv.Itoa(alertMillis), "--cluster-replica-validity-factor", "0",
				"--repl-diskless-sync-delay", "0", "--cluster-require-full-coverage", "no",
			}
		})
		c.buses[s] = bus
		if i < masters {
			c.Masters = append(c.Masters, s)
		} else {
			c.Replicas = append(c.Replicas, s)
		}
	}
	for i, s := range c.Masters {
		s.Do("CLUSTER", "ADDSLOTSRANGE", i*Slots/masters, (i+1)*Slots/masters-1)
	}
	all := c.all()
	for i, s := range all {
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range all[1:] {
		host, port, _ := net.SplitHostPort(s.Addr)
		all[0].Do("CLUSTER", "MEET", host, port, c.buses[s])
	}
	c.await("the cluster is complete", func(s *Server) bool {
		info := s.Info("CLUSTER", "INFO")
		return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(all)))
	})
	for i, s := range c.Replicas {
		s.Do("CLUSTER", "REPLICATE", c.Masters[i].NodeID())
	}
	for _, s := range c.Replicas {
		waitFor(tb, "a replica follows", func() bool { return strings.Contains(s.Info("INFO", "replication"), "master_link_status:up") })
	}
	c.await("the replicas are known", func(s *Server) bool {
		return strings.Count(s.Info("CLUSTER", "NODES"), "slave") >= len(c.Replicas)
	})
	c.missAfter(Patience.Milliseconds())
	return c
}

// Alert has the nodes call one dead that is silent for a moment, so that its replica
// takes over.
func (c *Cluster) Alert() {
	c.tb.Helper()
	c.missAfter(alertMillis)
}

func (c *Cluster) missAfter(millis int64) {
	c.tb.Helper()
	for _, s := range c.all() {
		s.Do("CONFIG", "SET", "cluster-node-timeout", millis)
	}
}

func (c *Cluster) all() []*Server { return append(append([]*Server(nil), c.Masters...), c.Replicas...) }

func (c *Cluster) await(what string, holds func(*Server) bool) {
	c.tb.Helper()
	for _, s := range c.all() {
		waitFor(c.tb, what, func() bool { return holds(s) })
	}
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() (addrs []string) {
	for _, s := range c.all() {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Client returns a client of the cluster, for the test itself. It does not wait long
// for a node that is frozen.
func (c *Cluster) Client() *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: c.Addrs(), ClientName: ClientName, MaxRetries: -1, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})
}

// Do sends one command to the server and fails the test on an error.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	client := s.Client()
	defer func() { _ = client.Close() }()
	v, err := client.Do(context.Background(), args...).Result()
	if err != nil {
		s.tb.Fatalf("%v: %v", args, err)
	}
	return v
}

// Info sends a command and returns its text, empty if it fails.
func (s *Server) Info(args ...any) string {
	client := s.Client()
	defer func() { _ = client.Close() }()
	text, _ := client.Do(context.Background(), args...).Text()
	return text
}

// InStep waits until a replica has all that its master has now. A master answers before
// its replicas have what it wrote, so whoever ends one and counts on what was written
// waits for this first; WAIT would only wait for what its own connection wrote.
func (s *Server) InStep(master *Server) {
	s.tb.Helper()
	written := offset(master.Info("INFO", "replication"), "master_repl_offset")
	waitFor(s.tb, "the replica is in step", func() bool {
		return written >= 0 && offset(s.Info("INFO", "replication"), "slave_repl_offset") >= written
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

// NodeID returns the server's id in its cluster.
func (s *Server) NodeID() string {
	s.tb.Helper()
	id, _ := s.Do("CLUSTER", "MYID").(string)
	return id
}

// MoveSlot gives a slot to another master, with the keys in it, as a reshard does.
func (c *Cluster) MoveSlot(slot int, from, to *Server) {
	c.tb.Helper()
	c.BeginMove(slot, from, to)
	c.MoveKeys(slot, from, to)
	c.FinishMove(slot, from, to)
}

// BeginMove opens a slot for its move: from then on from answers ASK for the keys
// that it has not.
func (c *Cluster) BeginMove(slot int, from, to *Server) {
	c.tb.Helper()
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.NodeID())
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.NodeID())
}

// MoveKeys moves the keys of an open slot.
func (c *Cluster) MoveKeys(slot int, from, to *Server) {
	c.tb.Helper()
	keys, _ := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
	host, port, _ := net.SplitHostPort(to.Addr)
	for _, key := range keys {
		from.Do("MIGRATE", host, port, key, 0, Patience.Milliseconds())
	}
}

// FinishMove ends the move: to owns the slot.
func (c *Cluster) FinishMove(slot int, from, to *Server) {
	c.tb.Helper()
	id := to.NodeID()
	for _, s := range append([]*Server{to, from}, c.Masters...) {
		s.Do("CLUSTER", "SETSLOT", slot, "NODE", id)
	}
}

// Owner returns the index of the master that has a slot in the beginning.
func (c *Cluster) Owner(slot int) int {
	n := len(c.Masters)
	for i := range n {
		if slot < (i+1)*Slots/n {
			return i
		}
	}
	return n - 1
}
