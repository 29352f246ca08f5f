package telemetry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// patience bounds the waits of these tests; nothing waits that long.
const patience = 3 * time.Minute

// slow are timings by which nothing ends while a test runs, on the slowest machine.
var slow = protocol.Timings{HeartbeatInterval: time.Second, Lease: 10 * time.Minute, RebalanceTimeout: 10 * time.Minute}

// world is a coordinator that is measured, with members, and the streams that it thinks
// of.
type world struct {
	*Telemetry
	c       *service.Coordinator
	store   *countingStore
	streams *pretended
	// good counts the heartbeats that were answered OK.
	good atomic.Int64
	// halt ends the event loop.
	halt func()
}

// newWorld starts a coordinator on a store in memory.
func newWorld(tb testing.TB, change ...func(*service.Config)) *world {
	tb.Helper()
	store, streams := &countingStore{Store: memstore.New()}, new(pretended)
	w := newWorldOn(tb, service.Ports{Store: store, Streams: streams, Inspector: streams}, change...)
	w.store, w.streams = store, streams
	return w
}

// newWorldOn starts a coordinator on ports.
func newWorldOn(tb testing.TB, ports service.Ports, change ...func(*service.Config)) *world {
	tb.Helper()
	t, err := New(tb.Context(), Options{ID: "c-1", Version: "v0"})
	if err != nil {
		tb.Fatal(err)
	}
	// Nothing is missing from a scrape, or read again, because the test stood still.
	t.scrape.limits = limits{look: patience, read: patience, reuse: time.Hour}
	w := &world{Telemetry: t}
	cfg := service.Config{ID: "c-1", Timings: slow, Logger: slog.New(slog.DiscardHandler), TickInterval: 20 * time.Millisecond}
	for _, c := range change {
		c(&cfg)
	}
	t.Hook(&cfg)
	ports.Mutex = new(memstore.Mutex)
	ports = t.Ports(ports)
	if w.c, err = service.New(cfg, ports); err != nil {
		tb.Fatal(err)
	}
	t.Watch(World{Coordinator: w.c, Store: ports.Store, Streams: ports.Inspector, Retention: time.Minute, Loop: true})
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = w.c.Run(ctx) })
	w.halt = func() {
		stop()
		running.Wait()
	}
	tb.Cleanup(func() {
		w.halt()
		ending, done := context.WithTimeout(context.Background(), patience)
		defer done()
		if err := errors.Join(w.c.Close(ending), t.Close(ending)); err != nil {
			tb.Error(err)
		}
	})
	return w
}

// stream makes a stream.
func (w *world) stream(tb testing.TB, prefix string, shards int) {
	tb.Helper()
	if _, err := w.c.CreateStream(tb.Context(), prefix, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"}); err != nil {
		tb.Fatal(err)
	}
}

// member is a client that does what it is told.
type member struct {
	id   string
	last protocol.HeartbeatResponse
}

func (m *member) next(prefix string) *protocol.Heartbeat {
	q := &protocol.Heartbeat{
		ProtocolVersion: protocol.Version, RequestID: "r", MemberID: m.id, Incarnation: "life-of-" + m.id,
		MemberEpoch: m.last.MemberEpoch, MetadataVersion: m.last.MetadataVersion, OwnedShards: protocol.Shards{},
		Capacity: protocol.Capacity{MaxConcurrency: 4, AvailableConcurrency: 3},
	}
	for _, a := range m.last.Assignment.AssignedShards {
		q.OwnedShards = append(q.OwnedShards, a.Shard)
		q.ShardProgress = append(q.ShardProgress, protocol.ShardProgress{
			Shard: a.Shard, StreamKey: routing.StreamKey(prefix, int(a.Shard)), LastDeliveredID: "1700000000000-3", LastAckedID: "1700000000000-2",
			PendingCount: 1, UpdatedAt: time.Now().UTC().Format(time.RFC3339Nano),
		})
	}
	return q
}

func (w *world) beat(tb testing.TB, prefix, name string, m *member) {
	m.last = w.c.Heartbeat(tb.Context(), prefix, name, m.next(prefix))
	if m.last.Status == protocol.StatusOK {
		w.good.Add(1)
	}
}

// roundDone waits until the event loop has gone round, and done all that it does then.
func (w *world) roundDone(tb testing.TB) {
	tb.Helper()
	eventually(tb, "the event loop goes round", func() bool {
		f := w.scrape(tb)
		n, _ := value(f, "tick_total", "changed", "false")
		for _, op := range []string{opIdentity, opListGroups, opListStreams} {
			calls, _ := value(f, "store_operation_duration_seconds", "operation", op)
			n = min(n, calls)
		}
		return n >= 1
	})
}

// settle has members join the group billing and heartbeat until all is where it is to
// be.
func (w *world) settle(tb testing.TB, prefix string, members ...*member) {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; {
		var all sync.WaitGroup
		for _, m := range members {
			all.Go(func() { w.beat(tb, prefix, "billing", m) })
		}
		all.Wait()
		g, err := w.c.Group(tb.Context(), prefix, "billing")
		if err == nil && g.State == protocol.GroupStable {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("group billing of %s is %+v, %v", prefix, g, err)
		}
	}
}

func crowd(n int) []*member {
	all := make([]*member, n)
	for i := range all {
		all[i] = &member{id: fmt.Sprintf("member-%05d", i)}
	}
	return all
}

// countingStore counts the reads of reports.
type countingStore struct {
	port.Store
	reports atomic.Int64
}

func (s *countingStore) Reports(ctx context.Context, key port.GroupKey) (map[string][]byte, error) {
	s.reports.Add(1)
	return s.Store.Reports(ctx, key)
}

// pretended are streams that nobody has: they answer with numbers made of the shard's
// index, and count what they are asked.
type pretended struct {
	asked, keys atomic.Int64
	// down makes every look fail.
	down atomic.Bool
	// unknown is the key whose lag nobody knows.
	unknown atomic.Pointer[string]
}

var _ port.Streams = (*pretended)(nil)

func (*pretended) Provision(context.Context, port.Provision) error             { return nil }
func (*pretended) Remove(context.Context, string, int, int) error              { return nil }
func (*pretended) RemoveGroup(context.Context, string, string, int, int) error { return nil }
func (*pretended) Ping(context.Context) error                                  { return nil }
func (*pretended) ReadEntries(context.Context, []port.EntryRange) ([]port.EntryPage, error) {
	return nil, nil
}

func (p *pretended) InspectShards(_ context.Context, q port.ShardQuery) ([]port.ShardState, error) {
	p.asked.Add(1)
	p.keys.Add(int64(len(q.Keys)))
	if p.down.Load() {
		return nil, errors.New("the Redis is away")
	}
	states := make([]port.ShardState, len(q.Keys))
	for i, key := range q.Keys {
		index, err := strconv.ParseInt(key[strings.LastIndexByte(key, ':')+1:], 10, 64)
		if err != nil {
			return nil, err
		}
		states[i] = port.ShardState{
			Exists: true, Length: index + 10, Added: index + 100, MemoryBytes: 1000 + index,
			LastID: "1700000000000-9", LastGeneratedID: "1700000000001-0",
			Group: &port.GroupPosition{Pending: 2, LastDeliveredID: "1700000000000-4", Undelivered: index, Exact: true, Estimate: index, OldestAge: time.Second},
		}
		if unknown := p.unknown.Load(); unknown != nil && *unknown == key {
			states[i].Group.Exact = false
		}
	}
	return states, nil
}

// scrape returns what a scrape shows, by name.
func (w *world) scrape(tb testing.TB) map[string]*dto.MetricFamily {
	tb.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(w.text(tb)))
	if err != nil {
		tb.Fatal(err)
	}
	return families
}

// text returns a scrape as it is sent.
func (w *world) text(tb testing.TB) string {
	tb.Helper()
	answer := httptest.NewRecorder()
	w.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(tb.Context(), "GET", "/metrics", nil))
	if answer.Code != 200 {
		tb.Fatalf("%d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}

// fresh makes the next scrape read anew.
func (w *world) fresh() {
	w.Telemetry.scrape.readings.mu.Lock()
	defer w.Telemetry.scrape.readings.mu.Unlock()
	w.Telemetry.scrape.readings.last = nil
}

// value finds the series of a name whose labels are as given, in pairs; ok is false
// where there is none.
func value(families map[string]*dto.MetricFamily, name string, pairs ...string) (v float64, ok bool) {
	f := families[prefix+name]
	for _, m := range f.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		fits := true
		for i := 0; i < len(pairs); i += 2 {
			fits = fits && labels[pairs[i]] == pairs[i+1]
		}
		if fits {
			switch {
			case m.GetGauge() != nil:
				return m.GetGauge().GetValue(), true
			case m.GetCounter() != nil:
				return m.GetCounter().GetValue(), true
			case m.GetSummary() != nil:
				return float64(m.GetSummary().GetSampleCount()), true
			case m.GetHistogram() != nil:
				return float64(m.GetHistogram().GetSampleCount()), true
			}
		}
	}
	return 0, false
}

// want checks the value of a series.
func want(tb testing.TB, families map[string]*dto.MetricFamily, expected float64, name string, pairs ...string) {
	tb.Helper()
	if v, ok := value(families, name, pairs...); !ok || v != expected {
		tb.Errorf("%s%v is %g (there: %v), want %g", name, pairs, v, ok, expected)
	}
}

// eventually waits until something is true.
func eventually(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %s", patience, what)
		}
	}
}

// seriesOf counts the series whose text contains something.
func seriesOf(text, part string) int {
	n := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") && strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// lines counts the series of a scrape.
func lines(text string) int { return bytes.Count([]byte(text), []byte("\n")) }
