package linear

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// life is the one incarnation of each group.
const life = "x"

// plan is what a writer process does.
type plan struct {
	Name string
	// Out is the file that it notes its calls in.
	Out string
	// URL or Addrs say where the store is.
	URL   string
	Addrs []string
	// Dialect, DSN and TablePrefix say it of a database.
	Dialect     sql.Dialect
	DSN         string
	TablePrefix string
	Seed        uint64
	// Workers call one after the other each, Calls times, on one of so many Keys.
	Workers, Calls, Keys int
	// Pause lies between two calls.
	Pause time.Duration
}

func TestMain(m *testing.M) {
	redis.SetLibraryLogger(slog.New(slog.DiscardHandler))
	faultkit.Self(write)
	os.Exit(m.Run())
}

// notes is the file of a writer: each call is noted before it is made, with its
// outcome unknown, and again when it has returned. So a process that is killed
// leaves behind what it may have done.
type notes struct {
	mu   sync.Mutex
	file *os.File
	// began is the machine's clock at the start, read once: a writer's own clock
	// runs on from there, however the machine's is set.
	began  time.Time
	offset int64
}

func (n *notes) now() int64 { return n.offset + int64(time.Since(n.began)) }

func (n *notes) note(o op) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	_, err = n.file.Write(append(line, '\n'))
	return err
}

// open reaches the store, in spite of what happens to its connections.
func (p plan) open(ctx context.Context) (store port.Store, done func(), err error) {
	if p.Dialect != "" {
		return p.openSQL(ctx)
	}
	for range 100 {
		var client *redis.Client
		client, err = redis.Open(ctx, redis.Config{URL: p.URL, Addrs: p.Addrs, KeyPrefix: "linear", Timeout: time.Second})
		if err != nil {
			continue
		}
		if store, err = client.Store(ctx); err == nil {
			return store, func() { _ = client.Close() }, nil
		}
		_ = client.Close() // it is opened anew
	}
	return nil, nil, err
}

// write is the program of a writer process.
func write(ctx context.Context, p plan, _ *slog.Logger) error {
	file, err := os.OpenFile(p.Out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // each line is written at once
	store, done, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	began := time.Now()
	n := &notes{file: file, began: began, offset: began.UnixNano()}
	errs := make([]error, p.Workers)
	var workers sync.WaitGroup
	for i := range p.Workers {
		workers.Go(func() {
			w := worker{
				plan: p, id: fmt.Sprintf("%s.%d", p.Name, i), notes: n, store: store,
				rng: mathrand.New(mathrand.NewPCG(p.Seed, uint64(i))), known: make([]known, p.Keys),
			}
			errs[i] = w.run(ctx)
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// known is what a worker last heard of a group.
type known struct {
	version port.Version
	stamp   string
}

type worker struct {
	plan  plan
	id    string
	notes *notes
	store port.Store
	rng   *mathrand.Rand
	known []known
}

func (w *worker) run(ctx context.Context) error {
	for i := range w.plan.Calls {
		time.Sleep(w.plan.Pause)
		o := op{ID: fmt.Sprintf("%s-%d", w.id, i), Key: w.rng.IntN(w.plan.Keys)}
		var call func(context.Context) error
		switch n := w.rng.IntN(100); {
		case n < 35:
			call = w.load(&o)
		case n < 75:
			call = w.save(&o)
		case n < 96:
			call = w.renew(&o)
		default:
			call = w.remove(&o)
		}
		o.Outcome, o.Call = outcomeUnknown, w.notes.now()
		if err := w.notes.note(o); err != nil {
			return err
		}
		switch err := call(ctx); {
		case err == nil:
			o.Outcome = outcomeDone
		case errors.Is(err, port.ErrConflict):
			o.Outcome = outcomeConflict
		}
		o.Return = w.notes.now()
		if err := w.notes.note(o); err != nil {
			return err
		}
	}
	return nil
}

func group(key int) port.GroupKey {
	return port.GroupKey{Stream: fmt.Sprintf("orders-%d", key), Group: "billing"}
}

// expect makes a write rely on what the worker knows.
func (w *worker) expect(o *op) port.Version {
	v := w.known[o.Key].version
	o.Expected = at{v.Revision, v.Nonce}
	return v
}

func (w *worker) load(o *op) func(context.Context) error {
	o.Kind = callLoad
	return func(ctx context.Context) error {
		r, err := w.store.LoadGroup(ctx, group(o.Key), port.Version{})
		if err != nil {
			return err
		}
		o.Seen, o.SeenStamp, o.Body = at{r.Version.Revision, r.Version.Nonce}, r.Stamps[life], string(r.Body)
		w.known[o.Key] = known{r.Version, r.Stamps[life]}
		return nil
	}
}

func (w *worker) save(o *op) func(context.Context) error {
	o.Kind, o.Nonce = callSave, rand.Text()
	s := port.GroupSave{Expected: w.expect(o), Nonce: o.Nonce, Body: []byte(o.Nonce)}
	stamp := w.known[o.Key].stamp
	if w.rng.IntN(2) == 0 {
		o.Relies, o.Relied = true, stamp
		s.Relied = []port.Stamp{{Life: life, Value: stamp}}
	}
	if w.rng.IntN(2) == 0 {
		o.Stamp = rand.Text()
		s.Stamps = []port.Stamp{{Life: life, Value: o.Stamp}}
	}
	return func(ctx context.Context) error {
		v, err := w.store.SaveGroup(ctx, group(o.Key), s)
		if err == nil {
			if s.Expected.Revision == 0 {
				stamp = ""
			}
			if o.Stamp != "" {
				stamp = o.Stamp
			}
			w.known[o.Key] = known{v, stamp}
		}
		return err
	}
}

func (w *worker) renew(o *op) func(context.Context) error {
	o.Kind, o.Stamp = callRenew, rand.Text()
	r := port.Renewal{Expected: w.expect(o), Stamps: []port.Stamp{{Life: life, Value: o.Stamp}}}
	if r.Expected.Revision == 0 {
		return w.load(o) // a record that is not there cannot be renewed
	}
	return func(ctx context.Context) error {
		err := w.store.RenewGroup(ctx, group(o.Key), r)
		if err == nil {
			w.known[o.Key].stamp = o.Stamp
		}
		return err
	}
}

func (w *worker) remove(o *op) func(context.Context) error {
	o.Kind = callDelete
	v := w.expect(o)
	if v.Revision == 0 {
		return w.load(o)
	}
	return func(ctx context.Context) error {
		err := w.store.DeleteGroup(ctx, group(o.Key), v)
		if err == nil {
			w.known[o.Key] = known{}
		}
		return err
	}
}

// readNotes reads what a writer has noted: the last word on each call. The last line
// of a process that was killed may be cut off.
func readNotes(t *testing.T, path string) []op {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	place := map[string]int{}
	var ops []op
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var o op
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			break
		}
		if i, again := place[o.ID]; again {
			ops[i] = o
			continue
		}
		place[o.ID] = len(ops)
		ops = append(ops, o)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return ops
}
