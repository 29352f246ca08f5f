// Package redistest gives this module's tests a redis-server of their own, and
// a proxy in front of it that loses answers.
package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// startTimeout bounds a start and an answer; a busy machine takes long.
	startTimeout  = 2 * time.Minute
	startAttempts = 5
)

// Server is a redis-server of one test.
type Server struct {
	// Addr is host:port on the loopback interface.
	Addr string

	tb      testing.TB
	program string
	args    []string
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	busPort string        // of a server that may join a Cluster
}

// Start starts a redis-server on a free port and stops it when the test ends.
// extra are further arguments of redis-server. Without redis-server, and in
// quick runs, the test is skipped; with CI=true a missing server fails it.
func Start(tb testing.TB, extra ...string) *Server {
	tb.Helper()
	return start(tb, program(tb), func() ([]string, error) { return extra, nil })
}

// program is the path of redis-server.
func program(tb testing.TB) string {
	tb.Helper()
	if quick() {
		tb.Skip("needs a redis-server, which a quick run does not start")
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		missing(tb, "redis-server is not in PATH")
	}
	return path
}

// StartOther starts one of the servers that scripts/fetch-servers.sh fetches, by the
// name of its folder, and is like Start otherwise.
func StartOther(tb testing.TB, name string) *Server {
	tb.Helper()
	if quick() {
		tb.Skip("needs a server, which a quick run does not start")
	}
	folder := os.Getenv("RSC_SERVERS")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			missing(tb, err.Error())
		}
		folder = filepath.Join(cache, "rsc-servers")
	}
	program := filepath.Join(folder, name, "server")
	if _, err := os.Stat(program); err != nil {
		missing(tb, name+" has not been fetched: run scripts/fetch-servers.sh")
	}
	return start(tb, program, func() ([]string, error) { return nil, nil })
}

func quick() bool { return testing.Short() || os.Getenv("RSC_TEST_FAST") != "" }

// missing skips the test; in CI it fails it.
func missing(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("CI") == "true" {
		tb.Fatalf("%s, and in CI the tests of the Redis adapter must run", why)
	}
	tb.Skipf("SKIPPED: %s: THE REDIS ADAPTER IS NOT TESTED", why)
}

// start starts a server with the further arguments that extra returns for this attempt.
func start(tb testing.TB, program string, extra func() ([]string, error)) *Server {
	tb.Helper()
	dir := tb.TempDir()
	return attempt(tb, program, func(port string) ([]string, error) {
		further, err := extra()
		// The dump is written by SAVE alone, which Restart calls.
		return append([]string{"--bind", "127.0.0.1", "--port", port, "--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning"}, further...), err
	})
}

// attempt starts a program on a free port, on another one where somebody else has taken
// it meanwhile, with the arguments that args makes of it.
func attempt(tb testing.TB, program string, args func(port string) ([]string, error)) *Server {
	tb.Helper()
	var failures []error
	for range startAttempts {
		port, err := freePort()
		if err != nil {
			tb.Fatal(err)
		}
		s := &Server{Addr: net.JoinHostPort("127.0.0.1", port), tb: tb, program: program}
		if s.args, err = args(port); err != nil {
			tb.Fatal(err)
		}
		if err := s.launch(); err != nil {
			failures = append(failures, err)
			continue
		}
		tb.Cleanup(s.Kill)
		return s
	}
	tb.Fatalf("redis-server does not start:\n%v", errors.Join(failures...))
	return nil
}

// URL is the server's address as the adapter takes it.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Kill ends the process at once and waits for it. It may be called twice.
func (s *Server) Kill() {
	_ = s.process.Process.Signal(syscall.SIGCONT) // it has ended where this fails
	_ = s.process.Process.Kill()
	<-s.ended
}

// Restart saves the data, ends the process and starts it again with the same
// data at the same address.
func (s *Server) Restart() {
	s.tb.Helper()
	if answer, err := s.call("SAVE"); err != nil || answer != "+OK" {
		s.tb.Fatalf("SAVE: %q, %v", answer, err)
	}
	s.Kill()
	// For a moment the port may be that of somebody else's connection.
	Eventually(s.tb, "the server to be back", func() bool {
		err := s.launch()
		if err != nil {
			s.tb.Logf("restart: %v", err)
		}
		return err == nil
	})
}

// Freeze stops the process where it stands: connections stay open, and nothing
// is answered until Thaw.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen process go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.tb.Helper()
	if err := s.process.Process.Signal(sig); err != nil {
		s.tb.Fatal(err)
	}
}

// launch starts the process and waits until it answers.
func (s *Server) launch() error {
	var log bytes.Buffer
	process := exec.Command(s.program, s.args...) //nolint:noctx // Kill ends it when the test is over
	process.Stdout, process.Stderr = &log, &log
	if err := process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait() // how it ended is in its log
	}()
	s.process, s.ended = process, ended
	deadline := time.After(startTimeout)
	for {
		answer, err := s.call("PING")
		if err == nil && answer == "+PONG" && s.isOurs() {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("it ended: %s", &log)
		case <-deadline:
			s.Kill()
			return errors.Join(fmt.Errorf("it does not answer: %q: %s", answer, &log), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// isOurs reports whether it is the process that answers, and not one of somebody else who
// has taken the port: then the process is about to end.
func (s *Server) isOurs() bool {
	info, err := s.call("INFO server")
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.process.Process.Pid))
}

// call sends one command on a connection of its own and returns the answer.
func (s *Server) call(command string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr, startTimeout) //nolint:noctx // bounded by its timeout
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(startTimeout)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		return "", err
	}
	return readAnswer(bufio.NewReader(conn))
}

// readAnswer returns a line, a text, or the first of several answers.
func readAnswer(in *bufio.Reader) (string, error) {
	line, err := in.ReadString('\n')
	line = strings.TrimSpace(line)
	if err != nil || line == "" {
		return line, err
	}
	switch n, notANumber := strconv.Atoi(line[1:]); {
	case line[0] == '*' && notANumber == nil && n > 0:
		return readAnswer(in)
	case line[0] == '$' && notANumber == nil && n >= 0:
		text := make([]byte, n)
		_, err = io.ReadFull(in, text)
		return string(text), err
	}
	return line, nil
}

// freePort returns a port of the loopback interface that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return "", fmt.Errorf("unexpected address %v", l.Addr())
	}
	return strconv.Itoa(addr.Port), nil
}
