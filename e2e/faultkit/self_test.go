package faultkit

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	HushRedis()
	Self(patient)
	os.Exit(m.Run())
}

// waiting is what the other program of this test binary is to do.
type waiting struct {
	// Says is what it logs at first, Fails that it ends with an error then.
	Says  string
	Fails bool
}

// patient goes on until it is asked to end.
func patient(ctx context.Context, w waiting, log *slog.Logger) error {
	log.Info("begun", "says", w.Says)
	if w.Fails {
		return errors.New("as it was told")
	}
	<-ctx.Done()
	return nil
}

func TestTheTestBinaryIsAnotherProgramToo(t *testing.T) {
	Slow(t)
	p := RunSelf(t, "a patient process", waiting{Says: "here I am"})
	Eventually(t, patience, "it says that it is there", func() bool { return strings.Contains(p.Log(), "here I am") })
	p.Pause()
	p.Resume()
	if !p.Runs() {
		t.Error("it has ended before it was asked to")
	}
	p.Stop(patience)
	p.ExpectLog(`"says":"here I am"`)
	p.ForbidLog(0, "the process ended", "no plan")

	failed := RunSelf(t, "a process that fails", waiting{Fails: true})
	if code := failed.Wait(patience); code != 1 {
		t.Errorf("it failed and exited with %d", code)
	}
	failed.ExpectLog("as it was told")
	if code := RunSelf(t, "a process without a plan", "nothing").Wait(patience); code != 2 {
		t.Errorf("it was told nothing that it understands and exited with %d", code)
	}
}

func TestACommandReadsAndPrintsWhereItIsTold(t *testing.T) {
	Slow(t)
	Need(t, "sh")
	printed, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = printed.Close() }()
	p := Command{
		Path: "sh", Args: []string{"-c", `read word; echo "$word"; echo "$WHERE" >&2`}, Environ: []string{"WHERE=in the log"},
		Stdin: strings.NewReader("hello\n"), Stdout: printed,
	}.Start(t, "sh")
	if code := p.Wait(patience); code != 0 {
		t.Errorf("it exited with %d", code)
	}
	text, err := os.ReadFile(printed.Name())
	if err != nil || string(text) != "hello\n" || p.Log() != "in the log\n" {
		t.Errorf("it printed %q and logged %q (%v)", text, p.Log(), err)
	}
	killed := Command{Path: "sh", Args: []string{"-c", "read word"}, Stdin: blocked(t)}.Start(t, "sh")
	killed.Signal(syscall.SIGKILL)
	if code := killed.Wait(patience); code != -1 {
		t.Errorf("it was killed and exited with %d", code)
	}
}

// blocked is the end of a pipe in which nothing comes.
func blocked(t *testing.T) *os.File {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = out.Close(), in.Close() })
	return out
}
