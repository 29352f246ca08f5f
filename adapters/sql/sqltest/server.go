package sqltest

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a server of one test.
type Server struct {
	*Instance

	tb testing.TB
}

// Start starts a server and stops it when the test ends. Without its programs, and in
// quick runs, the test is skipped; with CI=true a missing server fails it.
func Start(tb testing.TB, kind Kind) *Server {
	tb.Helper()
	if testing.Short() || os.Getenv("RSC_TEST_FAST") != "" {
		tb.Skipf("needs a server of %s, which a quick run does not start", kind)
	}
	s, err := New(kind)
	switch {
	case errors.Is(err, ErrMissing) && os.Getenv("CI") == "true":
		tb.Fatalf("%v, and in CI the tests on it must run", err)
	case errors.Is(err, ErrMissing):
		tb.Skipf("SKIPPED: %v: NOTHING IS TESTED ON %s", err, strings.ToUpper(string(kind)))
	case err != nil:
		tb.Fatalf("%s does not start: %v", kind, err)
	}
	tb.Cleanup(func() {
		s.Kill()
		if tb.Failed() {
			tb.Logf("the end of the log of %s:\n%s", kind, s.tail())
		}
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return &Server{Instance: s, tb: tb}
}

// Stop asks the server to end in order, and waits for it.
func (s *Server) Stop() {
	s.tb.Helper()
	s.mu.Lock()
	process, ended := s.process, s.ended
	s.mu.Unlock()
	if err := process.Process.Signal(s.kind.stop); err != nil {
		s.tb.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(startTimeout):
		s.tb.Fatalf("%s does not stop", s.Kind)
	}
}

// Launch starts a server that was killed or stopped, with the same data at the same
// address.
func (s *Server) Launch() {
	s.tb.Helper()
	deadline := time.Now().Add(startTimeout)
	for {
		err := s.launch()
		if err == nil {
			return
		}
		// What was left of the processes before may have to end first.
		if time.Now().After(deadline) {
			s.tb.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// KillChild ends one of the server's processes, which makes the others end, too, and the
// server start them again. It waits until one is gone.
func (s *Server) KillChild() {
	s.tb.Helper()
	family := s.family()
	if len(family) < 2 {
		s.tb.Fatalf("%s has no other processes", s.Kind)
	}
	if err := syscall.Kill(family[1], syscall.SIGKILL); err != nil {
		s.tb.Fatal(err)
	}
	for deadline := time.Now().Add(startTimeout); slices.Contains(s.family(), family[1]); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.tb.Fatalf("process %d does not end", family[1])
		}
	}
}
