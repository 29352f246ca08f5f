package faultkit

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// startTimeout is how long a server may take to answer, on a busy machine.
	startTimeout = 60 * time.Second
	// answerTimeout is how long the suites' own clients wait for an answer. A server that
	// runs gives it, however long the machine stands still.
	answerTimeout = 20 * time.Second
	// portAttempts is how often another port is tried: somebody else may take a
	// free one first.
	portAttempts = 5
)

// Node is one server process.
type Node struct {
	// Addr is where it listens.
	Addr string
	// Client talks to it alone, and repeats nothing by itself.
	Client *redis.Client

	tb      testing.TB
	program string
	// args are those that do not change with a port.
	args []string
	// busPort is the port of the cluster's own traffic, 0 outside a cluster.
	busPort int
	// announced is the address that a cluster knows the node by, where that is not its
	// own.
	announced string
	proc      *Process
	paused    bool
}

// startNode starts a node on a free port; clustered ones get a second one.
func startNode(tb testing.TB, program string, clustered bool, args ...string) *Node {
	tb.Helper()
	n := &Node{tb: tb, program: program, args: append([]string{
		"--bind", "127.0.0.1", "--dir", tb.TempDir(), "--daemonize", "no", "--logfile", "", "--loglevel", "warning",
		"--save", "", "--enable-debug-command", "local",
	}, args...)}
	for attempt := 1; ; attempt++ {
		n.Addr = FreeAddr(tb)
		if clustered {
			n.busPort = port(tb, FreeAddr(tb))
		}
		n.connect()
		err := n.launch()
		if err == nil {
			break
		}
		_ = n.Client.Close()
		if attempt == portAttempts {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(func() { _ = n.Client.Close() })
	return n
}

func (n *Node) connect() {
	n.Client = redis.NewClient(&redis.Options{
		Addr: n.Addr, MaxRetries: -1, DialerRetries: 1, ClientName: "faultkit",
		DialTimeout: answerTimeout, ReadTimeout: answerTimeout, WriteTimeout: answerTimeout,
	})
}

// launch starts the process and waits until it answers, and nobody else in its
// place.
func (n *Node) launch() error {
	args := append([]string{"--port", strconv.Itoa(port(n.tb, n.Addr))}, n.args...)
	if n.busPort != 0 {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-port", strconv.Itoa(n.busPort))
	}
	proc, err := Command{Path: n.program, Args: args}.start(n.tb, "server "+n.Addr)
	if err != nil {
		return err
	}
	proc.quiet = true
	n.proc, n.paused = proc, false
	ctx, done := context.WithTimeout(context.Background(), startTimeout)
	defer done()
	for ctx.Err() == nil {
		if pid, err := n.answeredBy(ctx); err == nil {
			if pid == proc.PID() {
				return nil
			}
			break // the port is another server's
		}
		if !proc.Runs() {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	proc.Kill()
	return fmt.Errorf("server on %s did not come up:\n%s", n.Addr, proc.tail())
}

// answeredBy asks for the process id behind the address. A server that still
// loads its data answers with an error.
func (n *Node) answeredBy(ctx context.Context) (int, error) {
	info, err := n.Client.Info(ctx, "server", "persistence").Result()
	if err != nil {
		return 0, err
	}
	if strings.Contains(info, "loading:1") || strings.Contains(info, "async_loading:1") {
		return 0, fmt.Errorf("%s is loading", n.Addr)
	}
	_, rest, _ := strings.Cut(info, "process_id:")
	pid, _, _ := strings.Cut(rest, "\r\n")
	return strconv.Atoi(pid)
}

// Kill ends the node as kill -9 does.
func (n *Node) Kill() { n.proc.Kill() }

// Pause freezes the node: it takes connections and requests, and answers nothing.
func (n *Node) Pause() { n.tb.Helper(); n.proc.Pause(); n.paused = true }

// Resume lets a paused node go on, with all that lies in its sockets.
func (n *Node) Resume() { n.tb.Helper(); n.proc.Resume(); n.paused = false }

// Runs reports whether the node's process runs and is not paused.
func (n *Node) Runs() bool { return n.proc.Runs() && !n.paused }

// Start starts the node again at its address after a Kill, with what it had
// stored: nothing, unless it was started Durable.
func (n *Node) Start() {
	n.tb.Helper()
	if err := n.launch(); err != nil {
		n.tb.Fatal(err)
	}
}

// Calls returns how often each command was called since the node started.
func (n *Node) Calls() map[string]int {
	n.tb.Helper()
	info, err := n.Client.Info(n.tb.Context(), "commandstats").Result()
	if err != nil {
		n.tb.Fatal(err)
	}
	calls := map[string]int{}
	for line := range strings.SplitSeq(info, "\r\n") {
		name, rest, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !found {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		if calls[name], err = strconv.Atoi(count); err != nil {
			n.tb.Fatalf("command statistics: %q", line)
		}
	}
	return calls
}

// clientPort is the port that a cluster knows the node by.
func (n *Node) clientPort() string {
	addr := n.announced
	if addr == "" {
		addr = n.Addr
	}
	return strconv.Itoa(port(n.tb, addr))
}
