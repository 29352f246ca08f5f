package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	serverTimeout  = 60 * time.Second
	serverAttempts = 5
)

// errNoServer says that nothing can be measured on this machine.
var errNoServer = errors.New("redis-server is not on the PATH: install Redis 7.0.5 or later")

// redisServer is a redis-server of our own, without a file.
type redisServer struct {
	addr, version string
	// client asks it for its counters.
	client *redis.Client
	cmd    *exec.Cmd
	dir    string
}

// startRedis starts one on a free port. Another process may take the port in
// between, so that is tried a few times.
func startRedis(ctx context.Context) (*redisServer, error) {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errNoServer
	}
	var failed error
	for range serverAttempts {
		s, err := tryRedis(ctx, path)
		if err == nil {
			return s, nil
		}
		failed = err
	}
	return nil, failed
}

func tryRedis(ctx context.Context, path string) (_ *redisServer, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &redisServer{addr: listener.Addr().String()}
	_, port, err := net.SplitHostPort(s.addr)
	if err := errors.Join(err, listener.Close()); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "controlbench"); err != nil {
		return nil, err
	}
	// Not bound to ctx: it is stopped by close, after what uses it.
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), path,
		"--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no")
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start redis-server: %w", err), os.RemoveAll(s.dir))
	}
	s.client = redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	for deadline := time.Now().Add(serverTimeout); ; time.Sleep(10 * time.Millisecond) {
		if s.client.Ping(ctx).Err() == nil {
			s.version = s.client.InfoMap(ctx, "server").Item("Server", "redis_version")
			return s, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, errors.Join(errors.New("redis-server does not answer"), context.Cause(ctx), s.close())
		}
	}
}

// close ends the server, by its process, and removes its folder.
func (s *redisServer) close() error {
	err := errors.Join(s.client.Close(), s.cmd.Process.Kill())
	_ = s.cmd.Wait() // it says that it was killed
	return errors.Join(err, os.RemoveAll(s.dir))
}

// counters are what the server has counted since it was started.
type counters struct {
	// scripts are calls of scripts, reads and writes alike.
	scripts int64
	// saves and loads are HSET and HGET of aggregates' keys: see bytes.
	in, out int64
}

// counters asks for them.
func (s *redisServer) counters(ctx context.Context) (counters, error) {
	info := s.client.InfoMap(ctx, "commandstats", "stats")
	if err := info.Err(); err != nil {
		return counters{}, err
	}
	var c counters
	for name, value := range info.Val()["Commandstats"] {
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "evalsha", "eval", "fcall":
			c.scripts += calls(value)
		}
	}
	c.in, _ = strconv.ParseInt(info.Item("Stats", "total_net_input_bytes"), 10, 64)
	c.out, _ = strconv.ParseInt(info.Item("Stats", "total_net_output_bytes"), 10, 64)
	return c, nil
}

// calls reads "calls=12,usec=…".
func calls(stat string) int64 {
	first, _, _ := strings.Cut(stat, ",")
	n, _ := strconv.ParseInt(strings.TrimPrefix(first, "calls="), 10, 64)
	return n
}
