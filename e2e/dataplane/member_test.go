package dataplane

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// member is a running member: a process, or a goroutine of the test.
type member struct {
	w    *world
	id   string
	proc *faultkit.Process

	// logs and cancel are a goroutine's.
	logs   *logBuffer
	cancel context.CancelFunc
	ended  chan struct{}
	err    error
	// acks are the round trips of its acknowledgements.
	acks *durations
}

// start runs a member as a process.
func (w *world) start(id string, change ...func(*plan)) *member {
	w.t.Helper()
	m := &member{w: w, id: id, proc: faultkit.RunSelf(w.t, "member "+id, w.plan(id, change))}
	w.members[id] = m
	return m
}

// join runs a member within the test process.
func (w *world) join(id string, change ...func(*plan)) *member {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	m := &member{w: w, id: id, logs: new(logBuffer), cancel: cancel, ended: make(chan struct{}), acks: new(durations)}
	p := w.plan(id, change)
	go func() {
		defer close(m.ended)
		m.err = consume(ctx, p, slog.New(slog.NewJSONHandler(m.logs, nil)), observer{acks: m.acks})
	}()
	w.t.Cleanup(func() {
		cancel()
		<-m.ended
		if w.t.Failed() {
			w.t.Logf("the end of the log of member %s:\n%s", id, m.logs.tail())
		}
	})
	w.members[id] = m
	return m
}

func (w *world) plan(id string, change []func(*plan)) plan {
	p := w.defaults
	p.Member = id
	for _, c := range change {
		c(&p)
	}
	return p
}

// kill ends a member's process as kill -9 does.
func (m *member) kill() {
	m.w.t.Helper()
	m.proc.Kill()
	m.w.take()
	m.w.account.forget(m.id)
	delete(m.w.members, m.id)
}

// stop asks a member to end, and fails the test unless it does so in order.
func (m *member) stop() {
	m.w.t.Helper()
	delete(m.w.members, m.id)
	if m.proc != nil {
		m.proc.Stop(patience)
		return
	}
	m.cancel()
	select {
	case <-m.ended:
	case <-time.After(patience):
		m.w.t.Fatalf("%s has not ended within %s", m.id, patience)
	}
	if m.err != nil {
		m.w.t.Errorf("%s was asked to end and ended with %v", m.id, m.err)
	}
}

// log returns what the member has logged.
func (m *member) log() string {
	if m.proc != nil {
		return m.proc.Log()
	}
	return m.logs.String()
}

// lines counts the lines that the member has logged.
func (m *member) lines() int { return strings.Count(m.log(), "\n") }

// logBuffer takes a log.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *logBuffer) tail() string {
	const most = 3 << 10
	text := b.String()
	return text[max(0, len(text)-most):]
}
