package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	group = "demo"
	// drainTimeout bounds the wait for what is left when nothing is published
	// any more.
	drainTimeout = 20 * time.Second
	// work is how long a consumer takes for a record, unless there are more than
	// workRate of them in a second: then it takes no longer than it has to.
	work     = time.Millisecond
	workRate = 4000
	// maxDrift is how far the clock may be set meanwhile: what is compared
	// between processes is not true any more then.
	maxDrift = 50 * time.Millisecond
)

// Result is the outcome of a demo.
type Result struct {
	Figures
	// Complaints are what is wrong, in sentences; empty when all is well.
	Complaints []string
}

// OK reports whether all is well.
func (r *Result) OK() bool { return len(r.Complaints) == 0 }

// String is the line that a demo ends with.
func (r Result) String() string {
	if r.OK() {
		return "demo: ok " + r.Figures.String()
	}
	line := "demo: failed: " + strings.Join(r.Complaints, "; ")
	if r.Figures != (Figures{}) {
		line += " (" + r.Figures.String() + ")"
	}
	return line
}

// Run runs the demo and tells o.Out what happens; the last line is the result.
// When ctx ends it stops everything it started and says so in the result.
// Errors: only options that cannot be used; then nothing was done.
func Run(ctx context.Context, o Options) (Result, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Result{}, err
	}
	d := &demo{o: &o, names: "rsc-demo-" + strings.ToLower(rand.Text()[:nameLength]), began: time.Now()}
	d.display = &display{out: o.Out, size: o.Size, began: d.began}
	d.layout = newLayout(firstShards)
	d.journal = newJournal(d.began, mostShards, func(m move) {
		d.display.say("shard %d: %s → %s, %d ms", m.shard, m.from, m.to, m.idle.Milliseconds())
	})
	result := d.run(ctx)
	d.display.print(result.String())
	return result, nil
}

// nameLength is the length of the random part of the demo's names.
const nameLength = 10

// demo is one run.
type demo struct {
	o *Options
	// names begins the names of everything in Redis.
	names   string
	began   time.Time
	display *display
	journal *journal
	layout  *layout

	backend      *backend
	inspector    *inspector
	coordinators *coordinators
	api          *api
	fleet        *fleet
	traffic      *traffic
	watcher      *watcher

	// removed says that the coordinator was asked to delete the stream.
	removed bool
	// closers end what was started, the last first.
	closers    []func(ctx context.Context) error
	complaints []string
}

func (d *demo) stream() string { return d.names }

// onClose has something ended when the demo is over.
func (d *demo) onClose(end func(ctx context.Context) error) { d.closers = append(d.closers, end) }

func (d *demo) complain(err error) {
	if err != nil {
		d.complaints = append(d.complaints, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// run does it all.
func (d *demo) run(outer context.Context) (r Result) {
	ctx, fail := context.WithCancelCause(outer)
	defer fail(nil)
	err := d.open(ctx, fail)
	if err == nil {
		r.Figures, err = d.perform(ctx)
	}
	if outer.Err() != nil {
		err = fmt.Errorf("interrupted after %.1f s", time.Since(d.began).Seconds())
	}
	d.complain(err)
	d.close(context.WithoutCancel(outer))
	r.Complaints = d.complaints
	return r
}

// open starts Redis and the coordinators, and makes what needs them.
func (d *demo) open(ctx context.Context, fail func(error)) error {
	var err error
	warn := func(line string) { d.display.say("%s", line) }
	if d.backend, err = openBackend(ctx, d.o, warn, fail); err != nil {
		return err
	}
	d.onClose(d.backend.stop)
	d.display.say("Redis: %s", d.backend.about)
	if d.inspector, err = newInspector(d.backend, d.stream(), group, d.layout); err != nil {
		return err
	}
	d.onClose(func(context.Context) error { return d.inspector.close() })
	if err := d.inspector.reach(ctx); err != nil {
		return err
	}
	if d.backend.given {
		d.onClose(d.removeKeys)
	}

	if d.coordinators, err = newCoordinators(ctx, d.o, d.backend, d.names, warn, d.journal.rebalanced, fail); err != nil {
		return err
	}
	d.onClose(d.coordinators.close)
	if err := d.coordinators.startAll(ctx); err != nil {
		return err
	}
	t, b := d.o.Timings, d.o.bounds()
	for _, one := range d.coordinators.known() {
		d.display.say("%s: %s", one.name, one.url)
	}
	d.display.say("timings: a lease of %s, a heartbeat interval of %s, a tick of %s and a rebalance timeout of %s",
		t.Lease, t.HeartbeatInterval, d.o.Tick, t.RebalanceTimeout)
	d.display.say("bounds: a takeover within %s (lease + tick + heartbeat interval + %s), a pause of at most %s when a coordinator is away", b.takeover, d.o.slack, b.restartPause)
	d.api = newAPI(d.coordinators, d.stream(), group)
	d.onClose(func(context.Context) error { d.api.close(); return nil })
	if err := d.api.createStream(ctx, firstShards); err != nil {
		return err
	}
	if d.backend.given {
		d.onClose(func(ctx context.Context) error {
			if !d.coordinators.runs() {
				return nil // interrupted; the keys are removed all the same
			}
			d.removed = true
			return d.api.remove(ctx)
		})
	}
	d.display.say("stream: %s with %d shards", d.stream(), firstShards)
	return d.openClients(fail) //nolint:contextcheck // the producer and its route live until they are closed
}

// removeKeys removes what is left in a Redis that is not ours.
func (d *demo) removeKeys(ctx context.Context) error {
	left, err := d.inspector.remove(ctx, d.names)
	if err != nil {
		return fmt.Errorf("keys that begin with %s may be left in Redis: %w", d.names, err)
	}
	if d.removed && len(left) > 0 {
		return fmt.Errorf("the coordinator left keys behind when the stream was deleted, which are removed now: %s", strings.Join(left, ", "))
	}
	return nil
}

// openClients makes the producer and what starts consumers.
func (d *demo) openClients(fail func(error)) error {
	var err error
	log := newLineHandler(func(line string) { d.display.say("producer: %s", line) }, nil)
	if d.traffic, err = newTraffic(d.o, d.coordinators, d.backend, d.stream(), group, d.journal, log); err != nil {
		return err
	}
	d.onClose(d.traffic.close)
	d.fleet = &fleet{
		argv: append(d.o.Self[:len(d.o.Self):len(d.o.Self)], ConsumerCommand),
		orders: consumerOrders{
			Username: memberUser, Password: d.coordinators.passwords[memberUser],
			Stream: d.stream(), Group: group, RedisURL: d.backend.url, Embedded: d.backend.embedded,
			Work: d.o.work(),
		},
		coordinators: d.coordinators, journal: d.journal, say: d.display.say, failed: fail,
		kills: map[string]time.Duration{}, state: map[string]memberState{},
	}
	d.onClose(d.fleet.close)
	d.watcher = &watcher{api: d.api}
	p := &picture{journal: d.journal, layout: d.layout, fleet: d.fleet, watcher: d.watcher, coordinators: d.coordinators.known, length: d.o.length()}
	d.display.picture, d.display.status = p.lines, p.status
	return nil
}

// perform plays the story, lets everything come to its end, and works it up.
func (d *demo) perform(ctx context.Context) (Figures, error) {
	watching, stopWatching := context.WithCancel(ctx)
	enough := make(chan struct{})
	stopTraffic := sync.OnceFunc(func() { close(enough) })
	var watchers, flow sync.WaitGroup
	defer func() {
		stopTraffic()
		stopWatching()
		flow.Wait()
		watchers.Wait()
	}()
	watchers.Go(func() { d.watcher.run(watching) })
	watchers.Go(func() { d.display.run(watching) })
	s := &story{
		o: d.o, journal: d.journal, fleet: d.fleet, watcher: d.watcher, coordinators: d.coordinators,
		api: d.api, inspector: d.inspector, layout: d.layout, say: d.display.say, burst: d.traffic.burst,
		startTraffic: func() { flow.Go(func() { d.traffic.run(ctx, enough) }) },
	}
	played := s.play(ctx)
	if ctx.Err() != nil {
		return Figures{}, context.Cause(ctx)
	}
	stopTraffic()
	flow.Wait()
	d.display.say("no more records; waiting for what is left")
	drained := d.drain(ctx)
	if ctx.Err() != nil {
		return Figures{}, context.Cause(ctx)
	}
	d.complain(played)
	d.complain(drained)
	leaving := time.Now()
	d.complain(d.fleet.close(ctx))
	if played == nil {
		d.complain(d.awaitGoodbyes(ctx))
	}
	d.display.say("the consumers let go, said goodbye and ended in %d ms", time.Since(leaving).Milliseconds())
	return d.account(ctx, s)
}

// drain waits until every record is acknowledged. What is left at its end is
// for the accounting to tell.
func (d *demo) drain(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drainTimeout, fmt.Errorf("the consumers were not done %s after the last record", drainTimeout))
	defer cancel()
	for {
		pending, unread, err := d.inspector.backlog(ctx)
		if err == nil && pending+unread == 0 {
			return nil
		}
		if err := sleep(ctx, look); err != nil {
			return err
		}
	}
}

// awaitGoodbyes waits until a coordinator knows that nobody is left. The wait is half a
// lease: the end of one would hide that nobody was told.
func (d *demo) awaitGoodbyes(ctx context.Context) error {
	patience := d.o.Timings.Lease / 2
	for since := time.Now(); ; {
		g, _, err := d.api.describe(ctx)
		switch {
		case err == nil && g.State == protocol.GroupEmpty:
			return nil
		case time.Since(since) > patience:
			return errors.Join(fmt.Errorf("the group is still %s %s after all consumers left", g.State, patience), err)
		}
		if err := sleep(ctx, look); err != nil {
			return err
		}
	}
}

// account compares all that is known.
func (d *demo) account(ctx context.Context, s *story) (Figures, error) {
	e := d.journal.evidence()
	e.kills, e.restart, e.bounds, e.reshards = d.fleet.kills, s.restart, d.o.bounds(), s.reshards
	for shard := d.layout.shards().read; shard < mostShards; shard++ {
		e.gone = append(e.gone, shard)
	}
	var err error
	if e.pending, e.unread, err = d.inspector.backlog(ctx); err != nil {
		return Figures{}, err
	}
	if e.stored, err = d.inspector.records(ctx); err != nil {
		return Figures{}, err
	}
	inRedis := len(e.stored)
	figures, complaints := account(e)
	d.complaints = append(d.complaints, complaints...)
	d.complain(d.journal.unreadable)
	if len(e.refused) > 0 {
		d.complain(fmt.Errorf("the first record that was refused: %w", d.journal.refusal))
	}
	if drift := d.journal.drift(); drift > maxDrift {
		d.complain(fmt.Errorf("the clock of this machine was set by %s meanwhile, which spoils what was measured between processes: run the demo again", drift))
	}
	d.display.say("checked against Redis: %d records in the streams, %d pending, %d never handed out; %d more were in shards that are gone",
		inRedis, e.pending, e.unread, len(e.stored)-inRedis)
	d.display.say("measured: %d hand-overs, %d shards taken over, %d shards through the restart", figures.Handovers, figures.Takeovers, figures.Steady)
	if figures.Uncertain > 0 {
		d.display.say("%d records were sent without an answer, of which %d are stored", figures.Uncertain, figures.UncertainStored)
	}
	return figures, nil
}

// close ends everything, the last thing that was started first.
func (d *demo) close(ctx context.Context) {
	for len(d.closers) > 0 {
		last := len(d.closers) - 1
		end := d.closers[last]
		d.closers = d.closers[:last]
		func() {
			ctx, cancel := context.WithTimeout(ctx, 2*patience)
			defer cancel()
			d.complain(end(ctx))
		}()
	}
}
