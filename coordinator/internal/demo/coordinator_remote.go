package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/server"
)

// What the process of a coordinator tells in lines: where it listens, and that it has
// computed who should hold what.
const (
	listensLine    = "listens "
	rebalancedLine = "rebalanced"
)

// remoteCoordinator is a coordinator in a process of its own.
type remoteCoordinator struct {
	argv       []string
	orders     coordinatorOrders
	log        func(string)
	rebalanced func()
	// failed is told when it ends by itself.
	failed func(error)
	child  *child
}

func newRemoteCoordinator(self []string, orders coordinatorOrders, log func(string), rebalanced func(), failed func(error)) *remoteCoordinator {
	return &remoteCoordinator{
		argv: append(self[:len(self):len(self)], CoordinatorCommand), orders: orders, log: log, rebalanced: rebalanced, failed: failed,
	}
}

// start runs it until end.
func (c *remoteCoordinator) start(ctx context.Context) (string, error) {
	ready, ended := make(chan string, 1), make(chan error, 1)
	var err error
	c.child, err = spawn(childSpec{
		name: c.orders.ID, argv: c.argv, orders: c.orders,
		line: func(line string) {
			if url, listens := strings.CutPrefix(line, listensLine); listens {
				ready <- url // said once
				return
			}
			c.rebalanced()
		},
		trouble: func(line string) { c.log(c.orders.ID + ": " + line) },
		ended: func(err error) {
			ended <- err
			c.failed(fmt.Errorf("%s ended by itself: %w", c.orders.ID, orUnknown(err)))
		},
	})
	if err != nil {
		return "", err
	}
	select {
	case url := <-ready:
		c.orders.Address = strings.TrimPrefix(url, "http://")
		return url, nil
	case err := <-ended:
		return "", orUnknown(err)
	case <-time.After(serverTimeout):
		return "", fmt.Errorf("it did not listen within %s", serverTimeout)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// end kills it.
func (c *remoteCoordinator) end() error {
	c.child.kill()
	<-c.child.exited
	return nil
}

func (c *remoteCoordinator) close(ctx context.Context) error {
	if c.child == nil {
		return nil
	}
	return c.child.dismiss(ctx)
}

// RunCoordinator is the process of one coordinator: it takes its orders from in, says to
// out where it listens and when it computes who should hold what, and what is wrong to
// log. It shuts down when ctx ends, a SIGTERM comes, or in ends.
func RunCoordinator(ctx context.Context, in io.Reader, out, log io.Writer) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var o coordinatorOrders
	if err := readOrders(in, &o, stop, stop); err != nil {
		return err
	}
	var mu sync.Mutex
	var broken error
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if _, err := fmt.Fprintln(out, line); err != nil {
			broken = err
		}
	}
	handler := coordinatorLog(func(line string) { _, _ = fmt.Fprintln(log, line) }, func() { say(rebalancedLine) })
	s, err := server.New(ctx, o.config(), server.Options{Logger: slog.New(handler)})
	if err != nil {
		return err
	}
	say(listensLine + s.URL())
	err = s.Run(ctx)
	mu.Lock()
	defer mu.Unlock()
	return errors.Join(err, broken)
}
