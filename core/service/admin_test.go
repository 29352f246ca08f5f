package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

var (
	byTest  = protocol.CreateGroup{RequestedBy: "test"}
	delTest = protocol.Delete{RequestedBy: "test", Reason: "test"}
)

func TestConfigIsChecked(t *testing.T) {
	sound := service.Config{ID: "c"}
	if _, err := service.New(sound, service.Ports{Store: memstore.New()}); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	if _, err := service.New(sound, service.Ports{}); err == nil {
		t.Error("no store is needed")
	}
	for field, change := range map[string]func(*service.Config){
		"ID":              func(c *service.Config) { c.ID = "" },
		"Timings":         func(c *service.Config) { c.Timings.Lease = time.Second },
		"TickInterval":    func(c *service.Config) { c.TickInterval = time.Minute },
		"short tick":      func(c *service.Config) { c.TickInterval = time.Microsecond },
		"RoutingLease":    func(c *service.Config) { c.RoutingLease = 2 * time.Hour },
		"MaxShards":       func(c *service.Config) { c.MaxShards = protocol.MaxShards + 1 },
		"DefaultShards":   func(c *service.Config) { c.DefaultShards = protocol.DefaultMaxShards + 1 },
		"MemberRetention": func(c *service.Config) { c.MemberRetention = -1 },
		"CallTimeout":     func(c *service.Config) { c.CallTimeout = time.Millisecond },
	} {
		cfg := sound
		change(&cfg)
		if _, err := service.New(cfg, service.Ports{Store: memstore.New()}); err == nil {
			t.Errorf("%s: nothing is wrong with %+v", field, cfg)
		}
	}
}

func TestADeletionIsTakenBackWhenSomebodyJoins(t *testing.T) { synctest.Test(t, deletionTakenBack) }

func deletionTakenBack(t *testing.T) {
	inner := memstore.New()
	well := start(t, inner, nil)
	if _, err := well.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	var once sync.Once
	slow := &shaky{Store: inner}
	slow.before = func(call string) error {
		if call == "SaveStream" {
			// The group had no members when that was looked at.
			once.Do(func() { a.send(t, well) })
		}
		return nil
	}
	c, err := service.New(service.Config{ID: "slow", Timings: fast, TickInterval: 20 * time.Millisecond}, service.Ports{Store: slow})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteGroup(t.Context(), "orders", "billing", delTest); !errors.Is(err, protocol.ErrGroupHasMembers) {
		t.Errorf("delete: %v, want %v", err, protocol.ErrGroupHasMembers)
	}
	if s, err := c.Stream(t.Context(), "orders"); err != nil || fmt.Sprint(s.Groups) != "[billing]" {
		t.Errorf("the stream is %+v, %v", s, err)
	}
	settle(t, well, 1, a)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A group that nobody managed to create can be deleted.
func TestAGroupThatIsStuckCanBeDeleted(t *testing.T) { synctest.Test(t, stuckGroup) }

func stuckGroup(t *testing.T) {
	streams := new(fakeStreams)
	c := start(t, memstore.New(), func(_ *service.Config, p *service.Ports) { p.Streams = streams })
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	streams.set(func(_ context.Context, call string) error {
		if call == "Provision" {
			return protocol.ErrStreamExists.With("orders:1 holds a list")
		}
		return nil
	})
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", byTest); !errors.Is(err, protocol.ErrStreamExists) {
		t.Fatalf("create: %v", err)
	}
	if r := c.Heartbeat(t.Context(), "orders", "billing", (&beat{id: "a", incarnation: "a1"}).next()); r.Status != protocol.StatusRetry || r.Reason == "" {
		t.Errorf("a join meanwhile: %s %s", r.Status, r.Reason)
	}
	if g, err := c.DeleteGroup(t.Context(), "orders", "billing", delTest); err != nil || g.ConsumerGroup != "billing" || g.TargetAssignmentSummary == nil {
		t.Errorf("delete: %+v, %v", g, err)
	}
	if _, err := c.DeleteGroup(t.Context(), "orders", "billing", delTest); !errors.Is(err, protocol.ErrGroupNotFound) {
		t.Errorf("delete again: %v", err)
	}
	if _, err := c.DeleteGroup(t.Context(), "nowhere", "billing", delTest); !errors.Is(err, protocol.ErrStreamNotFound) {
		t.Errorf("delete in no stream: %v", err)
	}
}

// A coordinator that was slow while others created a group and deleted it again
// leaves no record behind that the stream knows nothing of.
func TestACreationIsNotCarriedOutLate(t *testing.T) { synctest.Test(t, lateCreation) }

func lateCreation(t *testing.T) {
	inner := memstore.New()
	well := start(t, inner, nil)
	if _, err := well.CreateStream(t.Context(), "orders", shards(1)); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	slow := &shaky{Store: inner}
	slow.before = func(call string) error {
		if call == "LoadGroup" {
			once.Do(func() {
				if _, err := well.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
					t.Errorf("create: %v", err)
				}
				if _, err := well.DeleteGroup(t.Context(), "orders", "billing", delTest); err != nil {
					t.Errorf("delete: %v", err)
				}
			})
		}
		return nil
	}
	c, err := service.New(service.Config{ID: "slow", Timings: fast, TickInterval: 20 * time.Millisecond}, service.Ports{Store: slow})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", byTest); !errors.Is(err, protocol.ErrGroupNotFound) {
		t.Errorf("the late create: %v", err)
	}
	if keys, err := inner.ListGroups(t.Context()); err != nil || len(keys) > 0 {
		t.Errorf("the store has the groups %v, %v", keys, err)
	}
	if r := well.Heartbeat(t.Context(), "orders", "billing", (&beat{id: "a", incarnation: "a1"}).next()); r.Status != protocol.StatusUnknownMember {
		t.Errorf("a deleted group takes members: %s", r.Status)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestReadingAndRefusing(t *testing.T) { synctest.Test(t, readingAndRefusing) }

func readingAndRefusing(t *testing.T) {
	store, streams := &shaky{Store: memstore.New()}, new(fakeStreams)
	c := start(t, store, func(cfg *service.Config, p *service.Ports) {
		cfg.RoutingLease, p.Streams = 5*time.Second, streams
	})
	ctx := t.Context()
	r := shards(3)
	r.GroupStart = protocol.StartLatest
	if _, err := c.CreateStream(ctx, "orders", r); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 3, a)
	time.Sleep(time.Second)
	round(t, c, protocol.StatusOK, a)
	if s, err := c.Stream(ctx, "orders"); err != nil || s.GroupStart != protocol.StartLatest {
		t.Errorf("stream: %+v, %v", s, err)
	}
	if got, err := c.Assignments(ctx, "orders", "billing"); err != nil || fmt.Sprint(got.TargetAssignment, got.CurrentAssignments) != "map[a:[0 1 2]] map[a:[0 1 2]]" {
		t.Errorf("assignments: %+v, %v", got, err)
	}
	if got, err := c.Members(ctx, "orders", "billing"); err != nil || len(got.Members) != 1 || got.Members[0].LastHeartbeatAt == nil {
		t.Errorf("members: %+v, %v", got, err)
	}
	if n := c.HeartbeatLimit("orders"); n != protocol.HeartbeatLimit(3) {
		t.Errorf("a heartbeat may be %d bytes long", n)
	}
	// A coordinator with a longer lease announces it before it is used.
	patient := start(t, store, func(cfg *service.Config, _ *service.Ports) { cfg.RoutingLease = time.Minute })
	for range 2 {
		if got, err := patient.Routing(ctx, "orders", "billing"); err != nil || got.RoutingLeaseMs != 60_000 || got.ShardCount != 3 {
			t.Errorf("routing: %+v, %v", got, err)
		}
	}
	if _, err := c.Routing(ctx, "orders", "no/slash"); !errors.Is(err, protocol.ErrInvalidRequest) {
		t.Errorf("routing of an odd name: %v", err)
	}

	// Bad words.
	if _, err := c.CreateGroup(ctx, "or{}ders", "bil/ling", protocol.CreateGroup{}); !errors.Is(err, protocol.ErrInvalidRequest) {
		t.Errorf("create group: %v", err)
	}
	if _, err := c.DeleteGroup(ctx, "orders", "billing", protocol.Delete{}); !errors.Is(err, protocol.ErrInvalidRequest) {
		t.Errorf("delete group: %v", err)
	}
	if _, err := c.DeleteStream(ctx, "orders", protocol.Delete{}); !errors.Is(err, protocol.ErrInvalidRequest) {
		t.Errorf("delete stream: %v", err)
	}

	// Health is not asked again at once.
	before := streams.count("Ping")
	c.Health(ctx)
	c.Health(ctx)
	if n := streams.count("Ping") - before; n > 1 {
		t.Errorf("two looks at the health ask Redis %d times", n)
	}

	// No store.
	store.set(func(s *shaky) { s.down = true })
	for what, err := range map[string]error{
		"streams":       second(c.Streams(ctx)),
		"groups":        second(c.Groups(ctx)),
		"members":       second(c.Members(ctx, "orders", "billing")),
		"assignments":   second(c.Assignments(ctx, "orders", "billing")),
		"routing":       second(c.Routing(ctx, "orders", "billing")),
		"create group":  second(c.CreateGroup(ctx, "orders", "audit", byTest)),
		"delete group":  second(c.DeleteGroup(ctx, "orders", "billing", delTest)),
		"delete stream": second(c.DeleteStream(ctx, "orders", delTest)),
	} {
		if !errors.Is(err, protocol.ErrStoreUnavailable) {
			t.Errorf("%s without a store: %v", what, err)
		}
	}
	store.set(func(s *shaky) { s.down = false })
}

func second[T any](_ T, err error) error { return err }

// A store that loses calls of one kind: whoever asked is told, and nothing is
// half done for good.
func TestOneKindOfCallFails(t *testing.T) {
	for _, call := range []string{"LoadGroup", "SaveGroup", "DeleteGroup", "LoadStream", "SaveStream", "DeleteStream", "ListGroups", "ListStreams", "Reports"} {
		t.Run(call, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { oneKindFails(t, call) }) })
	}
}

func oneKindFails(t *testing.T, call string) {
	store := &shaky{Store: memstore.New()}
	c := start(t, store, func(_ *service.Config, p *service.Ports) { p.Streams = new(fakeStreams) })
	ctx := t.Context()
	if _, err := c.CreateGroup(ctx, "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	store.set(func(s *shaky) {
		s.before = func(name string) error {
			if name == call {
				return errAway
			}
			return nil
		}
	})
	for _, err := range []error{
		second(c.CreateGroup(ctx, "orders", "audit", byTest)), second(c.DeleteGroup(ctx, "orders", "billing", delTest)),
		second(c.DeleteStream(ctx, "orders", delTest)), second(c.Streams(ctx)), second(c.Groups(ctx)),
		second(c.Members(ctx, "orders", "billing")), second(c.Stream(ctx, "orders")),
	} {
		told := new(protocol.Error)
		if err != nil && !errors.As(err, &told) {
			t.Errorf("an error without a code: %v", err)
		}
	}
	time.Sleep(20 * time.Second)
	store.set(func(s *shaky) { s.before = nil })
	time.Sleep(20 * time.Second)
	// Now everything can be had and removed.
	for _, name := range []string{"billing", "audit"} {
		if err := second(c.DeleteGroup(ctx, "orders", name, delTest)); err != nil && !errors.Is(err, protocol.ErrGroupNotFound) && !errors.Is(err, protocol.ErrStreamNotFound) {
			t.Errorf("delete group %s: %v", name, err)
		}
	}
	if err := second(c.DeleteStream(ctx, "orders", delTest)); err != nil && !errors.Is(err, protocol.ErrStreamNotFound) {
		t.Errorf("delete stream: %v", err)
	}
	if list, err := c.Streams(ctx); err != nil || len(list.Streams) > 0 {
		t.Errorf("streams: %+v, %v", list, err)
	}
	if keys, err := store.Store.ListGroups(ctx); err != nil || len(keys) > 0 {
		t.Errorf("groups: %v, %v", keys, err)
	}
}

// busyMutex cannot be had for a while.
type busyMutex struct {
	memstore.Mutex
	mu   sync.Mutex
	busy bool
}

func (m *busyMutex) set(busy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy = busy
}

func (m *busyMutex) taken() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.busy
}

func (m *busyMutex) LockGroup(ctx context.Context, key port.GroupKey) (func(), error) {
	if m.taken() {
		return nil, protocol.ErrMutexUnavailable
	}
	return m.Mutex.LockGroup(ctx, key)
}

func (m *busyMutex) LockStream(ctx context.Context, prefix string) (func(), error) {
	if m.taken() {
		return nil, protocol.ErrMutexUnavailable
	}
	return m.Mutex.LockStream(ctx, prefix)
}

// Two coordinators share a group and collide: members go on, and one that cannot
// have the mutex asks to come again.
func TestCoordinatorsCollide(t *testing.T) { synctest.Test(t, coordinatorsCollide) }

func coordinatorsCollide(t *testing.T) {
	store, mutex, events := memstore.New(), new(busyMutex), new(journal)
	share := func(cfg *service.Config, p *service.Ports) { p.Mutex, cfg.OnGroupEvents = mutex, events.group }
	both := []*service.Coordinator{start(t, store, share), start(t, store, share)}
	if _, err := both[0].CreateStream(t.Context(), "orders", shards(12)); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, both[0], 12, a)
	members := []*beat{a}
	for i := range 5 {
		b := &beat{id: fmt.Sprint("b", i), incarnation: fmt.Sprint("i", i)}
		members = append(members, b)
		for n := range 4 {
			for j, m := range members {
				if r := m.send(t, both[(i+j+n)%2]); r.Status != protocol.StatusOK {
					t.Fatalf("%s: %s %s", m.id, r.Status, r.Reason)
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	settle(t, both[1], 12, members...)
	if len(events.over()) > 0 {
		t.Errorf("somebody ended: %v", events.over())
	}

	mutex.set(true)
	x, y := &beat{id: "x", incarnation: "x1"}, &beat{id: "y", incarnation: "y1"}
	if r := x.send(t, both[0]); r.Status != protocol.StatusOK {
		t.Fatalf("a join without a collision: %s %s", r.Status, r.Reason)
	}
	if r := both[1].Heartbeat(t.Context(), "orders", "billing", y.next()); r.Status != protocol.StatusRetry {
		t.Errorf("a join that collides and cannot have the mutex: %s %s", r.Status, r.Reason)
	}
	if _, err := both[0].CreateGroup(t.Context(), "orders", "audit", byTest); !errors.Is(err, protocol.ErrMutexUnavailable) {
		t.Errorf("a create without the mutex: %v", err)
	}
	mutex.set(false)
	if r := y.send(t, both[1]); r.Status != protocol.StatusOK {
		t.Errorf("the join again: %s %s", r.Status, r.Reason)
	}
}

// A coordinator that is cut off while it has the mutex gives it back.
func TestTheMutexIsGivenBack(t *testing.T) { synctest.Test(t, mutexGivenBack) }

func mutexGivenBack(t *testing.T) {
	inner, mutex := memstore.New(), new(memstore.Mutex)
	well := start(t, inner, func(_ *service.Config, p *service.Ports) { p.Mutex = mutex })
	if _, err := well.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, well, 2, a)
	slow := &shaky{Store: inner}
	c, err := service.New(service.Config{ID: "slow", Timings: fast, TickInterval: 300 * time.Millisecond}, service.Ports{Store: slow, Mutex: mutex})
	if err != nil {
		t.Fatal(err)
	}
	// Its view is older than what well writes: its save collides, and the load
	// after that, under the mutex, never comes back.
	if r := c.Heartbeat(t.Context(), "orders", "billing", a.next()); r.Status != protocol.StatusOK {
		t.Fatal(r.Reason)
	}
	if r := (&beat{id: "b", incarnation: "b1"}).send(t, well); r.Status != protocol.StatusOK {
		t.Fatal(r.Reason)
	}
	slow.set(func(s *shaky) {
		s.before = func(call string) error {
			if call == "SaveGroup" {
				slow.set(func(s *shaky) { s.hang = true })
			}
			return nil
		}
	})
	heard := make(chan protocol.HeartbeatResponse, 1)
	q := (&beat{id: "x", incarnation: "x1"}).next()
	go func() { heard <- c.Heartbeat(context.Background(), "orders", "billing", q) }()
	time.Sleep(50 * time.Millisecond)
	if free(mutex) {
		t.Fatal("the mutex is free, so this proves nothing")
	}
	closing, done := context.WithTimeout(t.Context(), time.Second)
	defer done()
	if err := c.Close(closing); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if r := <-heard; r.Status != protocol.StatusRetry {
		t.Errorf("the heartbeat is answered %s", r.Status)
	}
	if !free(mutex) {
		t.Error("the mutex was kept")
	}
}

// free reports whether the group's mutex can be had.
func free(m port.Mutex) bool {
	ctx, done := context.WithTimeout(context.Background(), time.Millisecond)
	defer done()
	unlock, err := m.LockGroup(ctx, port.GroupKey{Stream: "orders", Group: "billing"})
	if err != nil {
		return false
	}
	unlock()
	return true
}

func TestMembersAreListedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, memstore.New(), nil)
		if _, err := c.CreateStream(t.Context(), "orders", shards(3)); err != nil {
			t.Fatal(err)
		}
		settle(t, c, 3, &beat{id: "c", incarnation: "1"}, &beat{id: "a", incarnation: "1"}, &beat{id: "b", incarnation: "1"})
		list, err := c.Members(t.Context(), "orders", "billing")
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range list.Members {
			ids = append(ids, m.MemberID)
		}
		if !slices.Equal(ids, []string{"a", "b", "c"}) {
			t.Errorf("the members are %v", ids)
		}
	})
}
