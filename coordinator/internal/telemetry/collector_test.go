package telemetry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	httpapi "github.com/redis-stream-coordinator/rsc/adapters/http"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// What a scrape says of a group is what is so.
func TestScrapeSaysWhatIsSo(t *testing.T) {
	w := newWorld(t)
	w.stream(t, "orders", 4)
	a, b := &member{id: "a"}, &member{id: "b"}
	w.settle(t, "orders", a)
	w.settle(t, "orders", a, b)
	w.beat(t, "orders", "billing", a)
	w.roundDone(t)
	eventually(t, "store and Redis answer in time", func() bool {
		h := w.c.Health(t.Context())
		return h.Store == "UP" && h.Redis == "UP"
	})
	w.fresh()
	of := []string{"stream", "orders", "group", "billing", "coordinator", "c-1"}
	with := func(more ...string) []string { return append(append([]string(nil), of...), more...) }
	f := w.scrape(t)
	want(t, f, 1, "up")
	want(t, f, 1, "store_up")
	want(t, f, 1, "streams_redis_up")
	want(t, f, 2, "members", with("state", "active")...)
	want(t, f, 2, "members", with("state", "total")...)
	want(t, f, 0, "members", with("state", "expired")...)
	want(t, f, 4, "group_shards", of...)
	want(t, f, 0, "shards_without_owner", of...)
	want(t, f, 0, "revoke_pending", of...)
	want(t, f, 0, "correction_open", of...)
	want(t, f, 0, "invariant_violations", of...)
	want(t, f, 2, "member_joined_total", of...)
	want(t, f, 6, "shard_granted_total", of...)
	want(t, f, 2, "shard_revoked_total", of...)
	want(t, f, 2, "shard_released_total", with("cause", "omitted")...)
	want(t, f, 2, "rebalance_total", with("reason", "reconcile")...)
	want(t, f, 2, "rebalance_duration_seconds", with("reason", "reconcile")...)
	want(t, f, 2, "rebalance_moved_shards_total", of...)
	want(t, f, 2, "shard_handover_duration_seconds", of...)
	want(t, f, 6, "shard_ownerless_duration_seconds", of...)
	want(t, f, 0+1+2+3, "group_lag", of...)
	want(t, f, 1, "group_lag_known", of...)
	want(t, f, 8, "group_pending", of...)
	want(t, f, 4, "stream_shards", "stream", "orders")
	want(t, f, 0, "migration_active", of...)
	for _, m := range []string{"a", "b"} {
		mine := with("member", m)
		want(t, f, 1, "member_active", mine...)
		want(t, f, 2, "member_granted_shards", mine...)
		want(t, f, 0, "member_revoking_shards", mine...)
		want(t, f, 4, "member_runtime_max_concurrency", mine...)
		want(t, f, 1, "member_active_workers", mine...)
		age, _ := value(f, "member_heartbeat_age_seconds", mine...)
		left, ok := value(f, "member_lease_remaining_seconds", mine...)
		if lease := slow.Lease.Seconds(); !ok || age < 0 || left <= 0 || age+left < lease-0.001 || age+left > lease+0.001 {
			t.Errorf("member %s: heartbeat %g s ago, %g s of its lease left", m, age, left)
		}
	}
	third := with("shard", "3", "stream_key", "orders:3")
	want(t, f, 3, "shard_lag", third...)
	want(t, f, 1, "shard_lag_known", third...)
	want(t, f, 2, "shard_pending", third...)
	want(t, f, 13, "shard_stream_length", third...)
	want(t, f, 103, "shard_entries_added_total", third...)
	want(t, f, 1003, "shard_memory_usage_bytes", third...)
	want(t, f, 9, "shard_last_record_seq", third...)
	want(t, f, 1700000000001, "shard_last_generated_ms", third...)
	want(t, f, 4, "shard_group_last_delivered_seq", third...)
	if _, there := value(f, "shard_without_owner_seconds", of...); there {
		t.Error("a shard is without owner")
	}
	want(t, f, float64(w.good.Load()), "heartbeat_total", with("status", "OK")...)
	if n, _ := value(f, "store_operation_duration_seconds", "operation", "save-group"); n < 1 {
		t.Errorf("%g saves are counted", n)
	}
}

// Where the store has lost the proof of heartbeats, their age is not known. What is
// left of the leases is: they count from the loss.
func TestHeartbeatsThatAreLostHaveNoAge(t *testing.T) {
	w := newWorld(t)
	w.stream(t, "orders", 4)
	a := &member{id: "a"}
	w.settle(t, "orders", a)
	key := port.GroupKey{Stream: "orders", Group: "billing"}
	r, err := w.store.LoadGroup(t.Context(), key, port.Version{})
	if err != nil || len(r.Stamps) != 1 {
		t.Fatalf("%v, %v", r.Stamps, err)
	}
	var gone []port.Stamp
	for life := range r.Stamps {
		gone = append(gone, port.Stamp{Life: life})
	}
	if err := w.store.RenewGroup(t.Context(), key, port.Renewal{Expected: r.Version, Stamps: gone}); err != nil {
		t.Fatal(err)
	}
	mine := []string{"stream", "orders", "group", "billing", "member", "a"}
	eventually(t, "the age is not known", func() bool {
		w.fresh()
		f := w.scrape(t)
		left, leased := value(f, "member_lease_remaining_seconds", mine...)
		_, aged := value(f, "member_heartbeat_age_seconds", mine...)
		return leased && left > 0 && !aged
	})
	w.beat(t, "orders", "billing", a)
	w.fresh()
	if _, aged := value(w.scrape(t), "member_heartbeat_age_seconds", mine...); !aged {
		t.Error("the age of a new heartbeat is not known")
	}
}

// Where a lag is not known, nothing stands for it.
func TestUnknownLagIsNotZero(t *testing.T) {
	w := newWorld(t)
	w.stream(t, "orders", 3)
	w.settle(t, "orders", &member{id: "a"})
	key := "orders:1"
	w.streams.unknown.Store(&key)
	f := w.scrape(t)
	want(t, f, 1, "shard_lag_known", "shard", "0")
	want(t, f, 0, "shard_lag_known", "shard", "1")
	want(t, f, 2, "shard_lag", "shard", "2")
	want(t, f, 0, "group_lag_known", "group", "billing")
	for _, absent := range [][]string{{"shard_lag", "shard", "1"}, {"group_lag"}} {
		if v, there := value(f, absent[0], absent[1:]...); there {
			t.Errorf("%v is %g, must be absent", absent, v)
		}
	}
	w.streams.down.Store(true)
	w.fresh()
	f = w.scrape(t)
	want(t, f, 0, "shard_lag_known", "shard", "2")
	want(t, f, 0, "group_lag_known", "group", "billing")
	for _, absent := range []string{"shard_lag", "shard_stream_length", "shard_pending", "group_lag", "group_pending"} {
		if v, there := value(f, absent); there {
			t.Errorf("%s is %g, must be absent", absent, v)
		}
	}
	want(t, w.scrape(t), 1, "scrape_failed_total", "source", "offsets")
}

// A group that was deleted has no series at the next scrape, and neither has a member
// that left.
func TestWhatIsGoneHasNoSeries(t *testing.T) {
	w := newWorld(t)
	w.stream(t, "orders", 2)
	a, b := &member{id: "stays"}, &member{id: "leaves"}
	w.settle(t, "orders", a, b)
	w.Served(httpapi.Served{Method: "GET", Route: "/x", Stream: "orders", Group: "billing", Status: 200, Took: time.Millisecond})
	if n := seriesOf(w.text(t), `member="leaves"`); n == 0 {
		t.Fatal("a member has no series")
	}
	b.last.MemberEpoch, b.last.Assignment.AssignedShards = protocol.EpochLeave, nil
	eventually(t, "the member has left", func() bool {
		w.beat(t, "orders", "billing", b)
		w.beat(t, "orders", "billing", a)
		return b.last.Status == protocol.StatusUnknownMember
	})
	w.fresh()
	if n := seriesOf(w.text(t), `member="leaves"`); n != 0 {
		t.Errorf("a member that left has %d series", n)
	}
	if _, err := w.c.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "test", Force: true}); err != nil {
		t.Fatal(err)
	}
	if n := seriesOf(w.text(t), `group="billing"`); n != 0 {
		t.Errorf("a deleted group has %d series", n)
	}
	eventually(t, "a deleted group is forgotten", func() bool { return w.known(port.GroupKey{Stream: "orders", Group: "billing"}) == nil })
	if _, err := w.c.DeleteStream(t.Context(), "orders", protocol.Delete{RequestedBy: "test", Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	if n := seriesOf(w.text(t), `stream="orders"`); n != 0 {
		t.Errorf("a deleted stream has %d series", n)
	}
}

// Whoever asks for things that do not exist makes no series, and nothing grows.
func TestUnknownNamesMakeNoSeries(t *testing.T) {
	w := newWorld(t)
	w.stream(t, "orders", 2)
	w.settle(t, "orders", &member{id: "a"})
	handler, err := httpapi.New(httpapi.Config{
		Observe: w.Served,
		Access:  httpapi.Access{Users: []httpapi.User{{Username: "u", Password: "p", Roles: []httpapi.Role{httpapi.RoleAdmin}}}},
	}, w.API(w.c))
	if err != nil {
		t.Fatal(err)
	}
	call := func(method, path, body string) {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	some := func(from, to int) {
		for i := from; i < to; i++ {
			name := fmt.Sprintf("name-%06d", i)
			beat, err := json.Marshal((&member{id: "m"}).next(name))
			if err != nil {
				t.Fatal(err)
			}
			call("POST", "/coord/v1/streams/"+name+"/groups/"+name+"/members/m/heartbeat", string(beat))
			if i%10 == 0 {
				call("GET", "/coord/v1/streams/"+name+"/groups/"+name+"/producer-routing", "")
				call("GET", "/coord/v1/"+name, "")
				call("X"+name, "/coord/v1/streams", "")
				// Of a stream that exists, too.
				late := &member{id: "m"}
				late.last.MemberEpoch = 5
				if beat, err = json.Marshal(late.next(name)); err != nil {
					t.Fatal(err)
				}
				call("POST", "/coord/v1/streams/orders/groups/"+name+"/members/m/heartbeat", string(beat))
			}
		}
	}
	some(0, 200)
	w.roundDone(t)
	w.text(t) // it measures what it reads itself
	before, used := lines(w.text(t)), heap()
	some(200, 10_200)
	after, now := lines(w.text(t)), heap()
	if after != before {
		t.Errorf("%d lines of metrics became %d", before, after)
	}
	if now > used+4<<20 {
		t.Errorf("%d bytes became %d", used, now)
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	if len(w.groups) != 1 {
		t.Errorf("%d groups are remembered", len(w.groups))
	}
	if n, ok := value(w.scrape(t), "heartbeat_total", "stream", none, "group", none, "status", string(protocol.StatusUnknownMember)); !ok || n < 10_000 {
		t.Errorf("%g heartbeats of strangers are counted", n)
	}
}

// heap is what lives, after two collections: the first may only have begun to free.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Groups may have the names that stand for something else in labels.
func TestNamesThatLabelsUse(t *testing.T) {
	w := newWorld(t)
	api := w.API(w.c)
	three := 3
	for _, key := range []port.GroupKey{{Stream: none, Group: none}, {Stream: "orders", Group: wholeStream}, {Stream: "orders", Group: none}} {
		if _, err := w.c.CreateGroup(t.Context(), key.Stream, key.Group, protocol.CreateGroup{RequestedBy: "test"}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the group answers", func() bool {
			late := &member{id: "late"}
			late.last.MemberEpoch = 5
			w.beat(t, key.Stream, key.Group, late)
			return late.last.Status == protocol.StatusUnknownMember
		})
		w.Served(httpapi.Served{Method: "GET", Route: "/x", Stream: key.Stream, Group: key.Group, Status: 200})
		if _, err := api.ScaleGroup(t.Context(), key.Stream, key.Group, protocol.Scale{TargetShardCount: &three, RequestedBy: "test", Reason: "test"}); err != nil && !errors.Is(err, protocol.ErrMigrationActive) {
			t.Fatal(err)
		}
		if _, err := api.Routing(t.Context(), key.Stream, key.Group); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := api.ScaleStream(t.Context(), "orders", protocol.Scale{TargetShardCount: &three, RequestedBy: "test", Reason: "test"}); err != nil && !errors.Is(err, protocol.ErrMigrationActive) {
		t.Fatal(err)
	}
	w.Served(httpapi.Served{Method: "GET", Route: "/x", Stream: "no", Group: "no", Status: 200})
	w.c.Heartbeat(t.Context(), "no", "no", (&member{id: "a"}).next("no"))
	if _, err := w.registry.Gather(); err != nil {
		t.Error(err)
	}
}

// There is no limit at which series are thrown together.
func TestThousandsOfMembers(t *testing.T) {
	if testing.Short() {
		t.Skip("five thousand members take a while")
	}
	const members = 5000
	w := newWorld(t, func(c *service.Config) { c.TickInterval = time.Second })
	w.stream(t, "orders", 16)
	w.settle(t, "orders", crowd(members)...)
	text := w.text(t)
	if n := seriesOf(text, prefix+"member_active{"); n != members {
		t.Errorf("%d members have series", n)
	}
	if strings.Contains(text, "overflow") {
		t.Error("there is an overflow series")
	}
	want(t, w.scrape(t), members, "members", "state", "active")
}

// One scrape asks for what it needs once, and the next one, a moment later, for nothing.
func TestScrapesShareWhatIsRead(t *testing.T) {
	w := newWorld(t)
	w.stream(t, "orders", 1200)
	w.stream(t, "parcels", 3)
	w.settle(t, "orders", crowd(10)...)
	w.settle(t, "parcels", crowd(2)...)
	w.fresh()
	reports, asked, keys := w.store.reports.Load(), w.streams.asked.Load(), w.streams.keys.Load()
	var scrapes sync.WaitGroup
	for range maxScrapes {
		scrapes.Go(func() { w.text(t) })
	}
	scrapes.Wait()
	if n := w.store.reports.Load() - reports; n != 2 {
		t.Errorf("reports were read %d times, want once for each group", n)
	}
	if n, k := w.streams.asked.Load()-asked, w.streams.keys.Load()-keys; n != 3+1 || k != 1203 {
		t.Errorf("streams were asked %d times for %d keys, want 4 and 1203", n, k)
	}
}

// Scrapes, heartbeats and deletions come at the same time.
func TestScrapesAmongChanges(t *testing.T) {
	w := newWorld(t)
	w.stream(t, "orders", 4)
	var all sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprintf("group-%d", i)
		all.Go(func() {
			for range 5 {
				m := &member{id: "m"}
				for range 5 {
					w.beat(t, "orders", name, m)
					w.Served(httpapi.Served{Method: "POST", Route: "/beat", Stream: "orders", Group: name, Status: 200})
				}
				if _, err := w.c.DeleteGroup(t.Context(), "orders", name, protocol.Delete{RequestedBy: "test", Reason: "test", Force: true}); err != nil && !errors.Is(err, protocol.ErrGroupNotFound) {
					t.Error(err)
				}
				if _, err := w.c.CreateGroup(t.Context(), "orders", name, protocol.CreateGroup{RequestedBy: "test"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		all.Wait()
		close(done)
	}()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		w.scrape(t)
		w.fresh()
	}
}

// A heartbeat costs the metrics no memory.
func TestServedAllocatesNothing(t *testing.T) {
	w := newWorld(t)
	w.stream(t, "orders", 1)
	w.settle(t, "orders", &member{id: "a"})
	w.halt() // whose memory would be counted, too
	for _, s := range []httpapi.Served{
		{Method: http.MethodPost, Route: "/beat", Stream: "orders", Group: "billing", Status: 200, Took: time.Millisecond},
		{Method: http.MethodPost, Route: "/beat", Stream: "no", Group: "no", Status: 200, Took: time.Millisecond},
	} {
		w.Served(s)
		if n := testing.AllocsPerRun(100, func() { w.Served(s) }); n != 0 {
			t.Errorf("%s: %g allocations", s.Stream, n)
		}
	}
}

// A series is light: what a scrape allocates is bounded by what it shows.
func TestScrapeIsLight(t *testing.T) {
	w := newWorld(t)
	w.stream(t, "orders", 200)
	w.settle(t, "orders", crowd(20)...)
	w.halt()
	series := 0
	n := testing.AllocsPerRun(3, func() {
		families, err := w.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		series = 0
		for _, f := range families {
			series += len(f.GetMetric())
		}
	})
	if perSeries := n / float64(series); series < 200*15 || perSeries > 12 {
		t.Errorf("%g allocations for %d series", n, series)
	}
}
