package faultkit

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// logTail is how much of the log of a process a failing test shows.
	logTail = 12 << 10
	// stopTimeout is how long the system may take to stop a process.
	stopTimeout = 60 * time.Second
)

// Command is a program to be run.
type Command struct {
	// Path is the program, Args are its arguments.
	Path string
	Args []string
	// Environ is added to the environment.
	Environ []string
	// Stdin is what it reads, nil for nothing.
	Stdin io.Reader
	// Stdout takes what it prints. Nil means its log, where what it writes to standard
	// error goes in any case.
	Stdout *os.File
}

// Process is a process that a test started. It is gone when the test ends, and a
// failing test shows the end of its log.
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

// Run starts a program with environ on top of the environment. All that it writes
// goes to its log.
func Run(tb testing.TB, name string, environ []string, program string, args ...string) *Process {
	tb.Helper()
	return Command{Path: program, Args: args, Environ: environ}.Start(tb, name)
}

// Start starts the program; name is for people.
func (c Command) Start(tb testing.TB, name string) *Process {
	tb.Helper()
	p, err := c.start(tb, name)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func (c Command) start(tb testing.TB, name string) (*Process, error) {
	logs, err := os.CreateTemp(tb.TempDir(), "*.log")
	if err != nil {
		return nil, err
	}
	defer func() { _ = logs.Close() }() // the process has its own
	// Not the test's context: it ends before the cleanup below.
	cmd := exec.CommandContext(context.Background(), c.Path, c.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, logs, logs
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	cmd.Env = append(os.Environ(), c.Environ...)
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

// Pause freezes the process, as SIGSTOP does, and returns when it stands still.
func (p *Process) Pause() {
	p.tb.Helper()
	p.Signal(syscall.SIGSTOP)
	Eventually(p.tb, stopTimeout, p.Name+" stands still", func() bool { return !p.Runs() || stopped(p.PID()) })
}

// Resume lets a paused process go on.
func (p *Process) Resume() { p.tb.Helper(); p.Signal(syscall.SIGCONT) }

// Terminate asks the process to end, as SIGTERM does.
func (p *Process) Terminate() { p.tb.Helper(); p.Signal(syscall.SIGTERM) }

// Signal sends a signal to a process that runs.
func (p *Process) Signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.tb.Fatalf("send %s to %s: %v", s, p.Name, err)
	}
}

// Stop asks the process to end and fails the test unless it does so in order.
func (p *Process) Stop(within time.Duration) {
	p.tb.Helper()
	p.Terminate()
	p.ExpectEnd(within)
}

// ExpectEnd waits for the end of a process that was asked to end, and fails the test
// unless it exits with 0.
func (p *Process) ExpectEnd(within time.Duration) {
	p.tb.Helper()
	if code := p.Wait(within); code != 0 {
		p.tb.Errorf("%s was asked to end and exited with %d", p.Name, code)
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
		if p.Runs() { // else it has ended while we stood still
			p.tb.Fatalf("%s has not ended within %s", p.Name, within)
		}
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

// ExpectLog fails the test unless the log holds a text.
func (p *Process) ExpectLog(text string) {
	p.tb.Helper()
	if !strings.Contains(p.Log(), text) {
		p.tb.Errorf("%s does not say %q", p.Name, text)
	}
}

// ForbidLog fails the test if the log holds one of the texts after its first bytes.
func (p *Process) ForbidLog(after int, texts ...string) {
	p.tb.Helper()
	log := p.Log()[after:]
	for _, text := range texts {
		if strings.Contains(log, text) {
			p.tb.Errorf("%s says %q", p.Name, text)
		}
	}
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
