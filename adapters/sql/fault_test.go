package sql_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/adapters/sql/sqltest"
	"github.com/redis-stream-coordinator/rsc/core/port"
)

var orders = port.GroupKey{Stream: "orders", Group: "billing"}

func openOn(t *testing.T, s *sqltest.Server, prefix, address string) *sql.Store {
	t.Helper()
	return open(t, sql.Config{DB: database(t, s.Kind, address), Dialect: dialects[s.Kind], TablePrefix: prefix})
}

func save(t *testing.T, s *sql.Store, at port.Version, stamps ...port.Stamp) port.Version {
	t.Helper()
	v, err := s.SaveGroup(t.Context(), orders, port.GroupSave{Expected: at, Nonce: rand.Text(), Body: []byte("body"), Stamps: stamps})
	if err != nil {
		t.Fatalf("save at %+v: %v", at, err)
	}
	return v
}

func load(t *testing.T, s *sql.Store) port.GroupRecord {
	t.Helper()
	r, err := s.LoadGroup(t.Context(), orders, port.Version{})
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return r
}

// eventually waits for something that comes.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(longest); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", longest, what)
		}
	}
}

// commits are what a commit looks like on the wire.
var commits = map[sqltest.Kind]string{sqltest.Postgres: "COMMIT\x00", sqltest.MariaDB: "COMMIT"}

// testLostAnswerToCommit: the caller is told that nothing is known, the save took place
// once, and its nonce says so.
func testLostAnswerToCommit(t *testing.T, s *sqltest.Server) {
	proxy := sqltest.NewProxy(t, s.Addr)
	prefix := freshPrefix()
	store := openOn(t, s, prefix, s.DSNThrough(proxy))
	v := save(t, store, port.Version{})
	proxy.Lose(commits[s.Kind], 1)
	next := port.GroupSave{Expected: v, Nonce: rand.Text(), Body: []byte("next")}
	_, err := store.SaveGroup(t.Context(), orders, next)
	if err == nil || errors.Is(err, port.ErrConflict) || errors.Is(err, port.ErrTooLarge) {
		t.Errorf("the answer was lost, and the save says %v", err)
	}
	if proxy.Lost() != 1 {
		t.Fatalf("%d answers were lost", proxy.Lost())
	}
	r := load(t, openOn(t, s, prefix, s.DSN()))
	if r.Version.Revision != v.Revision+1 || r.Version.Nonce != next.Nonce || !bytes.Equal(r.Body, next.Body) {
		t.Errorf("after the lost answer the record is %+v", r)
	}
	if _, err := store.SaveGroup(t.Context(), orders, next); !errors.Is(err, port.ErrConflict) {
		t.Errorf("the same save again: %v", err)
	}
}

// testLostBeforeCommit: what breaks off before is not written, and is tried again on
// other connections, but not forever.
func testLostBeforeCommit(t *testing.T, s *sqltest.Server) {
	proxy := sqltest.NewProxy(t, s.Addr)
	prefix := freshPrefix()
	store := openOn(t, s, prefix, s.DSNThrough(proxy))
	v := save(t, store, port.Version{})

	once := rand.Text()
	proxy.Lose(once, 1) // the nonce goes with the statement that writes
	next, err := store.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: once, Body: []byte("next")})
	if err != nil || next.Revision != v.Revision+1 || next.Nonce != once {
		t.Fatalf("one connection broke, and the save at %+v says %+v, %v", v, next, err)
	}
	if proxy.Lost() != 1 {
		t.Errorf("%d connections broke", proxy.Lost())
	}

	always := rand.Text()
	proxy.Lose(always, 100)
	_, err = store.SaveGroup(t.Context(), orders, port.GroupSave{Expected: next, Nonce: always, Body: []byte("more")})
	if err == nil || errors.Is(err, port.ErrConflict) {
		t.Errorf("each connection broke, and the save says %v", err)
	}
	if n := proxy.Lost(); n < 2 || n > 10 {
		t.Errorf("the save was tried on %d connections that broke", n)
	}
	if r := load(t, openOn(t, s, prefix, s.DSN())); r.Version != next {
		t.Errorf("the record is %+v, was %+v", r.Version, next)
	}
	save(t, store, next)
}

// testSlowWriter: a writer that gets little of its processor is cut off in the middle, so
// that others get on, may stand still for longer each time, and gets through all the same.
func testSlowWriter(t *testing.T, s *sqltest.Server) {
	prefix := freshPrefix()
	slow := openHurried(t, sql.Config{DB: database(t, s.Kind, s.DSN()), Dialect: dialects[s.Kind], TablePrefix: prefix})
	other := openOn(t, s, prefix, s.DSN())
	v := save(t, other, port.Version{})
	attempts, err := slow.Dawdle(t.Context(), orders, v.Revision+6, true, func(attempt int, limit string) {
		if want := []string{"1", "2", "4"}; attempt > len(want) || limit != want[attempt-1] {
			t.Errorf("attempt %d may stand still for %s s", attempt, limit)
		}
		if attempt < 3 {
			untilCutOff(t, other, v)
		}
	})
	if err != nil || attempts != 3 {
		t.Fatalf("the writer got through in %d attempts: %v", attempts, err)
	}
	if r := load(t, other); r.Version.Revision != v.Revision+6 {
		t.Errorf("the record is %+v", r.Version)
	}
}

// untilCutOff waits until a writer that holds the group is cut off: then others get on.
func untilCutOff(t *testing.T, other *sql.Store, v port.Version) {
	t.Helper()
	eventually(t, "the renewal of another", func() bool {
		return other.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: rand.Text()}}}) == nil
	})
}

// testStillBeforeCommit: a writer that is cut off when all but the end is said has written
// nothing, and where the database says so it is tried again.
func testStillBeforeCommit(t *testing.T, s *sqltest.Server) {
	prefix := freshPrefix()
	slow := openHurried(t, sql.Config{DB: database(t, s.Kind, s.DSN()), Dialect: dialects[s.Kind], TablePrefix: prefix})
	other := openOn(t, s, prefix, s.DSN())
	v := save(t, other, port.Version{})
	attempts, err := slow.Dawdle(t.Context(), orders, v.Revision+6, false, func(attempt int, _ string) {
		if attempt == 1 {
			untilCutOff(t, other, v)
		}
	})
	want := v.Revision + 6
	switch {
	case err != nil && s.Kind == sqltest.MariaDB: // it only ends the connection
		want = v.Revision
	case err != nil || attempts < 2:
		t.Fatalf("the writer got through in %d attempts: %v", attempts, err)
	}
	if r := load(t, other); r.Version.Revision != want {
		t.Errorf("the record is %+v, want revision %d", r.Version, want)
	}
}

// testRestartIsAnotherInstance: in order, by a power cut, and, on PostgreSQL, when one
// process of the server dies; what is tied to the one before is refused.
func testRestartIsAnotherInstance(t *testing.T, s *sqltest.Server) {
	store := openOn(t, s, freshPrefix(), s.DSN())
	restarts := map[string]func(){
		"in order":    func() { s.Stop(); s.Launch() },
		"a power cut": func() { s.Kill(); s.Launch() },
	}
	if s.Kind == sqltest.Postgres {
		restarts["a process died"] = s.KillChild
	}
	var v port.Version
	for name, restart := range restarts {
		v = save(t, store, v, port.Stamp{Life: "a", Value: rand.Text()})
		restart()
		var r port.GroupRecord
		eventually(t, "the server answers", func() bool {
			var err error
			r, err = store.LoadGroup(t.Context(), orders, v)
			return err == nil && (name != "a process died" || r.Version.Instance != v.Instance)
		})
		if r.Version.Instance == v.Instance {
			t.Errorf("%s: still instance %s", name, v.Instance)
		}
		if r.Version.Revision != v.Revision || r.Version.Nonce != v.Nonce || string(r.Body) != "body" {
			t.Errorf("%s: the record is %+v, was %+v", name, r, v)
		}
		for what, call := range map[string]func() error{
			"save": func() error {
				_, err := store.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: rand.Text(), Body: []byte("late")})
				return err
			},
			"renewal": func() error {
				return store.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: "late"}}})
			},
			"deletion": func() error { return store.DeleteGroup(t.Context(), orders, v) },
		} {
			if err := call(); !errors.Is(err, port.ErrConflict) {
				t.Errorf("%s: a %s tied to the instance before: %v", name, what, err)
			}
		}
		again, err := store.Ping(t.Context())
		if err != nil || again != r.Version.Instance {
			t.Errorf("%s: instance %q, then %q, %v", name, r.Version.Instance, again, err)
		}
		v = r.Version
	}
}

// testPowerCut: whatever was confirmed is there after the server was killed in the middle
// of many writes.
func testPowerCut(t *testing.T, s *sqltest.Server) {
	const writers = 4
	store := openOn(t, s, freshPrefix(), s.DSN())
	confirmed := make([]port.Version, writers)
	var count atomic.Int64
	for range 2 {
		before := count.Load()
		ctx, stop := context.WithCancel(t.Context())
		var writing sync.WaitGroup
		for i := range writers {
			key := port.GroupKey{Stream: "orders", Group: fmt.Sprint(i)}
			writing.Go(func() {
				for ctx.Err() == nil {
					r, err := store.LoadGroup(ctx, key, port.Version{})
					if err != nil {
						return
					}
					v, err := store.SaveGroup(ctx, key, port.GroupSave{Expected: r.Version, Nonce: rand.Text(), Body: []byte("x")})
					if err != nil {
						return
					}
					confirmed[i] = v
					count.Add(1)
				}
			})
		}
		eventually(t, "some saves", func() bool { return count.Load() >= before+40 })
		s.Kill()
		writing.Wait() // each meets the dead server
		stop()
		s.Launch()
		for i, v := range confirmed {
			var r port.GroupRecord
			eventually(t, "the server answers", func() bool {
				var err error
				r, err = store.LoadGroup(t.Context(), port.GroupKey{Stream: "orders", Group: fmt.Sprint(i)}, port.Version{})
				return err == nil
			})
			// The last save may have taken place without an answer.
			same := r.Version.Revision == v.Revision && r.Version.Nonce == v.Nonce
			if !same && r.Version.Revision != v.Revision+1 {
				t.Errorf("revision %d was confirmed, and %d is there", v.Revision, r.Version.Revision)
			}
		}
	}
	t.Logf("%d saves were confirmed", count.Load())
}

// testFrozenServer: calls end in time, nothing is said that is not so, and all goes on
// afterwards.
func testFrozenServer(t *testing.T, s *sqltest.Server) {
	prefix := freshPrefix()
	slow := openOn(t, s, prefix, s.DSN())
	cfg := sql.Config{DB: database(t, s.Kind, s.DSN()), Dialect: dialects[s.Kind], TablePrefix: prefix, Code: code, Timeout: 500 * time.Millisecond}
	var store *sql.Store
	eventually(t, "a store that is opened in time", func() bool {
		var err error
		store, err = sql.Open(t.Context(), cfg)
		return err == nil
	})
	v := save(t, slow, port.Version{}, port.Stamp{Life: "a", Value: "1"})
	s.Freeze()
	_, err := store.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "frozen", Body: []byte("x")})
	if err == nil || errors.Is(err, port.ErrConflict) {
		t.Errorf("save on a frozen server: %v", err)
	}
	if err := store.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: "2"}}}); err == nil || errors.Is(err, port.ErrConflict) {
		t.Errorf("renewal on a frozen server: %v", err)
	}
	if _, err := store.LoadGroup(t.Context(), orders, port.Version{}); err == nil {
		t.Error("a frozen server was loaded from")
	}
	s.Thaw()
	eventually(t, "a save", func() bool {
		r := load(t, slow)
		_, err := slow.SaveGroup(t.Context(), orders, port.GroupSave{Expected: r.Version, Nonce: rand.Text(), Body: []byte("y")})
		return err == nil
	})
}

// testWriterThatStandsStill: it holds its group in the middle of a transaction and says
// nothing more; the others get on, and what it says later is refused.
func testWriterThatStandsStill(t *testing.T, s *sqltest.Server) {
	prefix := freshPrefix()
	still, other := openOn(t, s, prefix, s.DSN()), openOn(t, s, prefix, s.DSN())
	v := save(t, other, port.Version{}, port.Stamp{Life: "a", Value: "1"})
	holds, goOn := make(chan struct{}), make(chan struct{})
	var standing sync.WaitGroup
	var late error
	standing.Go(func() {
		late = still.Hold(t.Context(), orders, func() { close(holds); <-goOn })
	})
	<-holds
	eventually(t, "the renewal of another", func() bool {
		return other.RenewGroup(t.Context(), orders, port.Renewal{Expected: v, Stamps: []port.Stamp{{Life: "a", Value: "2"}}}) == nil
	})
	v = save(t, other, v)
	close(goOn)
	standing.Wait()
	if late == nil {
		t.Error("the writer that stood still was confirmed")
	}
	if r := load(t, other); r.Version != v || r.Stamps["a"] != "2" {
		t.Errorf("the record is %+v, was %+v", r, v)
	}
}

// testCutConnections: whatever happens to connections, no update is lost or made twice.
func testCutConnections(t *testing.T, s *sqltest.Server) {
	const writers, each = 4, 15
	proxy := sqltest.NewProxy(t, s.Addr)
	prefix := freshPrefix()
	store := openOn(t, s, prefix, s.DSNThrough(proxy))
	var done atomic.Int64
	var writing sync.WaitGroup
	var wrong sync.Map
	for i := range writers {
		writing.Go(func() {
			for n := 0; n < each; {
				r, err := store.LoadGroup(t.Context(), orders, port.Version{})
				if err != nil {
					continue // the next attempt has another connection
				}
				nonce := rand.Text()
				_, err = store.SaveGroup(t.Context(), orders, port.GroupSave{Expected: r.Version, Nonce: nonce, Body: []byte("x")})
				switch {
				case err == nil:
					n++
					done.Add(1)
				case !errors.Is(err, port.ErrConflict):
					// Unknown: it counts if its nonce was ever there; only the last is seen.
					wrong.Store(fmt.Sprint(i, n, nonce), r.Version.Revision+1)
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() { writing.Wait(); close(finished) }()
	cuts := 0
cutting:
	for {
		select {
		case <-finished:
			break cutting
		case <-time.After(50 * time.Millisecond):
			if cuts < 40 {
				proxy.Cut()
				cuts++
			}
		}
	}
	unknown := int64(0)
	wrong.Range(func(any, any) bool { unknown++; return true })
	r := load(t, openOn(t, s, prefix, s.DSN()))
	if n := r.Version.Revision; n < done.Load() || n > done.Load()+unknown {
		t.Errorf("%d saves were confirmed and %d unknown, and the revision is %d", done.Load(), unknown, n)
	}
	t.Logf("%d cuts, %d saves confirmed, %d unknown, revision %d", cuts, done.Load(), unknown, r.Version.Revision)
}
