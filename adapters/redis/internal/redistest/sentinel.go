package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Watched is a server with a replica, and a Sentinel that lets the replica take
// over.
type Watched struct {
	// Name is what the Sentinel calls the server.
	Name                      string
	Master, Replica, Sentinel *Server
}

// StartWatched starts the three and waits until they know each other.
func StartWatched(tb testing.TB) *Watched {
	tb.Helper()
	w := &Watched{Name: "main", Master: Start(tb)}
	host, port, err := net.SplitHostPort(w.Master.Addr)
	if err != nil {
		tb.Fatal(err)
	}
	w.Replica = Start(tb, "--replicaof", host, port, "--repl-diskless-sync-delay", "0")
	w.Replica.InStep(w.Master)
	w.Sentinel = startSentinel(tb, w.Master.program, w.Name, host, port)
	Eventually(tb, "the Sentinel to know the replica", func() bool {
		return strings.Contains(w.Sentinel.must("INFO sentinel"), "slaves=1")
	})
	return w
}

func startSentinel(tb testing.TB, program, name, host, port string) *Server {
	tb.Helper()
	own, err := freePort()
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	file := filepath.Join(dir, "sentinel.conf")
	text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 500\nsentinel failover-timeout %s 3000\n",
		own, dir, name, host, port, name, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", own), tb: tb, program: program, args: []string{file, "--sentinel"}}
	if err := s.launch(); err != nil {
		tb.Fatalf("the Sentinel does not start: %v", err)
	}
	tb.Cleanup(s.Kill)
	return s
}
