package redistest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slotCount = 16384

// eventuallyTimeout bounds how long a Cluster takes to agree on anything.
const eventuallyTimeout = 30 * time.Second

// Cluster is a Redis Cluster of one test.
type Cluster struct {
	// Masters share the slots evenly, in order. Replicas has one of each master,
	// or none.
	Masters, Replicas []*Server

	tb testing.TB
}

// StartCluster starts so many masters, with a replica each if asked for, waits
// until all of them know it, and stops them when the test ends.
func StartCluster(tb testing.TB, masters int, replicas bool) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	for i := range masters {
		s := StartNode(tb)
		s.must("CLUSTER ADDSLOTSRANGE %d %d", i*slotCount/masters, (i+1)*slotCount/masters-1)
		s.must("CLUSTER SET-CONFIG-EPOCH %d", i+1)
		c.Masters = append(c.Masters, s)
	}
	for range masters {
		if replicas {
			c.Replicas = append(c.Replicas, StartNode(tb))
		}
	}
	for _, s := range c.all()[1:] {
		c.meet(s)
	}
	c.agree(c.all()...)
	for i, s := range c.Replicas {
		s.must("CLUSTER REPLICATE %s", c.Masters[i].NodeID())
	}
	for i, s := range c.Replicas {
		s.InStep(c.Masters[i])
	}
	return c
}

// InStep waits until a replica has all that its master has now, and is sent what comes. A
// master answers before its replicas have what it wrote, so whoever kills one and counts on
// what was written waits for this first; WAIT would only wait for what its own connection wrote.
func (s *Server) InStep(master *Server) {
	s.tb.Helper()
	written := offset(master.must("INFO replication"), "master_repl_offset")
	Eventually(s.tb, "a replica to be in step", func() bool {
		info := s.must("INFO replication")
		return strings.Contains(info, "master_link_status:up") && offset(info, "slave_repl_offset") >= written &&
			strings.Contains(master.must("INFO replication"), "state=online")
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

// InStep waits until each replica has all that its master has now.
func (c *Cluster) InStep() {
	c.tb.Helper()
	for i, s := range c.Replicas {
		s.InStep(c.Masters[i])
	}
}

// StartNode starts a server that is ready to join a Cluster.
func StartNode(tb testing.TB) *Server {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	s := Start(tb, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", port,
		"--cluster-node-timeout", "1000", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0")
	s.busPort = port
	return s
}

func (c *Cluster) all() []*Server { return append(append([]*Server{}, c.Masters...), c.Replicas...) }

// Addrs are the addresses of the masters.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Masters))
	for i, s := range c.Masters {
		addrs[i] = s.Addr
	}
	return addrs
}

// Join makes a server a member of the Cluster and waits until everybody knows.
func (c *Cluster) Join(s *Server) {
	c.tb.Helper()
	c.meet(s)
	c.agree(append(c.all(), s)...)
}

func (c *Cluster) meet(s *Server) {
	c.tb.Helper()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.Masters[0].must("CLUSTER MEET %s %s %s", host, port, s.busPort)
}

// agree waits until all of the servers know each other and the slots.
func (c *Cluster) agree(servers ...*Server) {
	c.tb.Helper()
	for _, s := range servers {
		Eventually(c.tb, "the Cluster to agree", func() bool {
			info := s.must("CLUSTER INFO")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(servers)))
		})
	}
}

// Owner returns the master that owns a slot, by the count of the start.
func (c *Cluster) Owner(slot int) *Server {
	for i, s := range c.Masters {
		if slot < (i+1)*slotCount/len(c.Masters) {
			return s
		}
	}
	c.tb.Fatalf("no slot %d", slot)
	return nil
}

// NodeID returns the server's id in its Cluster.
func (s *Server) NodeID() string { return s.must("CLUSTER MYID") }

// MoveSlot gives a slot, with the keys in it, to another server, as a reshard
// does. With half set it stops before the last step: the slot is still owned by
// from, which answers ASK for keys that are not there.
func MoveSlot(slot int, from, to *Server, half bool) {
	from.tb.Helper()
	to.must("CLUSTER SETSLOT %d IMPORTING %s", slot, from.NodeID())
	from.must("CLUSTER SETSLOT %d MIGRATING %s", slot, to.NodeID())
	host, port, err := net.SplitHostPort(to.Addr)
	if err != nil {
		from.tb.Fatal(err)
	}
	for from.must("CLUSTER COUNTKEYSINSLOT %d", slot) != ":0" {
		key := from.must("CLUSTER GETKEYSINSLOT %d 1", slot)
		from.must("MIGRATE %s %s %q 0 5000", host, port, key)
	}
	if half {
		return
	}
	for _, s := range []*Server{to, from} {
		s.must("CLUSTER SETSLOT %d NODE %s", slot, to.NodeID())
	}
}

// must sends a command and returns the answer, which is no error.
func (s *Server) must(format string, args ...any) string {
	s.tb.Helper()
	command := fmt.Sprintf(format, args...)
	answer, err := s.call(command)
	if err != nil || strings.HasPrefix(answer, "-") {
		s.tb.Fatalf("%s: %s: %q, %v", s.Addr, command, answer, err)
	}
	return answer
}

// Eventually waits for a condition, and fails the test when it does not come.
func Eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(eventuallyTimeout); !holds(); {
		if time.Now().After(deadline) {
			tb.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
