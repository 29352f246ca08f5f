package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	serverTimeout  = 10 * time.Second
	serverAttempts = 5
)

// errNoServer says that nothing can be measured on this machine.
var errNoServer = errors.New("redis-server is not on the PATH: install Redis 7.0.5 or later")

// server is a redis-server process of this command.
type server struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

// startServer starts a redis-server on a free port of 127.0.0.1 that saves
// nothing, or, with aof, writes an append-only file in a temporary folder.
func startServer(ctx context.Context, aof bool) (*server, error) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return nil, errNoServer
	}
	dir, err := os.MkdirTemp("", "streambench-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir}
	// Somebody else may take the free port first: try another then.
	for attempt := 1; ; attempt++ {
		if err = s.launch(ctx, aof); err == nil {
			return s, nil
		}
		if attempt == serverAttempts || ctx.Err() != nil {
			return nil, errors.Join(err, s.close())
		}
	}
}

func (s *server) launch(ctx context.Context, aof bool) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.addr = l.Addr().String()
	_, port, err := net.SplitHostPort(s.addr)
	if err := errors.Join(err, l.Close()); err != nil {
		return err
	}
	log := filepath.Join(s.dir, "log")
	args := []string{"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--logfile", log, "--appendonly", "no"}
	if aof {
		args = append(args, "--appendonly", "yes", "--appendfsync", "everysec")
	}
	// It outlives an interrupted context, so that candidates can be closed in order.
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), "redis-server", args...)
	if err := s.cmd.Start(); err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(serverTimeout); time.Now().Before(deadline) && ctx.Err() == nil; <-tick.C {
		if s.answers(ctx) {
			return nil
		}
	}
	s.kill()
	said, _ := os.ReadFile(log)
	return fmt.Errorf("redis-server on %s did not come up:\n%s", s.addr, said)
}

// answers reports whether it is our server that listens: somebody else's may have
// taken the port.
func (s *server) answers(ctx context.Context) bool {
	// The client would write a line about each attempt to connect that fails.
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return false
	}
	_ = c.Close()
	client := newClient(s.addr, 1)
	defer func() { _ = client.Close() }()
	return client.InfoMap(ctx, "server").Item("Server", "process_id") == strconv.Itoa(s.cmd.Process.Pid)
}

func (s *server) kill() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Kill()
		// It was killed, and says so.
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) close() error {
	s.kill()
	return os.RemoveAll(s.dir)
}

// newClient returns a client that never sends a command twice by itself.
func newClient(addr string, pool int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: pool, MaxRetries: -1, DialerRetries: 1})
}
