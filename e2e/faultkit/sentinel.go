package faultkit

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// sentinelName is what the Sentinel calls the master.
	sentinelName = "main"
	// sentinelDown is after how long a master that does not answer counts as down: longer
	// than a busy test machine stands still.
	sentinelDown = 5 * time.Second
)

// Watched is a master with a replica that a Sentinel watches. It ends with its test.
type Watched struct {
	// Name is what the Sentinel calls the master, Sentinel where it listens.
	Name, Sentinel string
	// Master and Replica are what they were at the start.
	Master, Replica *Node

	tb testing.TB
}

// StartWatched starts them with the installed server, or skips the test where there
// is none.
func StartWatched(tb testing.TB) *Watched {
	tb.Helper()
	Redis7.Need(tb)
	program, err := Redis7.path()
	if err != nil {
		tb.Fatal(err)
	}
	w := &Watched{Name: sentinelName, tb: tb, Master: startNode(tb, program, false, "--appendonly", "no")}
	host, hostPort, err := net.SplitHostPort(w.Master.Addr)
	must(tb, err)
	w.Replica = startNode(tb, program, false, "--appendonly", "no", "--replicaof", host+" "+hostPort, "--repl-diskless-sync-delay", "0")
	w.watch(program, host, hostPort)
	return w
}

// watch starts the Sentinel and waits until it knows the replica.
func (w *Watched) watch(program, host, hostPort string) {
	w.tb.Helper()
	w.Sentinel = FreeAddr(w.tb)
	dir := w.tb.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s %d\nsentinel failover-timeout %s 5000\n",
		port(w.tb, w.Sentinel), dir, w.Name, host, hostPort, w.Name, sentinelDown.Milliseconds(), w.Name)
	must(w.tb, os.WriteFile(file, []byte(text), 0o600))
	proc := Run(w.tb, "sentinel", nil, program, file, "--sentinel")
	proc.quiet = true
	client := redis.NewSentinelClient(&redis.Options{Addr: w.Sentinel, MaxRetries: -1})
	w.tb.Cleanup(func() { _ = client.Close() })
	Eventually(w.tb, startTimeout, "the Sentinel knows the replica", func() bool {
		replicas, err := client.Replicas(context.WithoutCancel(w.tb.Context()), w.Name).Result()
		return err == nil && len(replicas) == 1 && replicas[0]["flags"] == "slave" && replicas[0]["master-link-status"] == "ok"
	})
}

// KillMaster kills the master and waits until the Sentinel has made the replica one.
func (w *Watched) KillMaster() {
	w.tb.Helper()
	w.Master.Kill()
	ctx := context.WithoutCancel(w.tb.Context())
	Eventually(w.tb, wholeTimeout, "the replica has taken over", func() bool { return w.Replica.master(ctx) })
}
