// Package redistest runs a real redis-server for a test: on a free port of
// 127.0.0.1, without a file, stopped when the test ends.
package redistest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// readyTimeout bounds how long a server takes to start, replyTimeout how long it may take
// for a command of a test; both only end what does not work at all.
const (
	readyTimeout = time.Minute
	replyTimeout = time.Minute
)

// Server is a redis-server of a test.
type Server struct {
	// Addr is host and port; they stay the same over Stop and Start.
	Addr string
	// URL reaches the server, with its password.
	URL string

	t    testing.TB
	args []string
	cmd  *exec.Cmd
}

// New prepares a server without starting it; args are further arguments of
// redis-server. Without redis-server, or in the quick run of the tests, the test
// is skipped; in CI a missing redis-server is a failure.
func New(t testing.TB, args ...string) *Server {
	t.Helper()
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		t.Skip("needs a redis-server: skipped in the quick run")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("redis-server is not in PATH, and in CI these tests must run")
		}
		t.Skip("SKIPPED: redis-server is not in PATH, so NOTHING HERE WAS TESTED on a real Redis")
	}
	port := reservePort(t)
	s := &Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), t: t}
	s.URL = "redis://" + s.Addr
	s.args = append([]string{
		"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", t.TempDir(),
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}, args...)
	t.Cleanup(s.Stop)
	return s
}

// Start runs a server and waits until it answers.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := New(t, args...)
	s.Start()
	return s
}

// Start runs the server and waits until it answers. It may be called again after
// Stop.
func (s *Server) Start() {
	s.t.Helper()
	// Not the test's context: it ends before the cleanup that stops the server.
	s.cmd = exec.CommandContext(context.Background(), "redis-server", s.args...)
	var output strings.Builder
	s.cmd.Stdout, s.cmd.Stderr = &output, &output
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("start redis-server: %v", err)
	}
	for deadline := time.Now().Add(readyTimeout); !s.answers(); {
		if time.Now().After(deadline) {
			s.Stop()
			s.t.Fatalf("redis-server does not answer:\n%s", output.String())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// answers reports whether the server takes commands; a server that wants a
// password does.
func (s *Server) answers() bool {
	dialer := net.Dialer{Timeout: replyTimeout}
	conn, err := dialer.DialContext(context.Background(), "tcp", s.Addr)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && (strings.HasPrefix(line, "+PONG") || strings.HasPrefix(line, "-NOAUTH"))
}

// Stop kills the server, as a crash would, and waits for its end. It does
// nothing when the server does not run.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it says that it was killed
	s.cmd = nil
}

// Client returns a client that looks into the server, until the test ends.
func (s *Server) Client() *redis.Client {
	s.t.Helper()
	opts, err := redis.ParseURL(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	// A server that stands still for a while is waited for: a command that is sent again
	// is carried out twice.
	opts.ReadTimeout, opts.WriteTimeout, opts.MaxRetries = replyTimeout, replyTimeout, -1
	c := redis.NewClient(opts)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ClusterClient is Client for a Cluster.
func ClusterClient(t testing.TB, addrs []string) *redis.ClusterClient {
	t.Helper()
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ReadTimeout: replyTimeout, WriteTimeout: replyTimeout, MaxRetries: -1})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
