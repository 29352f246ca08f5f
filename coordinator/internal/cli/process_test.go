package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// The tests of this file run rsc as a process of its own: this test binary,
// started again with asRSC in its environment.

const asRSC = "RSC_TEST_AS_RSC"

func TestMain(m *testing.M) {
	if os.Getenv(asRSC) != "" {
		os.Exit(Main("v1.2.3"))
	}
	os.Exit(m.Run())
}

// process starts rsc; the test's end kills it if it still runs.
func process(t *testing.T, environ []string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(context.Background(), self, args...)
	c.Env = append([]string{asRSC + "=1"}, environ...)
	t.Cleanup(func() {
		if c.Process != nil && c.ProcessState == nil {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	})
	return c
}

func TestServerProcessEndsOnSIGTERM(t *testing.T) {
	c := process(t, nil, "server", "--address", "127.0.0.1:0")
	log, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(log); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "coordinator listens") {
			if err := c.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.Wait(); err != nil || !strings.Contains(said.String(), "coordinator stopped") {
		t.Errorf("%v:\n%s", err, said.String())
	}
}

// A consumer whose output is closed leaves its group and says why; what it did
// not print is printed by the next one.
func TestConsumeProcessWithoutReader(t *testing.T) {
	const n = 300
	w := newWorld(t)
	if code, out := w.produce(t, orders(n, 10), "--key-field", "customer"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	c := process(t, w.environ, "consume", "--stream", "orders", "--group", "billing")
	var said strings.Builder
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	for range 3 {
		if line, err := in.ReadString('\n'); err != nil || !json.Valid([]byte(line)) {
			t.Fatalf("%q %v", line, err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	// Those that fitted into the pipe are printed for nobody; more are to come.
	if code, out := w.produce(t, orders(n, 10), "--key-field", "customer"); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, out)
	}
	if err := c.Wait(); c.ProcessState.ExitCode() != exitFailure {
		t.Errorf("ended with %v", err)
	}
	if !strings.Contains(said.String(), "consume: member=") || !strings.Contains(said.String(), "print a record: write") {
		t.Errorf("it said\n%s", said.String())
	}
	next := w.consume(t)
	eventually(t, "the next one prints", func() bool { return next.out.String() != "" })
}

func TestExitCodeOfTheProcess(t *testing.T) {
	c := process(t, nil, "produce")
	if err := c.Run(); c.ProcessState.ExitCode() != exitUsage {
		t.Errorf("ended with %v", err)
	}
	c = process(t, nil, "version")
	out, err := c.Output()
	if err != nil || !strings.HasPrefix(string(out), "rsc v1.2.3 ") {
		t.Errorf("%q %v", out, err)
	}
}
