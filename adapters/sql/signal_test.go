package sql_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

// logBuffer is a log that is read while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) count(text string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), text)
}

const (
	notHeard   = "changes by other coordinators are not heard"
	heardAgain = "changes by other coordinators are heard again"
)

// watched is what a signal tells until the test ends.
type watched struct {
	log logBuffer
	// all counts what was told, and changes come here besides.
	all  atomic.Int64
	told chan port.Change
}

// watch listens to the signal of a store that is opened for it.
func watch(t *testing.T, cfg sql.Config) (*sql.Store, *watched) {
	t.Helper()
	w := &watched{told: make(chan port.Change, 1000)}
	cfg.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
	s := open(t, cfg)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	watching.Go(func() {
		s.Signal().Watch(ctx, func(c port.Change) { w.all.Add(1); w.told <- c })
	})
	t.Cleanup(func() { stop(); watching.Wait() })
	return s, w
}

// until waits for a change to be told.
func (w *watched) until(t *testing.T, want port.Change) {
	t.Helper()
	for told := w.next(t); told != want; {
		told = w.next(t)
	}
}

// next is what is told next.
func (w *watched) next(t *testing.T) port.Change {
	t.Helper()
	select {
	case c := <-w.told:
		return c
	case <-time.After(longest):
		t.Fatalf("no change was told within %s", longest)
		return port.Change{}
	}
}

// untilHeard saves until that is told. Whoever begins to listen again meanwhile is told
// Any for what was missed.
func (w *watched) untilHeard(t *testing.T, s *sql.Store) {
	t.Helper()
	var v port.Version
	for told := (port.Change{Any: true}); told.Any; {
		v = save(t, s, v)
		for told = w.next(t); !told.Any && told != (port.Change{Key: orders, Revision: v.Revision, Nonce: v.Nonce}); {
			told = w.next(t)
		}
	}
}

// testDeafness: where notifications are sent and do not arrive, that is noticed and said,
// and nothing is told; it is tried again.
func testDeafness(t *testing.T, s *sqltest.Server) {
	all := listenOn(s.DSN())
	var hears atomic.Bool
	listen := func(ctx context.Context, channel string, begun func(), heard func(string)) error {
		return all(ctx, channel, begun, func(payload string) {
			if hears.Load() {
				heard(payload)
			}
		})
	}
	store, w := watch(t, sql.Config{DB: database(t, s.Kind, s.DSN()), Dialect: sql.Postgres, TablePrefix: freshPrefix(), Listen: listen})
	eventually(t, "the log says that nothing is heard", func() bool { return w.log.count(notHeard) > 0 })
	if n := w.all.Load(); n > 0 {
		t.Errorf("%d changes were told", n)
	}
	hears.Store(true)
	w.until(t, port.Change{Any: true})
	w.untilHeard(t, store)
	if silent, again := w.log.count(notHeard), w.log.count(heardAgain); silent != 1 || again != 1 {
		t.Errorf("the log says %d times that nothing is heard, and %d times that it is again", silent, again)
	}
}

// testSignalComesBack: after a restart of the server, too.
func testSignalComesBack(t *testing.T, s *sqltest.Server) {
	if s.Kind != sqltest.Postgres {
		t.Skipf("%s has no channels to listen to", s.Kind)
	}
	store, w := watch(t, sql.Config{DB: database(t, s.Kind, s.DSN()), Dialect: sql.Postgres, TablePrefix: freshPrefix(), Listen: listenOn(s.DSN())})
	w.until(t, port.Change{Any: true})
	s.Stop()
	s.Launch()
	w.until(t, port.Change{Any: true})
	w.untilHeard(t, store)
}
