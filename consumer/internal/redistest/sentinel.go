package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the sentinel of StartSentinel calls the master.
const MasterName = "main"

// Sentinel is a server that watches over a master and its replica, and that ends with
// its test.
type Sentinel struct {
	Addr            string
	Master, Replica *Server

	tb testing.TB
}

// StartSentinel starts a master with a replica and a sentinel that watches over them.
// A master that is silent is missed after Patience only, see Alert.
func StartSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	master := Start(tb, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := Start(tb, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	waitFor(tb, "the replica follows", func() bool { return strings.Contains(replica.Info("INFO", "replication"), "master_link_status:up") })
	w := &Sentinel{Master: master, Replica: replica, tb: tb}
	// Somebody else may take the free port first: try another then.
	for attempt := 1; !w.launch(host, port); attempt++ {
		if attempt == 5 {
			tb.Fatal("the sentinel ends as soon as it was started")
		}
	}
	return w
}

// launch reports false if the sentinel ends again.
func (w *Sentinel) launch(host, port string) bool {
	w.tb.Helper()
	w.Addr = freeAddr(w.tb)
	_, own, _ := net.SplitHostPort(w.Addr)
	config := filepath.Join(w.tb.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s %d\nsentinel failover-timeout %s 3000\n",
		own, MasterName, host, port, MasterName, Patience.Milliseconds(), MasterName)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		w.tb.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "redis-server", config, "--sentinel")
	if err := cmd.Start(); err != nil {
		w.tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	w.tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	client := w.Client()
	defer func() { _ = client.Close() }()
	up := false
	waitFor(w.tb, "the sentinel knows the replica", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		known, err := client.Replicas(context.Background(), MasterName).Result()
		up = err == nil && len(known) == 1
		return up
	})
	return up
}

// Client returns a client of the sentinel that does not repeat commands by itself.
func (w *Sentinel) Client() *redis.SentinelClient {
	return redis.NewSentinelClient(&redis.Options{Addr: w.Addr, MaxRetries: -1, DialerRetries: 1})
}

// Alert has the sentinel call a master dead that is silent for a second, so that the
// replica takes over.
func (w *Sentinel) Alert() {
	w.tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: w.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: Patience})
	defer func() { _ = client.Close() }()
	if err := client.Do(context.Background(), "SENTINEL", "SET", MasterName, "down-after-milliseconds", 1000).Err(); err != nil {
		w.tb.Fatal(err)
	}
}
