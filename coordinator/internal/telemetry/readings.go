package telemetry

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// The bounds of what is read for scrapes.
const (
	// readers read at once; keysPerRead bounds the shards of one read.
	readers     = 8
	keysPerRead = 500
	// maxShardsRead bounds the shards of all groups that are looked at, each group of a
	// stream for itself. Those beyond have an unknown lag.
	maxShardsRead = 20_000
)

// errNotRead stands for what there was no time or room to read.
var errNotRead = errors.New("not read")

// readings keeps the last reading for a moment.
type readings struct {
	mu   sync.Mutex
	last *reading
	at   time.Duration
}

// reading is what was read from the store and from Redis for a scrape.
type reading struct {
	groups map[port.GroupKey]*groupReading
}

// groupReading is the part of one group. A nil one is empty.
type groupReading struct {
	// at is when it was read.
	at      time.Time
	reports map[string]engine.MemberReport
	// states are those of the shards by their index, empty where they were not read.
	states []port.ShardState
}

func (r *reading) of(key port.GroupKey) *groupReading { return r.groups[key] }

func (g *groupReading) report(life string) (engine.MemberReport, bool) {
	if g == nil {
		return engine.MemberReport{}, false
	}
	r, said := g.reports[life]
	return r, said
}

func (g *groupReading) reportsOf() map[string]engine.MemberReport {
	if g == nil {
		return nil
	}
	return g.reports
}

// shard returns nil where the shard was not looked at.
func (g *groupReading) shard(i int) *port.ShardState {
	if g == nil || i >= len(g.states) {
		return nil
	}
	return &g.states[i]
}

// get returns a reading that is used again no longer than the limits say.
func (r *readings) get(ctx context.Context, t *Telemetry, within limits, w *World, looks []service.GroupLook) *reading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last != nil && t.now()-r.at < within.reuse {
		return r.last
	}
	ctx, done := context.WithTimeout(ctx, within.read)
	defer done()
	r.last = read(ctx, t, w, looks)
	r.at = t.now()
	return r.last
}

// read reads all that scrapes need, at once where it can.
func read(ctx context.Context, t *Telemetry, w *World, looks []service.GroupLook) *reading {
	r := &reading{groups: map[port.GroupKey]*groupReading{}}
	var jobs []func()
	shardsLeft := maxShardsRead
	for i := range looks {
		if looks[i].View == nil {
			continue
		}
		key, state := looks[i].Key, looks[i].View.State
		g := &groupReading{at: time.Now()}
		r.groups[key] = g
		jobs = append(jobs, func() { g.readReports(ctx, t, w, key) })
		if w.Streams == nil || len(state.Target) > shardsLeft {
			continue
		}
		shardsLeft -= len(state.Target)
		jobs = append(jobs, g.readShards(ctx, t, w, state)...)
	}
	runAll(jobs)
	return r
}

// runAll does jobs, a few at a time.
func runAll(jobs []func()) {
	next := make(chan func())
	var workers sync.WaitGroup
	for range min(readers, len(jobs)) {
		workers.Go(func() {
			for job := range next {
				job()
			}
		})
	}
	for _, job := range jobs {
		next <- job
	}
	close(next)
	workers.Wait()
}

func (g *groupReading) readReports(ctx context.Context, t *Telemetry, w *World, key port.GroupKey) {
	bodies, err := w.Store.Reports(ctx, key)
	if err != nil {
		t.unreadable(ctx, sourceReports, key.String(), err)
		return
	}
	g.reports = make(map[string]engine.MemberReport, len(bodies))
	for life, body := range bodies {
		// A report is for display: one that cannot be read is as good as none.
		if r, err := engine.DecodeReport(body); err == nil {
			g.reports[life] = r
		}
	}
}

// readShards returns the jobs that look at the shards of a group.
func (g *groupReading) readShards(ctx context.Context, t *Telemetry, w *World, state *group.State) (jobs []func()) {
	states := make([]port.ShardState, len(state.Target))
	for i := range states {
		states[i].Err = errNotRead
	}
	g.states = states
	for first := 0; first < len(states); first += keysPerRead {
		end := min(first+keysPerRead, len(states))
		jobs = append(jobs, func() {
			keys := make([]string, 0, end-first)
			for i := first; i < end; i++ {
				keys = append(keys, routing.StreamKey(state.Stream, i))
			}
			found, err := w.Streams.InspectShards(ctx, port.ShardQuery{Keys: keys, Group: state.Group, Memory: true})
			if err != nil {
				t.unreadable(ctx, sourceOffsets, state.Stream+"/"+state.Group, err)
				return
			}
			copy(states[first:end], found)
		})
	}
	return jobs
}

// unreadable counts what could not be read for a scrape.
func (t *Telemetry) unreadable(ctx context.Context, source, what string, err error) {
	t.process.unreadable(ctx, source)
	t.log.DebugContext(ctx, "not all could be read for the metrics", "source", source, "of", what, "err", err)
}
