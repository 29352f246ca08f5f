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
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the sentinel of StartSentinel calls the master.
const MasterName = "main"

// StartSentinel starts a master with a replica and a sentinel that watches over
// them, and calls a master dead that is silent for a second.
func StartSentinel(tb testing.TB) (master, replica *Server, sentinel string) {
	tb.Helper()
	master = Start(tb, "--repl-diskless-sync-delay", "0")
	host, port, _ := net.SplitHostPort(master.Addr)
	replica = Start(tb, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	waitFor(tb, "the replica follows", func() bool { return strings.Contains(replica.Info("INFO", "replication"), "master_link_status:up") })
	sentinel = freeAddr(tb)
	_, own, _ := net.SplitHostPort(sentinel)
	config := filepath.Join(tb.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 3000\n",
		own, MasterName, host, port, MasterName, MasterName)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), "redis-server", config, "--sentinel")
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	client := redis.NewSentinelClient(&redis.Options{Addr: sentinel, MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = client.Close() }()
	waitFor(tb, "the sentinel knows the replica", func() bool {
		known, err := client.Replicas(context.Background(), MasterName).Result()
		return err == nil && len(known) == 1
	})
	return master, replica, sentinel
}

// waitFor waits until holds.
func waitFor(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("in vain: %s", what)
		}
	}
}
