package blackbox

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// feed is `rsc produce` that reads from a pipe into which lines are written at a
// steady pace.
type feed struct {
	*faultkit.Process
	input *os.File

	stopping chan struct{}
	stopOnce sync.Once
	ended    chan struct{}

	mu    sync.Mutex
	lines map[string]int
}

// feedPace is the time between two lines, feedKeys how many keys take turns.
const (
	feedPace = 10 * time.Millisecond
	feedKeys = 50
)

// feed starts one.
func (k tools) feed() *feed {
	k.t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		k.t.Fatal(err)
	}
	f := &feed{
		Process: k.produce(out), input: in,
		stopping: make(chan struct{}), ended: make(chan struct{}), lines: map[string]int{},
	}
	if err := out.Close(); err != nil { // the process has its own
		k.t.Error(err)
	}
	go f.write(k.t)
	k.t.Cleanup(func() { f.stopFeeding() })
	return f
}

// write writes lines until it is stopped or nobody reads any more.
func (f *feed) write(t *testing.T) {
	defer close(f.ended)
	pace := time.NewTicker(feedPace)
	defer pace.Stop()
	for n := 0; ; n++ {
		l := line{Key: fmt.Sprintf("customer-%02d", n%feedKeys), Seq: n / feedKeys, Text: "steady"}.encode()
		if _, err := fmt.Fprintln(f.input, l); err != nil {
			break // the process has ended, which its exit code tells
		}
		f.mu.Lock()
		f.lines[l]++
		f.mu.Unlock()
		select {
		case <-f.stopping:
		case <-pace.C:
			continue
		}
		break
	}
	if err := f.input.Close(); err != nil {
		t.Error(err)
	}
}

// stopFeeding ends the input and returns all lines that were written.
func (f *feed) stopFeeding() map[string]int {
	f.stopOnce.Do(func() { close(f.stopping) })
	<-f.ended
	return f.written()
}

// written returns the lines so far.
func (f *feed) written() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make(map[string]int, len(f.lines))
	for l, n := range f.lines {
		all[l] = n
	}
	return all
}
