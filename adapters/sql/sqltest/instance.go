package sqltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout is how long a server may take to answer; a busy machine takes long.
	startTimeout  = 2 * time.Minute
	startAttempts = 5
	// logTail is how much of a server's log is shown.
	logTail = 3 << 10
)

// ErrMissing says that the programs of a server are not installed.
var ErrMissing = errors.New("is not installed")

// Instance is a database server with a folder of its own.
type Instance struct {
	// Addr is host:port on the loopback interface. It stays the same over a restart.
	Addr string
	// Kind says which server it is.
	Kind Kind

	kind program
	dir  string
	as   *syscall.Credential

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// New starts a server. Close it when it is not needed any more.
// Errors: ErrMissing, else whatever keeps it from running.
func New(kind Kind) (*Instance, error) {
	s := &Instance{Kind: kind, kind: programs[kind]}
	for _, name := range s.kind.needs {
		if s.find(name) == "" {
			return nil, fmt.Errorf("%s of %s %w", name, kind, ErrMissing)
		}
	}
	err := s.makeHome()
	if err == nil {
		err = s.startAnew()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close kills the server and removes its folder.
func (s *Instance) Close() error {
	s.Kill()
	if s.dir == "" {
		return nil
	}
	return os.RemoveAll(s.dir)
}

// makeHome makes a folder that the server's user may use: those of tests are closed to
// others.
func (s *Instance) makeHome() error {
	dir, err := os.MkdirTemp("", "rsc-sql-")
	if err != nil {
		return err
	}
	s.dir = dir
	if os.Geteuid() != 0 {
		return nil
	}
	// These servers refuse to be root's.
	u, err := user.Lookup(s.kind.user)
	if err != nil {
		return err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(dir, int(uid), int(gid))
}

// startAnew makes the data and starts the server, on another port if somebody else has
// taken the one that was free.
func (s *Instance) startAnew() error {
	create := s.kind.create(s.find, s.dir, "")
	if out, err := s.command(create).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	var failures []error
	for range startAttempts {
		port, err := freePort()
		if err != nil {
			return err
		}
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		if err = s.launch(); err == nil {
			return nil
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// find returns the path of a program, empty if there is none.
func (s *Instance) find(name string) string {
	for _, pattern := range s.kind.folders {
		found, err := filepath.Glob(filepath.Join(pattern, name))
		if err == nil && len(found) > 0 {
			return slices.Max(found)
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

// command makes a command that runs as the server's user.
func (s *Instance) command(argv []string) *exec.Cmd {
	c := exec.CommandContext(context.Background(), argv[0], argv[1:]...) // it outlives the context of a test that ends
	c.Dir = s.dir
	c.Env = append(os.Environ(), "HOME="+s.dir, "LC_ALL=C")
	c.SysProcAttr = bound()
	c.SysProcAttr.Credential = s.as
	return c
}

// launch starts the process and waits until it answers.
func (s *Instance) launch() error {
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return err
	}
	logs, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }() // the process has its own
	process := s.command(s.kind.run(s.find, s.dir, port))
	process.Stdout, process.Stderr = logs, logs
	if err := process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = process.Wait() // how it ended is in its log
	}()
	s.mu.Lock()
	s.process, s.ended = process, ended
	s.mu.Unlock()
	deadline := time.After(startTimeout)
	for {
		if s.command(s.kind.ping(s.find, s.dir, port)).Run() == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("it ended:\n%s", s.tail())
		case <-deadline:
			s.Kill()
			return fmt.Errorf("it does not answer:\n%s", s.tail())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Instance) logPath() string { return filepath.Join(s.dir, "log") }

func (s *Instance) tail() string {
	text, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-logTail):]))
}

// DSN is the data source name of a database on the server, as URL.
func (s *Instance) DSN() string { return s.kind.address(s.Addr) }

// DSNThrough is the same through a proxy.
func (s *Instance) DSNThrough(p *Proxy) string { return s.kind.address(p.Addr) }

// family are the process and its children.
func (s *Instance) family() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int{s.process.Process.Pid}, children(s.process.Process.Pid)...)
}

// Kill ends the server at once, as a power cut does, all its processes together, and
// waits for it. It may be called twice.
func (s *Instance) Kill() {
	s.mu.Lock()
	process, ended := s.process, s.ended
	s.mu.Unlock()
	if process == nil {
		return
	}
	select {
	case <-ended:
		return
	default:
	}
	// None may go on and clean up after another.
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range s.family() {
			_ = syscall.Kill(pid, signal) // it has ended where this fails
		}
	}
	<-ended
}

// Freeze stops all processes where they stand: connections stay open, and nothing is
// answered until Thaw.
func (s *Instance) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets frozen processes go on.
func (s *Instance) Thaw() { s.signal(syscall.SIGCONT) }

func (s *Instance) signal(signal syscall.Signal) {
	for _, pid := range s.family() {
		_ = syscall.Kill(pid, signal) // a child may have ended
	}
}

// freePort returns a port of the loopback interface that was free a moment ago.
func freePort() (string, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}
