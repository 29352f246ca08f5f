package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A redis-server does not notice that the demo is gone, so it gets a keeper: a
// process of ours that starts it, ends with its own input, and takes the server
// and its folder along.

// serverOrders are what the keeper is told.
type serverOrders struct {
	// Path is the executable.
	Path string
}

// startServer starts a redis-server for the demo alone.
func startServer(ctx context.Context, o *Options, path string, trouble func(string), failed func(error)) (*backend, error) {
	ready := make(chan string, 1)
	ended := make(chan error, 1)
	keeper, err := spawn(childSpec{
		name: "redis-server", argv: append(o.Self[:len(o.Self):len(o.Self)], RedisCommand), orders: serverOrders{Path: path},
		line: func(line string) {
			select {
			case ready <- line:
			default:
			}
		},
		trouble: trouble,
		ended: func(err error) {
			ended <- err
			failed(fmt.Errorf("redis-server ended by itself: %w", orUnknown(err)))
		},
	})
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*backend, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		return nil, errors.Join(err, keeper.release(ctx))
	}
	select {
	case line := <-ready:
		addr, version, _ := strings.Cut(line, " ")
		return &backend{
			about: fmt.Sprintf("redis-server %s from PATH, started for this demo on %s; %s", version, addr, o.metadata("the coordinators keep their metadata there")),
			url:   "redis://" + addr,
			stop:  keeper.release,
		}, nil
	case err := <-ended:
		return fail(fmt.Errorf("%s does not start, give another Redis with --redis: %w", path, orUnknown(err)))
	case <-time.After(serverTimeout):
		return fail(fmt.Errorf("%s does not answer, give another Redis with --redis", path))
	case <-ctx.Done():
		return fail(context.Cause(ctx))
	}
}

// errNoReason stands for the error of a process that ended without one.
var errNoReason = errors.New("without an error")

func orUnknown(err error) error {
	if err == nil {
		return errNoReason
	}
	return err
}

const (
	serverTimeout  = 15 * time.Second
	serverAttempts = 5
	// answerTimeout bounds one attempt.
	answerTimeout = serverTimeout/serverAttempts - 500*time.Millisecond
	// serverGrace is how long redis-server may take to end.
	serverGrace = 2 * time.Second
)

// RunRedis is the keeper of a redis-server: it takes its orders from in, starts
// the server on a free port of the loopback interface with a folder of its own,
// and says "address version" to out when it answers. It ends the server, removes
// the folder and returns when in ends, ctx ends or a SIGTERM comes.
func RunRedis(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var o serverOrders
	if err := readOrders(in, &o, stop, stop); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rsc-demo-redis-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what stays is in the folder for such things
	var failures []error
	for range serverAttempts {
		s, err := launch(ctx, o.Path, dir)
		if err != nil {
			// Somebody else may have taken the port meanwhile.
			failures = append(failures, err)
			if ctx.Err() != nil {
				break
			}
			continue
		}
		return s.keep(ctx, out)
	}
	return errors.Join(failures...)
}

// keep says where the server is, and ends it when ctx ends.
func (s *redisServer) keep(ctx context.Context, out io.Writer) error {
	defer s.end()
	if _, err := fmt.Fprintln(out, s.addr, s.version); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-s.exited:
		return fmt.Errorf("redis-server ended by itself: %s", strings.TrimSpace(s.log.String()))
	}
}

// redisServer is a running redis-server.
type redisServer struct {
	addr, version string
	cmd           *exec.Cmd
	log           bytes.Buffer
	exited        chan struct{}
}

func launch(ctx context.Context, path, dir string) (*redisServer, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &redisServer{addr: net.JoinHostPort("127.0.0.1", port), exited: make(chan struct{})}
	s.cmd = exec.Command(path, "--bind", "127.0.0.1", "--port", port, "--dir", dir, //nolint:noctx // end ends it
		"--save", "", "--appendonly", "no", "--loglevel", "warning")
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(s.exited)
		_ = s.cmd.Wait() // how it ended is in its log
	}()
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := s.awaitAnswer(ctx); err != nil {
		s.end()
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(s.log.String()))
	}
	return s, nil
}

// awaitAnswer waits until the server answers, and it is this one that does.
func (s *redisServer) awaitAnswer(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: s.addr, MaxRetries: -1})
	defer func() { _ = client.Close() }()
	for {
		info, err := client.InfoMap(ctx, "server").Result()
		if err == nil && info["Server"]["process_id"] == strconv.Itoa(s.cmd.Process.Pid) {
			s.version = info["Server"]["redis_version"]
			return nil
		}
		select {
		case <-s.exited:
			return errors.New("redis-server ended at once")
		case <-ctx.Done():
			return errors.Join(errors.New("redis-server does not answer"), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// end ends the server and waits for it.
func (s *redisServer) end() {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		_ = s.cmd.Process.Kill() // it has ended where this fails
	}
	select {
	case <-s.exited:
	case <-time.After(serverGrace):
		_ = s.cmd.Process.Kill() // it has ended where this fails
		<-s.exited
	}
}

// freePort returns a port of the loopback interface that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // returns at once
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
