// Package redistest gives tests a Redis server of their own, a proxy that does to its
// connections what networks do, and a watch that minds how slow the machine is.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server process that ends with its test.
type Server struct {
	Addr string

	tb   testing.TB
	dir  string
	args []string
	cmd  *exec.Cmd
	// ended is closed when the process has.
	ended chan struct{}
}

// Start starts a redis-server on a free port of 127.0.0.1. Without one on the
// PATH the test is skipped, and says so; in CI it fails.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	needServer(tb)
	return startAnywhere(tb, func(string) []string { return args })
}

// needServer skips the test, and says so, where there is no redis-server, or it is not
// to be used; in CI a missing one is a failure.
func needServer(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatal("redis-server is not on the PATH, and CI must not go without these tests")
		}
		tb.Skip("SKIPPED, and much is untested without it: redis-server is not on the PATH")
	}
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		tb.Skip("needs a redis-server: left out of the fast tests")
	}
}

// startAnywhere starts a server on a free port, with the settings that go with it.
func startAnywhere(tb testing.TB, args func(addr string) []string) *Server {
	tb.Helper()
	s := &Server{tb: tb, dir: tb.TempDir()}
	// Somebody else may take the free port first: try another then.
	for attempt := 1; ; attempt++ {
		s.Addr = freeAddr(tb)
		s.args = args(s.Addr)
		err := s.launch()
		if err == nil {
			break
		}
		if attempt == 5 {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(s.Kill)
	return s
}

// freeAddr returns an address that nobody listens at. It is below the ports that
// systems give to connections that go out, so that none of those takes it before the
// server does, or while the server is down.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	const first, last = 15_000, 30_000
	for {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", first+rand.IntN(last-first)))
		switch {
		case err == nil:
			_ = l.Close()
			return l.Addr().String()
		case !errors.Is(err, syscall.EADDRINUSE):
			tb.Fatal(err)
		}
	}
}

func (s *Server) launch() error {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	args := append([]string{
		"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", s.dir,
		"--logfile", filepath.Join(s.dir, "log"),
	}, s.args...)
	s.cmd = exec.CommandContext(context.Background(), "redis-server", args...)
	if err := s.cmd.Start(); err != nil {
		s.cmd = nil
		return err
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	// What answers may be something else that swallows questions.
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1, ClientName: ClientName, ReadTimeout: time.Second})
	defer func() { _ = client.Close() }()
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); {
		// One that still loads its data answers no PING.
		if pid, err := serverPid(client); err == nil && pid == s.cmd.Process.Pid && client.Ping(context.Background()).Err() == nil {
			return nil
		}
		select {
		case <-ended: // the port was taken, most of all
			deadline = time.Time{}
		case <-time.After(5 * time.Millisecond):
		}
	}
	s.Kill()
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return fmt.Errorf("redis-server on %s did not come up:\n%s", s.Addr, log)
}

// serverPid asks who answers, since the port may belong to another server.
func serverPid(client *redis.Client) (int, error) {
	pid, found := client.InfoMap(context.Background(), "server").Item("Server", "process_id"), true
	if pid == "" {
		found = false
	}
	if !found {
		return 0, errors.New("no process id")
	}
	return strconv.Atoi(pid)
}

// ClientName is the name of the connections of Client, for CLIENT LIST.
const ClientName = "the-test-itself"

// Client returns a client that does not repeat commands by itself, and waits for their
// answers for as long as a slow machine may take.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: s.Addr, MaxRetries: -1, DialerRetries: 1, ClientName: ClientName,
		DialTimeout: Patience, ReadTimeout: Patience, WriteTimeout: Patience,
	})
}

// Kill ends the server without warning, by its own process.
func (s *Server) Kill() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	_ = s.cmd.Process.Kill() // ends a frozen process too
	<-s.ended
	s.cmd = nil
}

// Restart starts the server again on the same port and data, with other settings.
func (s *Server) Restart(args ...string) {
	s.tb.Helper()
	s.args = args
	if err := s.launch(); err != nil {
		s.tb.Fatal(err)
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.tb.Fatal(err)
	}
}

// Freeze stops the process of the server, which breaks no connection; Thaw lets
// it go on.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }
