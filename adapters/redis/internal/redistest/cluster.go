package redistest

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const slotCount = 16384

// eventuallyTimeout bounds how long anything is waited for; a Sentinel alone does nothing
// for half a minute each time it was kept from running for two seconds.
const eventuallyTimeout = 4 * time.Minute

const (
	// hasty is how many milliseconds a node of a Cluster may be silent before the others
	// take it for dead, while they get to know each other or one of them is dead.
	hasty = 1000
	// calm is that otherwise: a node that gets nothing of its processor for a few
	// seconds is not taken for dead.
	calm = 600_000
	// meetAgain is how long nodes may take to know each other before they are introduced
	// once more: a handshake that takes longer than a node may be silent is given up.
	meetAgain = 3 * time.Second
)

// Cluster is a Redis Cluster of one test. No replica takes over, and no node is taken for
// dead, before Kill and TakeOver.
type Cluster struct {
	// Masters share the slots evenly, in order. Replicas has one of each master,
	// or none.
	Masters, Replicas []*Server

	tb     testing.TB
	joined []*Server
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
	c.agree()
	for i, s := range c.Replicas {
		s.must("CLUSTER REPLICATE %s", c.Masters[i].NodeID())
	}
	c.InStep()
	for i, s := range c.Replicas {
		Eventually(tb, "all nodes to know a replica", func() bool { return c.everyNode("CLUSTER NODES", s.NodeID(), " "+c.Masters[i].NodeID()+" ") })
	}
	c.CalmDown()
	return c
}

// everyNode reports whether each living node answers command with a line that has both
// words in it.
func (c *Cluster) everyNode(command, word, another string) bool {
	c.tb.Helper()
	for _, s := range c.living() {
		known := false
		for line := range strings.Lines(s.must("%s", command)) {
			known = known || strings.Contains(line, word) && strings.Contains(line, another)
		}
		if !known {
			return false
		}
	}
	return true
}

// CalmDown waits until each living node finds the Cluster in order, and keeps it so.
func (c *Cluster) CalmDown() {
	c.tb.Helper()
	Eventually(c.tb, "a Cluster in order", func() bool {
		inOrder := func() bool { return c.everyNode("CLUSTER INFO", "cluster_state:ok", "") }
		if !inOrder() {
			return false
		}
		c.bear(calm)
		// A node may have been taken for dead just before.
		if inOrder() {
			return true
		}
		c.bear(hasty)
		return false
	})
}

// bear sets how many milliseconds a node may be silent.
func (c *Cluster) bear(milliseconds int) {
	c.tb.Helper()
	for _, s := range c.living() {
		s.must("CONFIG SET cluster-node-timeout %d", milliseconds)
	}
}

// Kill ends a master at once, and has the others notice it soon. Its replica does not
// take over before TakeOver.
func (c *Cluster) Kill(master *Server) {
	c.tb.Helper()
	master.Kill()
	c.bear(hasty)
}

// TakeOver lets the replica of a master that was killed take over from it.
func (c *Cluster) TakeOver(master *Server) {
	c.tb.Helper()
	c.Replicas[slices.Index(c.Masters, master)].must("CONFIG SET cluster-replica-no-failover no")
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
	var bus string
	s := start(tb, program(tb), func() (_ []string, err error) {
		bus, err = freePort()
		return []string{
			"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", bus,
			"--cluster-node-timeout", strconv.Itoa(hasty), "--cluster-replica-no-failover", "yes",
			"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0",
		}, err
	})
	s.busPort = bus
	return s
}

// all are the nodes, those that have joined last.
func (c *Cluster) all() []*Server { return slices.Concat(c.Masters, c.Replicas, c.joined) }

// living are the nodes whose process runs.
func (c *Cluster) living() []*Server {
	return slices.DeleteFunc(c.all(), func(s *Server) bool {
		select {
		case <-s.ended:
			return true
		default:
			return false
		}
	})
}

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
	c.joined = append(c.joined, s)
	c.bear(hasty)
	c.agree()
	c.CalmDown()
}

func (c *Cluster) meet(s *Server) {
	c.tb.Helper()
	host, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		c.tb.Fatal(err)
	}
	c.Masters[0].must("CLUSTER MEET %s %s %s", host, port, s.busPort)
}

// agree makes all nodes know each other and the slots.
func (c *Cluster) agree() {
	c.tb.Helper()
	var met time.Time
	known := fmt.Sprintf("cluster_known_nodes:%d\r", len(c.all()))
	Eventually(c.tb, "the Cluster to agree", func() bool {
		if c.everyNode("CLUSTER INFO", known, "") && c.everyNode("CLUSTER INFO", "cluster_state:ok", "") {
			return true
		}
		if time.Since(met) > meetAgain {
			met = time.Now()
			for _, s := range c.all()[1:] {
				c.meet(s)
			}
		}
		return false
	})
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
		from.must("MIGRATE %s %s %q 0 %d", host, port, key, startTimeout.Milliseconds())
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
