// Package redistest gives the tests of this module real Redis servers, a proxy
// that loses replies, and a stub that answers what a test tells it to.
package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Patience is how long a test waits for what has to come. It is no measure of anything: a
// machine at load lets processes stand still for seconds.
const Patience = time.Minute

const startAttempts = 5

// Server is a redis-server of the test's own.
type Server struct {
	// Addr is host:port on the loopback interface.
	Addr string
	// Client is for looking inside; it is not what is under test.
	Client *redis.Client

	tb   testing.TB
	args []string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// Start starts a redis-server without persistence on a free port and stops it
// when the test ends. extra are further arguments of redis-server. Without
// redis-server, and in quick runs, the test is skipped; when CI=true a missing
// server fails it.
func Start(tb testing.TB, extra ...string) *Server {
	tb.Helper()
	return start(tb, func() []string { return extra })
}

// start is Start with arguments that are made anew for each attempt.
func start(tb testing.TB, extra func() []string) *Server {
	tb.Helper()
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		tb.Skip("needs a redis-server: skipped in a quick run")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") == "true" {
			tb.Fatal("redis-server is not in PATH, and in CI these tests must run")
		}
		tb.Skip("SKIPPED: redis-server is not in PATH, so NOTHING that touches Redis is tested here")
	}
	var failures []string
	for range startAttempts {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(tb)))
		s := &Server{tb: tb, Addr: addr, args: extra(), Client: redis.NewClient(&redis.Options{
			Addr: addr, DialTimeout: Patience, ReadTimeout: Patience, WriteTimeout: Patience,
		})}
		if err := s.launch(); err != nil {
			// Somebody else may have taken the port meanwhile.
			failures = append(failures, err.Error())
			_ = s.Client.Close()
			continue
		}
		tb.Cleanup(func() {
			s.Kill()
			_ = s.Client.Close()
		})
		return s
	}
	tb.Fatalf("redis-server does not start:\n%s", strings.Join(failures, "\n"))
	return nil
}

// freePort returns a port of the loopback interface that was free a moment ago. It is
// below those that systems give to connections that go out, so that none of these takes
// it before the server does, or while the server is down.
func freePort(tb testing.TB) int {
	tb.Helper()
	const first, last = 15_000, 30_000
	for {
		port := first + rand.IntN(last-first)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // returns at once
		switch {
		case err == nil:
			_ = l.Close()
			return port
		case !errors.Is(err, syscall.EADDRINUSE):
			tb.Fatal(err)
		}
	}
}

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	_, port, _ := net.SplitHostPort(s.Addr)
	args := append([]string{
		"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no",
		"--dir", s.tb.TempDir(), "--loglevel", "warning",
	}, s.args...)
	var log bytes.Buffer
	cmd := exec.Command("redis-server", args...) //nolint:noctx // ended by its pid when the test ends
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	s.cmd, s.done = cmd, done
	// Not with Client: whoever has taken the port may swallow what is asked.
	asks := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1, ReadTimeout: time.Second})
	defer func() { _ = asks.Close() }()
	deadline := time.After(Patience)
	for !s.answers(asks) {
		select {
		case <-done:
			return fmt.Errorf("redis-server ended: %s", &log)
		case <-deadline:
			s.Kill()
			return fmt.Errorf("redis-server does not answer: %s", &log)
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// answers reports whether it is this process that answers, and not one of somebody else
// who was faster to take the port.
func (s *Server) answers(client *redis.Client) bool {
	info, err := client.Info(s.tb.Context(), "server").Result()
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.cmd.Process.Pid))
}

// Kill ends the process at once and waits for it. It may be called twice.
func (s *Server) Kill() {
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
	_ = s.cmd.Process.Kill()
	<-s.done
}

// Restart starts the server again, empty, at the same address.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	// For a moment the port may be somebody else's.
	Eventually(s.tb, "the server to be back", func() bool { return s.launch() == nil })
}

// Freeze stops the process in its tracks: connections stay open and take bytes,
// and nothing is answered until Thaw.
func (s *Server) Freeze() {
	s.tb.Helper()
	s.signal(syscall.SIGSTOP)
}

// Thaw lets a frozen server go on.
func (s *Server) Thaw() {
	s.tb.Helper()
	s.signal(syscall.SIGCONT)
}

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Fatalf("signal redis-server: %v", err)
	}
}
