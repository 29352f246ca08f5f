package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
)

// patience bounds the waits of these tests; nothing waits that long.
const patience = time.Minute

// buffer is written by a command while a test reads it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// command is a command line that runs.
type command struct {
	out, err buffer
	stop     context.CancelFunc
	done     chan int
}

// start runs a command line; environ and stdin may be nil.
func start(t *testing.T, environ []string, stdin io.Reader, args ...string) *command {
	t.Helper()
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	c := &command{done: make(chan int, 1)}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	app := App{Stdin: stdin, Stdout: &c.out, Stderr: &c.err, Environ: environ, Version: "v1.2.3"}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.done <- app.Run(ctx, args)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return c
}

// wait returns the exit code.
func (c *command) wait(t *testing.T) int {
	t.Helper()
	select {
	case code := <-c.done:
		return code
	case <-time.After(patience):
		t.Fatalf("the command does not end; stdout:\n%s\nstderr:\n%s", c.out.String(), c.err.String())
		return 0
	}
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestExitCodes(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("coordinator: {colour: blue}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name string
		args []string
		code int
		out  string // a part of what is written
		err  string
	}{
		{"no command", nil, 0, "Usage:", ""},
		{"help", []string{"--help"}, 0, "server", ""},
		{"version", []string{"version"}, 0, "rsc v1.2.3 go1", ""},
		{"version as a flag", []string{"--version"}, 0, "rsc v1.2.3 go1", ""},
		{"unknown command", []string{"serve"}, 2, "", `rsc: there is no command "serve", did you mean server?` + "\nrsc --help shows how it is used\n"},
		{"unknown flag", []string{"server", "--colour"}, 2, "", "rsc server: unknown flag: --colour\nrsc server --help shows how it is used\n"},
		{"argument of a command without", []string{"version", "x"}, 2, "", `rsc version: takes no argument, got "x"`},
		{"half a setting", []string{"server", "--set", "a"}, 2, "", `rsc server: --set takes key=value, got "a"`},
		{"unknown setting", []string{"server", "--set", "coordinator.idd=a"}, 2, "", "rsc server: the settings cannot be used:\ncoordinator.idd: no such setting, did you mean coordinator.id? (--set)\n"},
		{"unknown setting in a file", []string{"server", "--config", bad}, 2, "", "coordinator.colour: no such setting (" + bad + ")"},
		{"missing file", []string{"server", "--config", bad + "x"}, 2, "", "bad.yamlx: no such file"},
		{"default password for all to use", []string{"server", "--address", "0.0.0.0:0"}, 2, "", "documented default password"},
		{"address that cannot be", []string{"server", "--address", "192.0.2.1:1", "--set", "coordinator.api.allow-default-password=true"}, 1, "", "rsc server: server.address: listen tcp 192.0.2.1:1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := start(t, nil, nil, c.args...)
			if code := got.wait(t); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(got.out.String(), c.out) || !strings.Contains(got.err.String(), c.err) {
				t.Errorf("stdout:\n%s\nstderr:\n%s", got.out.String(), got.err.String())
			}
			if c.code != 0 && got.out.String() != "" {
				t.Errorf("a failure writes to stdout:\n%s", got.out.String())
			}
		})
	}
}

func TestPrintConfig(t *testing.T) {
	c := start(t, []string{"COORDINATOR_LOG=1", "REDIS_STREAM_COORDINATOR_ADMIN_PASSWORD=canary"}, nil,
		"server", "--config", "../../rsc.yaml", "--id", "c-9", "--redis", "redis://:canary@r:1", "--set", "coordinator.loop.tick-interval=500ms", "--print-config")
	if code := c.wait(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, c.err.String())
	}
	for _, line := range []string{"  id: c-9\n", "    tick-interval: 500ms\n", "    url: redis://:xxxxx@r:1\n", "        password: '********'\n"} {
		if !strings.Contains(c.out.String(), line) {
			t.Errorf("lacks %q:\n%s", line, c.out.String())
		}
	}
	if strings.Contains(c.out.String()+c.err.String(), "canary") {
		t.Error("a secret is printed")
	}
	if !strings.Contains(c.err.String(), "warning: COORDINATOR_LOG: no such setting; ignored\n") {
		t.Errorf("stderr:\n%s", c.err.String())
	}
}

// The server runs until it is told to stop, and logs JSON where nobody watches.
func TestServerCommand(t *testing.T) {
	c := start(t, nil, nil, "server", "--address", "127.0.0.1:0")
	eventually(t, "it listens", func() bool {
		return strings.Contains(c.err.String(), `"msg":"coordinator listens","url":"http://127.0.0.1:`)
	})
	c.stop()
	if code := c.wait(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if log := c.err.String(); !strings.Contains(log, `"msg":"about the settings","warning":"coordinator.store.type: is memory`) || !strings.Contains(log, `"msg":"coordinator stopped"`) {
		t.Errorf("log:\n%s", log)
	}
}

// A duration in a line of JSON is a text with its unit, not a number of
// nanoseconds.
func TestDurationsInTheLog(t *testing.T) {
	var out bytes.Buffer
	logger, err := App{Stderr: &out}.newLogger(config.Log{Level: "info", Format: "auto"})
	if err != nil {
		t.Fatal(err)
	}
	logger.With("within", 1500*time.Millisecond).WithGroup("g").Info("x", "retry_in", 38903441*time.Nanosecond)
	for _, part := range []string{`"within":"1.5s"`, `"g":{"retry_in":"38.903441ms"}`} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("lacks %s: %s", part, out.String())
		}
	}
}

func TestTextLog(t *testing.T) {
	c := start(t, nil, nil, "server", "--address", "127.0.0.1:0", "--log-format", "text", "--log-level", "warn")
	eventually(t, "it warns", func() bool { return strings.Contains(c.err.String(), "WRN about the settings") })
	c.stop()
	if code := c.wait(t); code != 0 || strings.Contains(c.err.String(), "coordinator listens") || strings.Contains(c.err.String(), "\x1b") {
		t.Errorf("exit code %d, log:\n%s", code, c.err.String())
	}
}

func TestGetenv(t *testing.T) {
	a := App{Environ: []string{"A=1", "AB=2", "EMPTY=", "C=x=y"}}
	for name, want := range map[string]string{"A": "1", "AB": "2", "EMPTY": "none", "B": "none", "C": "x=y", "": "none"} {
		if got := a.getenv(name, "none"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
