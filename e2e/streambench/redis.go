package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	serverTimeout  = 60 * time.Second
	serverAttempts = 5
	// clusterNodes is how many servers make up a Cluster here.
	clusterNodes = 3
	// clusterSlots is how many slots a Cluster has; clusterBus is what is added to
	// a port for its second one.
	clusterSlots = 16384
	clusterBus   = 10000
)

// clusterIsUp matches what a node says when it knows where every slot is.
var clusterIsUp = regexp.MustCompile(`(?m)^cluster_state:ok\r?$`)

// errNoServer says that nothing can be measured on this machine.
var errNoServer = errors.New("redis-server is not on the PATH: install Redis 7.0.5 or later")

// fleet is the Redis of a run: one server, or the nodes of a Cluster.
type fleet struct {
	nodes   []*server
	cluster bool
}

// startFleet starts what s asks for.
func startFleet(ctx context.Context, s settings) (_ *fleet, err error) {
	f := &fleet{cluster: s.cluster}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	var args []string
	if s.aof {
		args = append(args, "--appendonly", "yes", "--appendfsync", "everysec")
	}
	if !f.cluster {
		node, err := startServer(ctx, args)
		if err != nil {
			return nil, err
		}
		f.nodes = []*server{node}
		return f, nil
	}
	args = append(args, "--cluster-enabled", "yes")
	for range clusterNodes {
		node, err := startServer(ctx, args)
		if err != nil {
			return nil, err
		}
		f.nodes = append(f.nodes, node)
	}
	if err := f.join(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *fleet) close() error {
	var errs []error
	for _, node := range f.nodes {
		errs = append(errs, node.close())
	}
	return errors.Join(errs...)
}

// options say how to reach the fleet.
func (f *fleet) options() redis.UniversalOptions {
	o := redis.UniversalOptions{IsClusterMode: f.cluster}
	for _, node := range f.nodes {
		o.Addrs = append(o.Addrs, node.addr)
	}
	return o
}

// client returns a client with a pool of this size for each node. On one server
// it never sends a command twice by itself.
func (f *fleet) client(pool int) redis.UniversalClient {
	o := f.options()
	o.PoolSize, o.MaxRetries, o.DialerRetries = pool, -1, 1
	return redis.NewUniversalClient(&o)
}

// join makes the nodes a Cluster, each with its part of the slots.
func (f *fleet) join(ctx context.Context) error {
	for i, node := range f.nodes {
		client := newClient(node.addr)
		from, to := i*clusterSlots/clusterNodes, (i+1)*clusterSlots/clusterNodes-1
		err := client.ClusterAddSlotsRange(ctx, from, to).Err()
		if err == nil && i > 0 {
			host, port, _ := net.SplitHostPort(f.nodes[0].addr)
			err = client.ClusterMeet(ctx, host, port).Err()
		}
		if err := errors.Join(err, client.Close()); err != nil {
			return fmt.Errorf("make %s a node of a cluster: %w", node.addr, err)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(serverTimeout); ; <-tick.C {
		if f.joined(ctx) {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return errors.New("the nodes did not become a cluster in time")
		}
	}
}

// joined reports whether every node knows where every slot is.
func (f *fleet) joined(ctx context.Context) bool {
	for _, node := range f.nodes {
		client := newClient(node.addr)
		shards, err := client.ClusterShards(ctx).Result()
		without := slices.ContainsFunc(shards, func(s redis.ClusterShard) bool { return len(s.Slots) == 0 })
		state := client.ClusterInfo(ctx).Val()
		_ = client.Close()
		if err != nil || len(shards) != clusterNodes || without || !clusterIsUp.MatchString(state) {
			return false
		}
	}
	return true
}

// server is a redis-server process of this command.
type server struct {
	addr string
	dir  string
	cmd  *exec.Cmd
}

// startServer starts a redis-server on a free port of 127.0.0.1, with a temporary
// folder of its own. Unless args say otherwise it saves nothing.
func startServer(ctx context.Context, args []string) (*server, error) {
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
		if err = s.launch(ctx, args); err == nil {
			return s, nil
		}
		if attempt == serverAttempts || ctx.Err() != nil {
			return nil, errors.Join(err, s.close())
		}
	}
}

func (s *server) launch(ctx context.Context, args []string) error {
	port, err := freePort(ctx)
	if err != nil {
		return err
	}
	s.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	log := filepath.Join(s.dir, "log")
	args = append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--logfile", log, "--appendonly", "no",
	}, args...)
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

// freePort returns a free port that a node of a Cluster can use too.
func freePort(ctx context.Context) (int, error) {
	for range 100 {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		addr, ok := l.Addr().(*net.TCPAddr)
		if err := l.Close(); err != nil {
			return 0, err
		}
		if ok && addr.Port+clusterBus <= 65535 {
			return addr.Port, nil
		}
	}
	return 0, errors.New("no free port is low enough for a node of a cluster")
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
	client := newClient(s.addr)
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

// newClient returns a client of one server, for its administration.
func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialerRetries: 1})
}
