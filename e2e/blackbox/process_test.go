package blackbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// logTail is how much of the log of a process a failing test shows.
const logTail = 12 << 10

// process is a process that a test started. It is gone when the test ends, and
// a failing test shows the end of what it wrote to standard error.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	// logs is the file that takes its standard error.
	logs string
	// ended is closed when the process has been waited for; code is valid then,
	// -1 after a signal.
	ended chan struct{}
	code  int
}

// streams are the ends of a process that a test wants to hold. nil means
// nothing to read, and an output that nobody looks at.
type streams struct {
	stdin  io.Reader
	stdout *os.File
	// environ is added to the environment.
	environ []string
}

// start runs a program.
func start(t *testing.T, name string, s streams, program string, args ...string) *process {
	t.Helper()
	logs, err := os.CreateTemp(t.TempDir(), "*.log")
	if err != nil {
		t.Fatal(err)
	}
	// Not the test's context: it ends before the cleanup below.
	cmd := exec.CommandContext(context.Background(), program, args...)
	cmd.Stdin, cmd.Stderr = s.stdin, logs
	if s.stdout != nil { // a nil file in an interface would not be nil
		cmd.Stdout = s.stdout
	}
	cmd.Env = append(os.Environ(), s.environ...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	if err := logs.Close(); err != nil { // the process has its own
		t.Error(err)
	}
	p := &process{t: t, name: name, cmd: cmd, logs: logs.Name(), ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // what it says stands in ProcessState
		p.code = cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, p.tail())
		}
	})
	return p
}

// runs reports whether the process has not ended.
func (p *process) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// signal sends a signal, to a process that still runs.
func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("send %s to %s: %v", s, p.name, err)
	}
}

// kill ends the process as kill -9 does and waits for its end. A process that
// has ended already is left alone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// wait returns the exit code.
func (p *process) wait(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		p.t.Fatalf("%s has not ended within %s", p.name, within)
	}
	return p.code
}

// stop asks the process to end and fails the test unless it does so in order.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(20 * time.Second); code != 0 {
		p.t.Errorf("%s was asked to end and exited with %d", p.name, code)
	}
}

// log returns what the process has written to standard error so far.
func (p *process) log() string {
	p.t.Helper()
	text, err := os.ReadFile(p.logs)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func (p *process) tail() string {
	text, err := os.ReadFile(p.logs)
	if err != nil {
		return err.Error()
	}
	if cut := len(text) - logTail; cut > 0 {
		return fmt.Sprintf("(%d bytes before)\n%s", cut, text[cut:])
	}
	return string(text)
}

// expectLog fails the test unless the log holds a text.
func (p *process) expectLog(text string) {
	p.t.Helper()
	if !strings.Contains(p.log(), text) {
		p.t.Errorf("%s does not say %q", p.name, text)
	}
}

// forbidLog fails the test if the log holds one of the texts after its first
// bytes.
func (p *process) forbidLog(after int, texts ...string) {
	p.t.Helper()
	log := p.log()[after:]
	for _, text := range texts {
		if strings.Contains(log, text) {
			p.t.Errorf("%s says %q", p.name, text)
		}
	}
}

// newFile creates a file to append to. Every process that gets it appends its
// own writes whole, so the order in the file is the order in which they were
// made, whoever made them.
func newFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), name), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}
