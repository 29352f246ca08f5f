package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// child is a process that the demo started. It gets its orders as one line of
// JSON on its standard input, and ends when that input ends.
type child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	// dismissed says that the demo wants it to end.
	dismissed atomic.Bool
	// exited is closed when it has ended and all that it wrote was read; err is
	// how it ended, and told says that somebody was told so already.
	exited chan struct{}
	err    error
	told   bool
}

// childSpec says what to start.
type childSpec struct {
	name   string
	argv   []string
	orders any
	// line gets each line of the standard output, trouble each of the standard
	// error, one at a time.
	line    func(string)
	trouble func(string)
	// ended is called when the process ended although nobody had dismissed it.
	ended func(error)
}

// maxChildLine bounds a line that a child writes.
const maxChildLine = 64 << 10

// spawn starts a child. It is to be dismissed and waited for.
func spawn(s childSpec) (*child, error) {
	orders, err := json.Marshal(s.orders)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	cmd := exec.Command(s.argv[0], s.argv[1:]...) //nolint:noctx // it is dismissed in good order, see child.dismiss
	detach(cmd)
	c := &child{name: s.name, cmd: cmd, exited: make(chan struct{})}
	var errs [3]error
	var out, trouble io.Reader
	c.stdin, errs[0] = cmd.StdinPipe()
	out, errs[1] = cmd.StdoutPipe()
	trouble, errs[2] = cmd.StderrPipe()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.name, err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { eachLine(out, s.line) })
	reading.Go(func() { eachLine(trouble, s.trouble) })
	go func() {
		defer close(c.exited)
		reading.Wait()
		c.err = cmd.Wait()
		if !c.dismissed.Load() {
			c.told = true
			s.ended(c.err)
		}
	}()
	if _, err := c.stdin.Write(append(orders, '\n')); err != nil {
		c.kill()
		<-c.exited
		return nil, fmt.Errorf("give %s its orders: %w", s.name, err)
	}
	return c, nil
}

// eachLine reads lines to the end. What is too long for a line is read as well,
// so that the writer is never blocked, and not told.
func eachLine(r io.Reader, tell func(string)) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, maxChildLine)
	for scanner.Scan() {
		tell(scanner.Text())
	}
	_, _ = io.Copy(io.Discard, r) // it ends with the process, like the lines
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends the process without warning.
func (c *child) kill() {
	c.dismissed.Store(true)
	_ = c.cmd.Process.Kill() // it has ended where this fails
}

// dismiss asks the process to end in good order. It is killed when it has not
// ended when ctx ends.
// Errors: how it ended, when that was not in good order.
func (c *child) dismiss(ctx context.Context) error {
	c.dismissed.Store(true)
	if err := terminate(c); err != nil {
		c.kill()
	}
	return c.wait(ctx)
}

// release ends the process by the end of its input.
func (c *child) release(ctx context.Context) error {
	c.dismissed.Store(true)
	_ = c.stdin.Close() // it has ended where this fails
	return c.wait(ctx)
}

// wait waits for the end, and kills the process when ctx ends before.
func (c *child) wait(ctx context.Context) error {
	defer func() { _ = c.stdin.Close() }()
	select {
	case <-c.exited:
	case <-ctx.Done():
		c.kill()
		<-c.exited
		return fmt.Errorf("%s did not end in time and was killed", c.name)
	}
	if c.err != nil && !c.told {
		return fmt.Errorf("%s ended badly: %w", c.name, c.err)
	}
	return nil
}

// Orders of a child's life, on its side.

// errOrphaned ends a child whose demo is gone.
var errOrphaned = errors.New("the demo is gone")

// leaveOrder asks a child to end in good order, where there is no signal for it.
const leaveOrder = "leave"

// readOrders decodes the first line of in, and calls leave when in asks for it
// and orphaned when it ends. It reads on until the process ends.
func readOrders(in io.Reader, orders any, leave, orphaned func()) error {
	reader := bufio.NewReader(in)
	first, err := reader.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the orders, one line of JSON: %w", err)
	}
	if err := json.Unmarshal(first, orders); err != nil {
		return fmt.Errorf("read the orders: %w", err)
	}
	go func() {
		defer orphaned()
		for {
			line, err := reader.ReadString('\n')
			if err != nil {
				return
			}
			if line == leaveOrder+"\n" {
				leave()
			}
		}
	}()
	return nil
}

// patience is how long a child may take to end in good order.
const patience = 10 * time.Second
