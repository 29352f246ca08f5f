package service_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// A bubble ends only when every goroutine in it has: each of these tests is a
// test for leaks as well.

// round lets every member beat once and demands a status.
func round(t *testing.T, c *service.Coordinator, want protocol.Status, members ...*beat) {
	t.Helper()
	for _, m := range members {
		r := c.Heartbeat(t.Context(), "orders", "billing", m.next())
		if r.Status != want {
			t.Fatalf("%s: %s %s, want %s", m.id, r.Status, r.Reason, want)
		}
		if want == protocol.StatusOK {
			m.last = r
		} else if r.Reason == "" || r.MemberEpoch != m.last.MemberEpoch {
			t.Errorf("%s: the reason is %q, the epoch %d is echoed as %d", m.id, r.Reason, m.last.MemberEpoch, r.MemberEpoch)
		}
	}
}

func TestAStoreThatGoesAwayAndComesBack(t *testing.T) {
	for _, how := range []string{"fails", "hangs"} {
		for _, outage := range []time.Duration{400 * time.Millisecond, 2 * fast.Lease} {
			t.Run(fmt.Sprintf("%s for %s", how, outage), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { storeAwayAndBack(t, how == "hangs", outage) })
			})
		}
	}
}

func storeAwayAndBack(t *testing.T, hangs bool, outage time.Duration) {
	store, events := &shaky{Store: memstore.New()}, new(journal)
	c := start(t, store, func(cfg *service.Config, _ *service.Ports) {
		cfg.OnGroupEvents, cfg.CallTimeout = events.group, 100*time.Millisecond
	})
	if _, err := c.CreateStream(t.Context(), "orders", shards(4)); err != nil {
		t.Fatal(err)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 4, a, b)
	if h := c.Health(t.Context()); h.Status != protocol.HealthUp || h.Store != "UP" {
		t.Errorf("health before: %+v", h)
	}
	epochs := a.last.MemberEpoch + b.last.MemberEpoch

	store.set(func(s *shaky) { s.down, s.hang = !hangs, hangs })
	for began := time.Now(); time.Since(began) < outage; time.Sleep(fast.HeartbeatInterval) {
		round(t, c, protocol.StatusRetry, a, b)
	}
	time.Sleep(time.Second)
	if h := c.Health(t.Context()); h.Status != protocol.HealthDown || h.Store != "DOWN" || h.Reason == "" {
		t.Errorf("health without a store: %+v", h)
	}
	if _, err := c.Group(t.Context(), "orders", "billing"); !errors.Is(err, protocol.ErrStoreUnavailable) {
		t.Errorf("reading without a store: %v", err)
	}
	if _, err := c.CreateStream(t.Context(), "invoices", shards(1)); !errors.Is(err, protocol.ErrStoreUnavailable) {
		t.Errorf("creating without a store: %v", err)
	}
	if r := c.Heartbeat(t.Context(), "orders", "unseen", (&beat{id: "x", incarnation: "x1"}).next()); r.Status != protocol.StatusRetry {
		t.Errorf("a join of a group that nobody has seen: %s %s", r.Status, r.Reason)
	}

	store.set(func(s *shaky) { s.down, s.hang = false, false })
	for range 2 * int(fast.Lease/fast.HeartbeatInterval) {
		round(t, c, protocol.StatusOK, a, b)
		time.Sleep(fast.HeartbeatInterval)
	}
	if a.last.MemberEpoch+b.last.MemberEpoch != epochs || len(events.over()) > 0 {
		t.Errorf("the outage cost somebody: %v", events.over())
	}
	if h := c.Health(t.Context()); h.Status != protocol.HealthUp {
		t.Errorf("health after: %+v", h)
	}
}

func TestCloseAnswersWhatIsHeld(t *testing.T) { synctest.Test(t, closeAnswersWhatIsHeld) }

func closeAnswersWhatIsHeld(t *testing.T) {
	c := start(t, memstore.New(), nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(4)); err != nil {
		t.Fatal(err)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 4, a, b)
	heard := make(chan protocol.HeartbeatResponse, 2)
	for _, m := range []*beat{a, b} {
		q := m.next()
		q.MaxWaitMs = 300
		go func() { heard <- c.Heartbeat(context.Background(), "orders", "billing", q) }()
	}
	synctest.Wait()
	began := time.Now()
	var closes sync.WaitGroup
	for range 3 {
		closes.Go(func() {
			if err := c.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	for range 2 {
		if r := <-heard; r.Status != protocol.StatusOK || len(r.Assignment.AssignedShards) != 2 {
			t.Errorf("a held heartbeat is answered %s %s", r.Status, r.Reason)
		}
	}
	closes.Wait()
	if waited := time.Since(began); waited > 0 {
		t.Errorf("closing took %s", waited)
	}
	for _, m := range []*beat{a, {id: "c", incarnation: "c1"}} {
		if r := c.Heartbeat(t.Context(), "orders", "billing", m.next()); r.Status != protocol.StatusRetry || r.Reason == "" {
			t.Errorf("a heartbeat after the end: %s %s", r.Status, r.Reason)
		}
	}
	if _, err := c.CreateStream(t.Context(), "late", shards(1)); !errors.Is(err, protocol.ErrTerminating) {
		t.Errorf("a create after the end: %v", err)
	}
}

func TestCloseDoesNotWaitForAStoreForEver(t *testing.T) { synctest.Test(t, closeWithAHangingStore) }

func closeWithAHangingStore(t *testing.T) {
	store := &shaky{Store: memstore.New()}
	c, err := service.New(service.Config{ID: "test", Timings: fast, TickInterval: 20 * time.Millisecond, CallTimeout: time.Hour}, service.Ports{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateStream(t.Context(), "orders", shards(1)); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 1, a)
	store.set(func(s *shaky) { s.hang = true })
	answered := make(chan protocol.HeartbeatResponse, 1)
	q := a.next()
	go func() { answered <- c.Heartbeat(context.Background(), "orders", "billing", q) }()
	synctest.Wait()
	patience := errors.New("out of patience")
	ctx, done := context.WithTimeoutCause(t.Context(), time.Second, patience)
	defer done()
	began := time.Now()
	if err := c.Close(ctx); !errors.Is(err, patience) || time.Since(began) > time.Second {
		t.Errorf("Close: %v after %s", err, time.Since(began))
	}
	if r := <-answered; r.Status != protocol.StatusRetry {
		t.Errorf("the heartbeat is answered %s", r.Status)
	}
	if c.Runners() != 1 {
		t.Errorf("%d runners", c.Runners())
	}
}

func TestAClientMayGoAway(t *testing.T) { synctest.Test(t, aClientMayGoAway) }

func aClientMayGoAway(t *testing.T) {
	c := start(t, memstore.New(), nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	q := a.next()
	q.MaxWaitMs = 300
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if r := c.Heartbeat(ctx, "orders", "billing", q); r.Status != protocol.StatusRetry || time.Since(began) != 50*time.Millisecond {
		t.Errorf("a client that goes away is answered %s after %s", r.Status, time.Since(began))
	}
	if r := c.Heartbeat(ctx, "orders", "billing", a.next()); r.Status != protocol.StatusRetry {
		t.Errorf("a client that is gone is answered %s", r.Status)
	}
	round(t, c, protocol.StatusOK, a)
}

func TestAGroupIsDeletedWhileItsMembersBeat(t *testing.T) {
	synctest.Test(t, groupDeletedWhileMembersBeat)
}

func groupDeletedWhileMembersBeat(t *testing.T) {
	streams := new(fakeStreams)
	c := start(t, memstore.New(), func(_ *service.Config, p *service.Ports) { p.Streams = streams })
	if _, err := c.CreateStream(t.Context(), "orders", shards(4)); err != nil {
		t.Fatal(err)
	}
	members := []*beat{{id: "a", incarnation: "a1"}, {id: "b", incarnation: "b1"}}
	settle(t, c, 4, members...)
	q := members[0].next()
	q.MaxWaitMs = 300
	heard := make(chan protocol.HeartbeatResponse, 1)
	go func() { heard <- c.Heartbeat(context.Background(), "orders", "billing", q) }()
	synctest.Wait()
	del := protocol.Delete{RequestedBy: "test", Reason: "test", Force: true, DeleteData: true}
	if g, err := c.DeleteGroup(t.Context(), "orders", "billing", del); err != nil || g.State != protocol.GroupStable {
		t.Fatalf("delete: %+v, %v", g, err)
	}
	if r := <-heard; r.Status == protocol.StatusOK {
		t.Errorf("the held heartbeat hears %s", r.Status)
	}
	round(t, c, protocol.StatusUnknownMember, members...)
	if groups, ok := streams.on(4); !ok || len(groups) > 0 {
		t.Errorf("the shards have the groups %v, %v", groups, ok)
	}
	// Nothing is kept for a group that is gone, however often its members ask.
	for range 10 {
		round(t, c, protocol.StatusUnknownMember, members...)
		time.Sleep(fast.HeartbeatInterval)
	}
	if n := c.Runners(); n != 0 {
		t.Errorf("%d goroutines are left for groups", n)
	}
}

func TestAnotherCoordinatorFinishesWhatWasCutOff(t *testing.T) {
	for _, tc := range []struct {
		name string
		// cut is what fails once, from the so many-th time on that it is asked for.
		call string
		nth  int
		do   func(ctx context.Context, c *service.Coordinator) error
		want []string
	}{
		{"the shards", "Provision", 1, func(ctx context.Context, c *service.Coordinator) error {
			_, err := c.CreateStream(ctx, "orders", shards(3))
			return err
		}, nil},
		{"the group's consumer groups", "Provision", 2, func(ctx context.Context, c *service.Coordinator) error {
			_, err := c.CreateGroup(ctx, "orders", "billing", protocol.CreateGroup{InitialShardCount: shards(3).InitialShardCount, RequestedBy: "test"})
			return err
		}, []string{"billing"}},
		{"the group's record", "SaveGroup", 1, func(ctx context.Context, c *service.Coordinator) error {
			_, err := c.CreateGroup(ctx, "orders", "billing", protocol.CreateGroup{InitialShardCount: shards(3).InitialShardCount, RequestedBy: "test"})
			return err
		}, []string{"billing"}},
		{"the note that the group is there", "SaveStream", 4, func(ctx context.Context, c *service.Coordinator) error {
			_, err := c.CreateGroup(ctx, "orders", "billing", protocol.CreateGroup{InitialShardCount: shards(3).InitialShardCount, RequestedBy: "test"})
			return err
		}, []string{"billing"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { finishedByAnother(t, tc.call, tc.nth, tc.do, tc.want) })
		})
	}
}

func finishedByAnother(t *testing.T, call string, nth int, do func(context.Context, *service.Coordinator) error, want []string) {
	store, streams := memstore.New(), new(fakeStreams)
	var mu sync.Mutex
	asked := 0
	cut := func(name string) error {
		mu.Lock()
		defer mu.Unlock()
		if name == call {
			asked++
		}
		if asked >= nth {
			return errAway
		}
		return nil
	}
	// The first coordinator is cut off for good at some point.
	first, err := service.New(service.Config{ID: "first", Timings: fast, TickInterval: 20 * time.Millisecond}, service.Ports{
		Store:   &shaky{Store: store, before: cut},
		Streams: &fakeCutStreams{fakeStreams: streams, cut: cut},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := do(t.Context(), first); err == nil {
		t.Fatal("the first coordinator was not cut off")
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := start(t, store, func(_ *service.Config, p *service.Ports) { p.Streams = streams })
	time.Sleep(6 * time.Second)
	s, err := second.Stream(t.Context(), "orders")
	if err != nil || !s.Provisioned || fmt.Sprint(s.Groups) != fmt.Sprint(append([]string{}, want...)) {
		t.Errorf("the stream is %+v, %v", s, err)
	}
	if groups, ok := streams.on(3); !ok || fmt.Sprint(groups) != fmt.Sprint(append([]string{}, want...)) {
		t.Errorf("the shards have the groups %v, %v", groups, ok)
	}
	if len(want) > 0 {
		settle(t, second, 3, &beat{id: "a", incarnation: "a1"})
	}
}

// fakeCutStreams fails where cut says so.
type fakeCutStreams struct {
	*fakeStreams
	cut func(call string) error
}

func (f *fakeCutStreams) Provision(ctx context.Context, p port.Provision) error {
	if err := f.cut("Provision"); err != nil {
		return protocol.ErrProvisioning.With("%v", err)
	}
	return f.fakeStreams.Provision(ctx, p)
}

func TestACreateThatWasCutOffCanBeRepeated(t *testing.T) { synctest.Test(t, createRepeated) }

func createRepeated(t *testing.T) {
	streams := new(fakeStreams)
	c := start(t, memstore.New(), func(_ *service.Config, p *service.Ports) { p.Streams = streams })
	streams.set(func(_ context.Context, call string) error {
		if call == "Provision" {
			return protocol.ErrProvisioning
		}
		return nil
	})
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); !errors.Is(err, protocol.ErrProvisioning) {
		t.Fatalf("create: %v", err)
	}
	if _, err := c.CreateStream(t.Context(), "orders", shards(3)); !errors.Is(err, protocol.ErrStreamExists) {
		t.Errorf("create with another count: %v", err)
	}
	streams.set(nil)
	if s, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil || s.ShardCount != 2 {
		t.Errorf("create again: %+v, %v", s, err)
	}
	if _, ok := streams.on(2); !ok {
		t.Error("the shards are not there")
	}
}

// The record of a group that is known to be live is gone: nobody may start from
// scratch, and everybody is told what to do.
func TestALostRecordFailsClosed(t *testing.T) { synctest.Test(t, lostRecord) }

func lostRecord(t *testing.T) {
	store := memstore.New()
	c := start(t, store, nil)
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateGroup(t.Context(), "orders", "other", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	key := port.GroupKey{Stream: "orders", Group: "billing"}
	rec, err := store.LoadGroup(t.Context(), key, port.Version{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.DeleteGroup(t.Context(), key, rec.Version); err != nil {
		t.Fatal(err)
	}
	fresh := &beat{id: "b", incarnation: "b1"}
	for range 3 {
		r := c.Heartbeat(t.Context(), "orders", "billing", fresh.next())
		if r.Status != protocol.StatusRetry || !strings.Contains(r.Reason, "missing") || len(r.Assignment.AssignedShards) > 0 {
			t.Errorf("a join is answered %s %s", r.Status, r.Reason)
		}
		time.Sleep(time.Second)
	}
	if _, err := c.Group(t.Context(), "orders", "billing"); !errors.Is(err, protocol.ErrCorrupt) {
		t.Errorf("the group: %v, want %v", err, protocol.ErrCorrupt)
	}
	if g, err := c.Group(t.Context(), "orders", "other"); err != nil || g.State != protocol.GroupEmpty {
		t.Errorf("another group: %+v, %v", g, err)
	}
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", protocol.CreateGroup{RequestedBy: "test"}); !errors.Is(err, protocol.ErrGroupExists) {
		t.Errorf("create: %v", err)
	}
	// What the error says to do works.
	if _, err := c.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "lost"}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
		t.Errorf("create again: %v", err)
	}
	settle(t, c, 2, fresh)
}

// A damaged record stops its group and nothing else, and can be deleted.
func TestADamagedRecordFailsClosed(t *testing.T) { synctest.Test(t, damagedRecord) }

func damagedRecord(t *testing.T) {
	store := memstore.New()
	c := start(t, store, nil)
	for _, prefix := range []string{"orders", "invoices", "ruins"} {
		if _, err := c.CreateGroup(t.Context(), prefix, "billing", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 1, a)
	key := port.GroupKey{Stream: "orders", Group: "billing"}
	rec, err := store.LoadGroup(t.Context(), key, port.Version{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveGroup(t.Context(), key, port.GroupSave{Expected: rec.Version, Nonce: "damage", Body: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	ruins, err := store.LoadStream(t.Context(), "ruins")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveStream(t.Context(), "ruins", port.StreamSave{Expected: ruins.Version, Nonce: "damage", Body: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	round(t, c, protocol.StatusRetry, a, &beat{id: "b", incarnation: "b1"})
	r := c.Heartbeat(t.Context(), "ruins", "new", (&beat{id: "b", incarnation: "b1"}).next())
	if r.Status != protocol.StatusRetry || !strings.Contains(r.Reason, "record") {
		t.Errorf("a join of a damaged stream is answered %s %s", r.Status, r.Reason)
	}
	if _, err := c.Group(t.Context(), "orders", "billing"); !errors.Is(err, protocol.ErrCorrupt) {
		t.Errorf("the group: %v, want %v", err, protocol.ErrCorrupt)
	}
	if _, err := c.Stream(t.Context(), "ruins"); !errors.Is(err, protocol.ErrCorrupt) {
		t.Errorf("the stream: %v, want %v", err, protocol.ErrCorrupt)
	}
	groups, err := c.Groups(t.Context())
	if err != nil || len(groups.Groups) != 2 {
		t.Errorf("groups: %+v, %v", groups, err)
	}
	streams, err := c.Streams(t.Context())
	if err != nil || len(streams.Streams) != 2 {
		t.Errorf("streams: %+v, %v", streams, err)
	}
	if _, err := c.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "damaged"}); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestAStormOfJoins(t *testing.T) { synctest.Test(t, stormOfJoins) }

// stormOfJoins: 1,000 members join within 100 ms, while their group is being
// created. Every shard is handed out once and none is taken away again.
func stormOfJoins(t *testing.T) {
	const members, count = 1000, 10_000
	streams, events := new(fakeStreams), new(journal)
	streams.set(func(_ context.Context, call string) error {
		if call == "Provision" {
			time.Sleep(200 * time.Millisecond)
		}
		return nil
	})
	c := start(t, memstore.New(), func(cfg *service.Config, p *service.Ports) {
		cfg.Timings, cfg.TickInterval, cfg.MaxShards = protocol.DefaultTimings(), time.Second, count
		cfg.OnGroupEvents, p.Streams = events.group, streams
	})
	if _, err := c.CreateStream(t.Context(), "orders", shards(count)); err != nil {
		t.Fatal(err)
	}
	all := make([]*beat, members)
	var joins sync.WaitGroup
	began := time.Now()
	for i := range all {
		all[i] = &beat{id: fmt.Sprintf("m%04d", i), incarnation: fmt.Sprintf("i%04d", i)}
		joins.Go(func() {
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			all[i].send(t, c)
		})
	}
	joins.Wait()
	if took := time.Since(began); took > 600*time.Millisecond {
		t.Errorf("the storm took %s", took)
	}
	for _, m := range all {
		if m.last.Status != protocol.StatusOK || len(m.last.Assignment.AssignedShards) != count/members || len(m.last.Assignment.PendingShards) > 0 {
			t.Fatalf("%s: %s, %d assigned, %d pending", m.id, m.last.Status, len(m.last.Assignment.AssignedShards), len(m.last.Assignment.PendingShards))
		}
	}
	var acks sync.WaitGroup
	for _, m := range all {
		acks.Go(func() { m.send(t, c) })
	}
	acks.Wait()
	if g, err := c.Group(t.Context(), "orders", "billing"); err != nil || g.State != protocol.GroupStable {
		t.Errorf("the group is %s, %v", g.State, err)
	}
	if len(events.granted) != count || len(events.revoked) > 0 || len(events.over()) > 0 {
		t.Errorf("%d shards were granted, %d revoked, %d members ended", len(events.granted), len(events.revoked), len(events.over()))
	}
	for shard, n := range events.granted {
		if n != 1 {
			t.Fatalf("shard %s was granted %d times", shard, n)
		}
	}
}

// Whoever names groups and streams that are not there must not make the
// coordinator remember them.
func TestNothingIsKeptForNamesThatDoNotExist(t *testing.T) { synctest.Test(t, nothingIsKept) }

func nothingIsKept(t *testing.T) {
	c := start(t, memstore.New(), nil)
	no := false
	r := shards(1)
	r.AutoCreateGroups = &no
	if _, err := c.CreateStream(t.Context(), "closed", r); err != nil {
		t.Fatal(err)
	}
	kept := c.Remembered()
	for i := range 50 {
		join := (&beat{id: "a", incarnation: "a1"}).next()
		later := (&beat{id: "a", incarnation: "a1", last: protocol.HeartbeatResponse{MemberEpoch: 7}}).next()
		for _, q := range []*protocol.Heartbeat{join, later} {
			for _, where := range [][2]string{{fmt.Sprint("stream", i), "billing"}, {"closed", fmt.Sprint("group", i)}} {
				if a := c.Heartbeat(t.Context(), where[0], where[1], q); a.Status != protocol.StatusUnknownMember || a.Reason == "" {
					t.Fatalf("%s/%s: %s %s", where[0], where[1], a.Status, a.Reason)
				}
			}
		}
		if _, err := c.Stream(t.Context(), fmt.Sprint("stream", i)); !errors.Is(err, protocol.ErrStreamNotFound) {
			t.Fatal(err)
		}
		if _, err := c.Group(t.Context(), "closed", fmt.Sprint("group", i)); !errors.Is(err, protocol.ErrGroupNotFound) {
			t.Fatal(err)
		}
		if _, err := c.DeleteStream(t.Context(), fmt.Sprint("stream", i), protocol.Delete{RequestedBy: "t", Reason: "t"}); !errors.Is(err, protocol.ErrStreamNotFound) {
			t.Fatal(err)
		}
	}
	if a := c.Heartbeat(t.Context(), "closed", "billing", &protocol.Heartbeat{ProtocolVersion: 1}); a.Status != protocol.StatusInvalidRequest {
		t.Errorf("a heartbeat of nobody: %s %s", a.Status, a.Reason)
	}
	if n := c.Runners(); n != 0 {
		t.Errorf("%d goroutines are left for groups that do not exist", n)
	}
	// On a new store, members that speak of an earlier life are taken seriously for
	// as long as they may be reading.
	time.Sleep(3 * fast.Lease)
	if n := c.Remembered(); n > kept {
		t.Errorf("%d entries are kept for streams, were %d", n, kept)
	}
}

// Streams that come and go, also through another coordinator, leave nothing.
func TestNothingIsKeptForStreamsThatAreGone(t *testing.T) { synctest.Test(t, nothingIsKeptForGone) }

func nothingIsKeptForGone(t *testing.T) {
	store := memstore.New()
	one, other := start(t, store, nil), start(t, store, nil)
	del := protocol.Delete{RequestedBy: "test", Reason: "test", DeleteData: true}
	for i := range 5 {
		prefix := fmt.Sprint("s", i)
		if _, err := one.CreateGroup(t.Context(), prefix, "billing", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if one.Runners() != 1 || other.Runners() != 1 {
			t.Fatalf("%d and %d groups are watched, want 1 and 1", one.Runners(), other.Runners())
		}
		if _, err := other.DeleteGroup(t.Context(), prefix, "billing", del); err != nil {
			t.Fatal(err)
		}
		if _, err := other.DeleteStream(t.Context(), prefix, del); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
	}
	for _, c := range []*service.Coordinator{one, other} {
		if c.Runners()+c.Remembered() > 0 {
			t.Errorf("%d runners and %d entries are left", c.Runners(), c.Remembered())
		}
	}
}

// Redis does not answer while shards are to be provisioned: groups are watched
// all the same.
func TestAHangingRedisDoesNotStopTheLoop(t *testing.T) { synctest.Test(t, hangingRedis) }

func hangingRedis(t *testing.T) {
	store, streams := memstore.New(), new(fakeStreams)
	streams.set(func(ctx context.Context, _ string) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	stuck := start(t, store, func(_ *service.Config, p *service.Ports) { p.Streams = streams })
	for i := range 5 {
		ctx, done := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := stuck.CreateStream(ctx, fmt.Sprint("stuck", i), shards(1)); err == nil {
			t.Fatal("a stream was created without Redis")
		}
		done()
	}
	time.Sleep(10 * time.Second)
	well := start(t, store, nil)
	if _, err := well.CreateStream(t.Context(), "orders", shards(1)); err != nil {
		t.Fatal(err)
	}
	settle(t, well, 1, &beat{id: "a", incarnation: "a1"})
	time.Sleep(100 * time.Millisecond)
	if stuck.Runners() != 1 {
		t.Error("a group that another coordinator made is not watched here")
	}
	for range 8 {
		time.Sleep(5 * time.Second)
		if h := stuck.Health(t.Context()); h.Status != protocol.HealthDegraded || h.Loop != "UP" || h.Redis != "DOWN" {
			t.Errorf("health: %+v", h)
		}
	}
}

func TestALoopThatDoesNotRunIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := service.New(service.Config{ID: "test", Timings: fast, TickInterval: 20 * time.Millisecond}, service.Ports{Store: memstore.New()})
		if err != nil {
			t.Fatal(err)
		}
		if h := c.Health(t.Context()); h.Status != protocol.HealthUp || h.Redis != "NOT_CONFIGURED" || h.CoordinatorID != "test" {
			t.Errorf("health at the start: %+v", h)
		}
		time.Sleep(time.Minute)
		if h := c.Health(t.Context()); h.Status != protocol.HealthDegraded || h.Loop != "DOWN" || h.Reason == "" {
			t.Errorf("health without the loop: %+v", h)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A coordinator that waited for the mutex acts on what it finds then, not on what
// it saw before: the stream that it was to delete may have been created again.
func TestADeletionIsNotCarriedOutLate(t *testing.T) {
	for _, mutex := range []bool{true, false} {
		t.Run(fmt.Sprintf("with mutex %v", mutex), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { lateDeletion(t, mutex) })
		})
	}
}

func lateDeletion(t *testing.T, mutex bool) {
	store, streams := memstore.New(), new(fakeStreams)
	well := start(t, store, func(_ *service.Config, p *service.Ports) { p.Streams, p.Mutex = streams, nil })
	create := func() {
		t.Helper()
		if _, err := well.CreateGroup(t.Context(), "orders", "billing", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
			t.Fatal(err)
		}
	}
	create()
	del := protocol.Delete{RequestedBy: "test", Reason: "test", Force: true, DeleteData: true}
	meanwhile := func() {
		if _, err := well.DeleteGroup(t.Context(), "orders", "billing", del); err != nil {
			t.Errorf("delete group: %v", err)
		}
		if _, err := well.DeleteStream(t.Context(), "orders", del); err != nil {
			t.Errorf("delete stream: %v", err)
		}
		create()
	}
	for _, step := range []string{"group", "stream"} {
		late := &lateMutex{}
		slow := &shaky{Store: store}
		ports := service.Ports{Store: slow, Streams: streams}
		if mutex {
			ports.Mutex = late
		}
		c, err := service.New(service.Config{ID: "slow", Timings: fast, TickInterval: 20 * time.Millisecond}, ports)
		if err != nil {
			t.Fatal(err)
		}
		if step == "stream" {
			if _, err := well.DeleteGroup(t.Context(), "orders", "billing", del); err != nil {
				t.Fatal(err)
			}
		}
		var once sync.Once
		run := func() { once.Do(meanwhile) }
		if step == "stream" {
			run = func() {
				once.Do(func() {
					if _, err := well.DeleteStream(t.Context(), "orders", del); err != nil {
						t.Errorf("delete stream: %v", err)
					}
					create()
				})
			}
		}
		if mutex {
			late.meanwhile = run
		} else {
			// Between the load of the record and the step: at the first call that
			// the step makes.
			loads := 0
			slow.before = func(call string) error {
				if call == "LoadStream" {
					loads++
				}
				if (step == "group" && call == "LoadGroup" && loads > 1) || (step == "stream" && loads > 2) {
					run()
				}
				return nil
			}
		}
		if step == "group" {
			_, err = c.DeleteGroup(t.Context(), "orders", "billing", del)
		} else {
			_, err = c.DeleteStream(t.Context(), "orders", del)
		}
		if s, err := well.Stream(t.Context(), "orders"); err != nil || len(s.Groups) != 1 {
			t.Errorf("after the late deletion of the %s the stream is %+v, %v", step, s, err)
		}
		if g, err := well.Group(t.Context(), "orders", "billing"); err != nil || g.State != protocol.GroupEmpty {
			t.Errorf("after the late deletion of the %s the group is %+v, %v", step, g, err)
		}
		if groups, ok := streams.on(1); !ok || fmt.Sprint(groups) != "[billing]" {
			t.Errorf("after the late deletion of the %s the shards have %v, %v (%v)", step, groups, ok, err)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// lateMutex is free only after a while, in which something happens.
type lateMutex struct {
	memstore.Mutex
	meanwhile func()
}

func (m *lateMutex) LockStream(ctx context.Context, prefix string) (func(), error) {
	m.meanwhile()
	return m.Mutex.LockStream(ctx, prefix)
}

// A save of a stream whose reply is lost took place, and is told of.
func TestALostReplyOfAStreamIsRecognized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, events := &shaky{Store: memstore.New(), loseReplies: 1}, new(journal)
		c := start(t, store, func(cfg *service.Config, _ *service.Ports) { cfg.OnStreamEvents = events.stream })
		if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
			t.Fatal(err)
		}
		store.set(func(s *shaky) { s.loseReplies = 1 })
		if _, err := c.CreateGroup(t.Context(), "orders", "billing", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(events.streams); got != fmt.Sprintf("[orders created orders/billing %s orders/billing %s]", stream.GroupCreating, stream.GroupLive) {
			t.Errorf("what is told is %s", got)
		}
	})
}

func TestAStreamThatCannotBeSavedIsNotAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &shaky{Store: memstore.New(), before: func(call string) error {
			if call == "SaveStream" {
				return errAway
			}
			return nil
		}}
		c := start(t, store, nil)
		if _, err := c.CreateStream(t.Context(), "orders", shards(2)); !errors.Is(err, protocol.ErrStoreUnavailable) {
			t.Errorf("create: %v, want %v", err, protocol.ErrStoreUnavailable)
		}
	})
}
