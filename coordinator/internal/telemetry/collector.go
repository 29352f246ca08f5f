package telemetry

import (
	"context"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// Coordinator is what is looked at for a scrape; a *service.Coordinator is one.
type Coordinator interface {
	Look(ctx context.Context) []service.GroupLook
	TurnedAway() map[protocol.Status]uint64
	Health(ctx context.Context) protocol.Health
	LoopAge() time.Duration
	LookStreams() []service.StreamLook
}

// World is what series are made of when they are asked for.
type World struct {
	Coordinator Coordinator
	// Store has what members say of themselves.
	Store port.Store
	// Streams looks at the shards; nil where there is no Redis to look at.
	Streams port.Inspector
	// Retention is how long members that expired are counted.
	Retention time.Duration
	// Loop says that the coordinator runs its event loop.
	Loop bool
}

// Watch has scrapes look at a world from now on.
func (t *Telemetry) Watch(w World) { t.scrape.world.Store(&w) }

// limits bound a scrape. Prometheus gives up after ten seconds unless it is told
// otherwise; what could not be read by then is missing.
type limits struct {
	// look bounds the look at the coordinator, read that at the store and Redis.
	look, read time.Duration
	// reuse is how long a reading is used again, so that several scrapers cost as much
	// as one.
	reuse time.Duration
}

var usualLimits = limits{look: time.Second, read: 3 * time.Second, reuse: 2 * time.Second}

var (
	up            = gauge("up", "1 while the coordinator can work.")
	storeUp       = gauge("store_up", "1 while the metadata store can be reached.")
	streamsUp     = gauge("streams_redis_up", "1 while the Redis of the streams can be reached.")
	buildInfo     = gauge("build_info", "Always 1; the labels say what runs.")
	ticks         = counter("tick_total", "Rounds of the event loop.")
	tickDuration  = summary("tick_duration_seconds", "How long the rounds of the event loop took.")
	tickLongest   = gauge("tick_duration_seconds_max", "The longest round of the last one to two minutes.")
	tickAge       = gauge("tick_age_seconds", "Time since the last round of the event loop.")
	refused       = counter("request_refused_total", "Requests that were answered with an error, by its code.")
	requestCount  = counter("api_request_total", "Requests under the base path.")
	requestTook   = summary("api_request_duration_seconds", "How long requests took.")
	requestMax    = gauge("api_request_duration_seconds_max", "The longest request of the last one to two minutes.")
	heartbeats    = counter("heartbeat_total", "Heartbeats by the status they were answered with.")
	routingReads  = counter("producer_routing_request_total", "Reads of the routing.")
	scales        = counter("scale_request_total", "Requests to change a shard count.")
	scalesFailed  = counter("scale_request_failed_total", "Requests to change a shard count that failed.")
	streamShards  = gauge("stream_shards", "The shard count that producers route by.")
	migrating     = gauge("migration_active", "1 while the shard count is being changed.")
	migratingAge  = gauge("migration_active_age_seconds", "Time since the change of the shard count was asked for.")
	drainsLeft    = gauge("drain_remaining_shards", "Removed shards that are still there.")
	drainsBlocked = gauge("drain_blocked_shards", "Removed shards that something keeps from being retired.")
	migrations    = counter("migration_total", "Migrations that came to a state.")
)

const (
	// none stands for a stream or group that does not exist.
	none = "none"
	// wholeStream stands for the group where a stream was scaled by its own name.
	wholeStream = "stream"
)

// collector makes the series of groups, members and shards, and whatever else is not
// an instrument.
type collector struct {
	t        *Telemetry
	base     labels
	version  string
	limits   limits
	world    atomic.Pointer[World]
	readings readings
}

func newCollector(t *Telemetry, o Options) *collector {
	return &collector{t: t, base: labels(nil).with("coordinator", o.ID), version: o.Version, limits: usualLimits}
}

// Describe implements prometheus.Collector: with nothing, because which series there
// are shows when they are asked for.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := new(sink)
	c.ownProcess(s)
	c.requests(s, c.t.strangers, none, none)
	if w := c.world.Load(); w != nil {
		c.all(context.Background(), s, w)
	}
	for _, m := range s.metrics {
		ch <- m
	}
}

// all makes the series of what the coordinator knows.
func (c *collector) all(ctx context.Context, s *sink, w *World) {
	c.coordinator(ctx, s, w)
	asking, done := context.WithTimeout(ctx, c.limits.look)
	looks := w.Coordinator.Look(asking)
	done()
	r := c.readings.get(ctx, c.t, c.limits, w, looks)
	for i := range looks {
		c.group(s, w, &looks[i], r)
	}
	c.streams(s, w.Coordinator.LookStreams())
}

// ownProcess makes the series that concern no group.
func (c *collector) ownProcess(s *sink) {
	s.put(buildInfo, c.base.with("version", c.version, "go_version", runtime.Version()), 1)
	now := c.t.now()
	for _, round := range []struct {
		changed string
		*latency
	}{{"false", &c.t.rounds.unchanged}, {"true", &c.t.rounds.changed}} {
		l, r := c.base.with("changed", round.changed), round.report(now)
		s.count(ticks, l, r.count)
		s.durations(tickDuration, tickLongest, l, r, false)
	}
	c.t.refusals.each(func(code string, n uint64) { s.count(refused, c.base.with("code", code), n) })
}

// coordinator makes the series about the coordinator as a whole.
func (c *collector) coordinator(ctx context.Context, s *sink, w *World) {
	h := w.Coordinator.Health(ctx)
	s.put(up, c.base, number(h.Status != protocol.HealthDown))
	s.put(storeUp, c.base, number(h.Store == "UP"))
	if h.Redis != "NOT_CONFIGURED" {
		s.put(streamsUp, c.base, number(h.Redis == "UP"))
	}
	if w.Loop {
		s.put(tickAge, c.base, w.Coordinator.LoopAge().Seconds())
	}
	for status, n := range w.Coordinator.TurnedAway() {
		s.count(heartbeats, c.base.with("stream", none, "group", none, "status", string(status)), n)
	}
}

// requests makes the series of the requests about a group.
func (c *collector) requests(s *sink, g *groupStats, prefix, name string) {
	now := c.t.now()
	g.requests.each(func(k requestKind, l *latency) {
		all := c.base.with("stream", prefix, "group", name, "method", k.method, "route", k.route,
			"status", strconv.Itoa(k.status), "outcome", outcomeOf(k.status))
		r := l.report(now)
		s.count(requestCount, all, r.count)
		s.durations(requestTook, requestMax, all, r, true)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	c.byStatus(s, routingReads, prefix, name, g.routed)
	c.scaled(s, prefix, name, g.scaled)
}

func (c *collector) byStatus(s *sink, f *family, prefix, name string, counts map[string]uint64) {
	for status, n := range counts {
		s.count(f, c.base.with("stream", prefix, "group", name, "status", status), n)
	}
}

func (c *collector) scaled(s *sink, prefix, name string, counts map[string]uint64) {
	c.byStatus(s, scales, prefix, name, counts)
	if n, failed := counts[failure]; failed {
		c.byStatus(s, scalesFailed, prefix, name, map[string]uint64{failure: n})
	}
}

// streams makes the series of streams, and of what changes their shards.
func (c *collector) streams(s *sink, looks []service.StreamLook) {
	now := time.Now()
	for i := range looks {
		st := &looks[i]
		all := c.base.with("stream", st.Prefix)
		s.put(streamShards, all, float64(st.ShardCount))
		s.put(drainsLeft, all, float64(st.Removed().Len()))
		s.put(drainsBlocked, all, float64(st.Blocked))
		age := 0.0
		m, open := st.Migrating()
		if open {
			age = max(0, now.Sub(m.CreatedAt).Seconds())
		}
		for _, g := range st.Groups {
			if g.Phase != stream.GroupLive {
				continue
			}
			of := c.base.with("stream", st.Prefix, "group", g.Name)
			s.put(migrating, of, number(open))
			s.put(migratingAge, of, age)
		}
	}
	c.t.streams.each(looks, func(prefix string, st *streamStats) {
		c.scaled(s, prefix, wholeStream, st.scaled)
		for state, n := range st.states {
			s.count(migrations, c.base.with("stream", prefix, "state", string(state)), n)
		}
	})
}
