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

// StartWatched starts the three and waits until they know each other. Nothing takes
// over before KillMaster, however long the server is kept from answering.
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

// KillMaster ends the server once the replica has all that it has.
func (w *Watched) KillMaster() {
	w.Replica.InStep(w.Master)
	w.Master.Kill()
}

// TakeOver lets the replica of a master that was killed take over from it.
func (w *Watched) TakeOver() {
	w.Sentinel.must("SENTINEL SET %s down-after-milliseconds 500", w.Name)
}

// TakenOver reports whether the replica is a master.
func (w *Watched) TakenOver() bool {
	return strings.Contains(w.Replica.must("INFO replication"), "role:master")
}

func startSentinel(tb testing.TB, program, name, host, port string) *Server {
	tb.Helper()
	dir := tb.TempDir()
	return attempt(tb, program, func(own string) ([]string, error) {
		file := filepath.Join(dir, "sentinel.conf")
		text := fmt.Sprintf("port %s\nbind 127.0.0.1\ndir %s\nsentinel monitor %s %s %s 1\nsentinel down-after-milliseconds %s 600000\nsentinel failover-timeout %s 3000\n",
			own, dir, name, host, port, name, name)
		return []string{file, "--sentinel"}, os.WriteFile(file, []byte(text), 0o600)
	})
}
