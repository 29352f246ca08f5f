package faultkit

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// logTail is how much of the log of a process a failing test shows.
const logTail = 3 << 10

// Process is a process that a test started. It is gone when the test ends, and a
// failing test shows the end of what it wrote to standard error.
type Process struct {
	// Name is for people.
	Name string

	tb   testing.TB
	cmd  *exec.Cmd
	logs string
	// quiet says that its log is of interest only if it ended by itself.
	quiet bool
	// ended is closed when the process has been waited for.
	ended chan struct{}
}

// Run starts a program with environ on top of the environment. What it writes,
// to standard output too, goes to its log.
func Run(tb testing.TB, name string, environ []string, program string, args ...string) *Process {
	tb.Helper()
	p, err := run(tb, name, environ, program, args...)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func run(tb testing.TB, name string, environ []string, program string, args ...string) (*Process, error) {
	logs, err := os.CreateTemp(tb.TempDir(), "*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }() // the process has its own
	// Not the test's context: it ends before the cleanup below.
	cmd := exec.CommandContext(context.Background(), program, args...)
	cmd.Stdout, cmd.Stderr = logs, logs
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = bound()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{Name: name, tb: tb, cmd: cmd, logs: logs.Name(), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // what it says stands in ProcessState
		close(p.ended)
	}()
	tb.Cleanup(func() {
		alone := !p.Runs() && p.cmd.ProcessState.Exited() // a kill is no exit
		p.Kill()
		if tb.Failed() && (alone || !p.quiet) {
			tb.Logf("the end of the log of %s:\n%s", name, p.tail())
		}
	})
	return p, nil
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Runs reports whether the process has not ended.
func (p *Process) Runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process as kill -9 does and waits for its end. One that has
// ended already, or that is paused, is no trouble.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Pause freezes the process, as SIGSTOP does.
func (p *Process) Pause() { p.tb.Helper(); p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() { p.tb.Helper(); p.signal(syscall.SIGCONT) }

// Terminate asks the process to end, as SIGTERM does.
func (p *Process) Terminate() { p.tb.Helper(); p.signal(syscall.SIGTERM) }

func (p *Process) signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.tb.Fatalf("send %s to %s: %v", s, p.Name, err)
	}
}

// Wait waits for the end of the process and returns its exit code, -1 after a
// signal.
func (p *Process) Wait(within time.Duration) int {
	p.tb.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-p.ended:
	case <-limit.C:
		p.tb.Fatalf("%s has not ended within %s", p.Name, within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Log returns what the process has written so far.
func (p *Process) Log() string {
	p.tb.Helper()
	text, err := os.ReadFile(p.logs)
	if err != nil {
		p.tb.Fatal(err)
	}
	return string(text)
}

// LogLines counts the lines in the log so far.
func (p *Process) LogLines() int { p.tb.Helper(); return strings.Count(p.Log(), "\n") }

func (p *Process) tail() string {
	text, err := os.ReadFile(p.logs)
	if err != nil {
		return err.Error()
	}
	if cut := len(text) - logTail; cut > 0 {
		return fmt.Sprintf("(%d bytes before)\n%s", cut, text[cut:])
	}
	return string(text)
}

// Eventually waits until a condition holds, and fails the test when it does not
// come within a time.
func Eventually(tb testing.TB, within time.Duration, what string, holds func() bool) {
	tb.Helper()
	const pause = 10 * time.Millisecond
	for deadline := time.Now().Add(within); !holds(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", within, what)
		}
	}
}
