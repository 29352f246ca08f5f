package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
	"github.com/redis-stream-coordinator/rsc/core/stream"
)

// shelf is a Redis that holds the shards of one stream, with records.
type shelf struct {
	fakeStreams
	// at is what each shard holds.
	at map[int]*rack
	// ids makes the last ids of shards differ.
	ids int
}

type rack struct {
	lastID  string
	records int
	// read and acked count what each group was handed out and has acknowledged.
	read, acked map[string]int
}

func newShelf() *shelf { return &shelf{at: map[int]*rack{}} }

func (s *shelf) mark(r *rack) {
	s.ids++
	r.lastID = fmt.Sprintf("%d-0", s.ids)
}

func (s *shelf) Provision(ctx context.Context, p port.Provision) error {
	if err := s.begin(ctx, fmt.Sprintf("Provision %d-%d", p.First, p.End)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := p.First; i < p.End; i++ {
		r, there := s.at[i]
		if !there {
			r = &rack{read: map[string]int{}, acked: map[string]int{}}
			s.at[i] = r
		}
		if !there || p.Renew {
			s.mark(r)
		}
		for _, g := range p.Groups {
			if _, has := r.read[g]; !has {
				r.read[g], r.acked[g] = 0, 0
			}
		}
	}
	return nil
}

func (s *shelf) LookAt(ctx context.Context, _ string, indexes []int) ([]port.Shard, error) {
	if err := s.begin(ctx, "LookAt"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []port.Shard
	for _, i := range indexes {
		out = append(out, s.describe(i))
	}
	return out, nil
}

func (s *shelf) describe(i int) port.Shard {
	r, there := s.at[i]
	if !there {
		return port.Shard{Index: i}
	}
	sh := port.Shard{Index: i, Exists: true, LastID: r.lastID, Records: int64(r.records)}
	for g, read := range r.read {
		c := port.Cursor{Group: g, Pending: int64(read - r.acked[g]), Unread: int64(r.records - read), Lag: port.Unknown}
		if c.Unread > 0 {
			c.NextID = fmt.Sprint(read)
		}
		sh.Cursors = append(sh.Cursors, c)
	}
	return sh
}

func (s *shelf) Retire(ctx context.Context, r port.Retirement) ([]port.RetireOutcome, error) {
	if err := s.begin(ctx, "Retire"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []port.RetireOutcome
	for _, ask := range r.Shards {
		now := s.describe(ask.Index)
		switch busy := func(c port.Cursor) bool {
			return !slices.Contains(r.Ignored, c.Group) && c.Pending+c.Unread > 0
		}; {
		case now.LastID != ask.LastID:
			out = append(out, port.ShardKept)
		case !ask.Force && (slices.ContainsFunc(now.Cursors, busy) || lacks(now, r.Groups)):
			out = append(out, port.ShardBusy)
		default:
			delete(s.at, ask.Index)
			out = append(out, port.ShardGone)
		}
	}
	return out, nil
}

// lacks reports whether a group is missing on a shard that holds records.
func lacks(sh port.Shard, groups []string) bool {
	return sh.Records > 0 && slices.ContainsFunc(groups, func(name string) bool {
		return !slices.ContainsFunc(sh.Cursors, func(c port.Cursor) bool { return c.Group == name })
	})
}

func (s *shelf) Find(ctx context.Context, _ string, first, end int) ([]int, error) {
	if err := s.begin(ctx, "Find"); err != nil {
		return nil, err
	}
	return s.present(first, end), nil
}

// present lists the shards that exist.
func (s *shelf) present(first, end int) (found []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := first; i < end; i++ {
		if _, there := s.at[i]; there {
			found = append(found, i)
		}
	}
	return found
}

// write adds a record, unless there is no such shard.
func (s *shelf) write(shard int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, there := s.at[shard]
	if there {
		r.records++
		s.mark(r)
	}
	return there
}

// drain has the group billing read and acknowledge all of shards.
func (s *shelf) drain(shards ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range shards {
		if r, there := s.at[i]; there {
			r.read["billing"], r.acked["billing"] = r.records, r.records
		}
	}
}

// wired gives a coordinator the shelf, and a short routing lease.
func (s *shelf) wired(cfg *service.Config, ports *service.Ports) {
	cfg.RoutingLease = time.Second
	ports.Streams, ports.Shards = s, s
}

// reshards makes a stream with a group on a shelf.
func reshards(t *testing.T, n int) (*service.Coordinator, *memstore.Store, *shelf) {
	t.Helper()
	store, redis := memstore.New(), newShelf()
	c := start(t, store, redis.wired)
	if _, err := c.CreateGroup(t.Context(), "orders", "billing", protocol.CreateGroup{InitialShardCount: &n, RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	return c, store, redis
}

func scaleTo(n int) protocol.Scale {
	return protocol.Scale{TargetShardCount: &n, RequestedBy: "test", Reason: "load"}
}

func scale(t *testing.T, c *service.Coordinator, n int) protocol.Migration {
	t.Helper()
	scaled, err := c.ScaleStream(t.Context(), "orders", scaleTo(n))
	if err != nil {
		t.Fatal(err)
	}
	return scaled.Migrations[0]
}

// pass lets time pass while members go on.
func pass(t *testing.T, c *service.Coordinator, d time.Duration, members ...*beat) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, m := range members {
			if r := m.send(t, c); !r.Status.RenewsLease() {
				t.Fatalf("%s: %s %s", m.id, r.Status, r.Reason)
			}
		}
	}
}

// comesTo waits for a state of a change while members go on.
func comesTo(t *testing.T, c *service.Coordinator, id string, want protocol.MigrationState, members ...*beat) protocol.Migration {
	t.Helper()
	var m protocol.Migration
	for begun := time.Now(); time.Since(begun) < 30*time.Second; pass(t, c, 50*time.Millisecond, members...) {
		var err error
		if m, err = c.Migration(t.Context(), "orders", id); err != nil {
			t.Fatal(err)
		}
		if m.State == want {
			return m
		}
	}
	t.Fatalf("the change is %s and not %s: %+v", m.State, want, m)
	return m
}

func TestScaleOut(t *testing.T) { synctest.Test(t, scaleOut) }

func scaleOut(t *testing.T) {
	c, _, redis := reshards(t, 2)
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	held := make(chan protocol.HeartbeatResponse)
	go func() {
		q := a.next()
		q.MaxWaitMs = 5000
		held <- c.Heartbeat(t.Context(), "orders", "billing", q)
	}()
	synctest.Wait()
	begun := time.Now()
	m := scale(t, c, 5)
	if m.State != protocol.MigrationActive || m.FromShardCount != 2 || m.ToShardCount != 5 || m.Reason != "load" {
		t.Errorf("the change is %+v", m)
	}
	if found := redis.present(0, 9); len(found) != 5 {
		t.Errorf("shards %v exist", found)
	}
	if a.last = <-held; len(a.last.Assignment.AssignedShards) != 5 {
		t.Errorf("the member that waits is told %+v", a.last.Assignment)
	}
	if d := time.Since(begun); d > 10*time.Millisecond {
		t.Errorf("it hears of it after %s", d)
	}
	r, err := c.Routing(t.Context(), "orders", "billing")
	if err != nil || r.ShardCount != 5 {
		t.Errorf("producers are told %d shards, %v", r.ShardCount, err)
	}
	if again := scale(t, c, 5); again.ReshardingID != m.ReshardingID {
		t.Errorf("the same again is %+v", again)
	}
	g, err := c.Group(t.Context(), "orders", "billing")
	if err != nil || g.ShardCount != 5 || g.ActiveMigration == nil || g.ActiveMigration.ReshardingID != m.ReshardingID {
		t.Errorf("the group is %+v, %v", g, err)
	}
	if m := comesTo(t, c, m.ReshardingID, protocol.MigrationActive); len(m.BlockedBy) != 1 || m.BlockedBy[0].Kind != protocol.BlockedByRoutes {
		t.Errorf("it waits for %+v", m.BlockedBy)
	}
	if m := comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated); len(m.BlockedBy) != 0 {
		t.Errorf("done, it waits for %+v", m.BlockedBy)
	}
	if d := time.Since(begun); d < time.Second || d > 3*time.Second {
		t.Errorf("done after %s, with a routing lease of 1 s", d)
	}
}

func TestScaleInWaitsForTheBacklog(t *testing.T) { synctest.Test(t, scaleInWaits) }

func scaleInWaits(t *testing.T) {
	c, _, redis := reshards(t, 4)
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 4, a, b)
	for i := range 4 {
		redis.write(i)
	}
	m := scale(t, c, 2)
	if r, err := c.Routing(t.Context(), "orders", "billing"); err != nil || r.ShardCount != 2 {
		t.Errorf("producers are told %d shards, %v", r.ShardCount, err)
	}
	// A producer with an old route still finds the shard, and it is read.
	if !redis.write(3) {
		t.Error("a shard was removed before the routes of before were over")
	}
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a, b)
	settle(t, c, 4, a, b)
	m = comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a, b)
	if m.Draining != 2 || m.RecordsLeft != 3 || len(m.BlockedBy) != 2 || m.BlockedBy[1].Kind != protocol.BlockedByBacklog || m.BlockedBy[1].Unread != 2 {
		t.Errorf("the drain is %+v", m)
	}
	if _, err := c.ScaleStream(t.Context(), "orders", scaleTo(3)); !errors.Is(err, protocol.ErrMigrationActive) {
		t.Errorf("another change meanwhile: %v", err)
	}
	redis.drain(3)
	pass(t, c, 3*time.Second, a, b)
	settle(t, c, 3, a, b)
	if found := redis.present(0, 9); !slices.Equal(found, []int{0, 1, 2}) {
		t.Errorf("shards %v exist", found)
	}
	redis.drain(2)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated, a, b)
	settle(t, c, 2, a, b)
	if redis.write(2) || redis.write(3) {
		t.Error("a removed shard can be written to")
	}
}

// Who reads a stream while it is removed gets an error from Redis, which old clients do
// not outlive: so an empty shard is taken from its reader first.
func TestAShardIsTakenFromItsReaderFirst(t *testing.T) { synctest.Test(t, takenFirst) }

func takenFirst(t *testing.T) {
	c, _, redis := reshards(t, 4)
	long := protocol.Timings{HeartbeatInterval: time.Second, Lease: 20 * time.Second, RebalanceTimeout: time.Minute}
	if _, err := c.SetTimings(t.Context(), "orders", "billing", long); err != nil {
		t.Fatal(err)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 4, a, b)
	m := scale(t, c, 1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a, b)
	// From here on b says nothing, and keeps what it has.
	owned := []int{}
	for _, s := range b.last.Assignment.AssignedShards {
		owned = append(owned, int(s.Shard))
	}
	pass(t, c, 3*time.Second, a)
	for _, shard := range owned {
		if shard > 0 && !slices.Contains(redis.present(0, 9), shard) {
			t.Errorf("shard %d was removed under its reader", shard)
		}
	}
	var named []int
	m = comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a)
	for _, blocker := range m.BlockedBy {
		if blocker.Kind != protocol.BlockedByReader || blocker.ConsumerGroup != "billing" || !strings.Contains(blocker.Reason, `member "b"`) {
			t.Errorf("it waits for %+v", blocker)
		}
		named = append(named, int(*blocker.Shard))
	}
	if slices.Sort(owned); !slices.Equal(named, slices.DeleteFunc(owned, func(shard int) bool { return shard == 0 })) || len(named) == 0 {
		t.Errorf("b keeps %v, and the change waits for %v", owned, named)
	}
	// The shards of a are gone meanwhile; b lets go, and its go, too.
	if found := redis.present(0, 9); len(found) != 1+len(named) {
		t.Errorf("shards %v exist", found)
	}
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated, a, b)
	settle(t, c, 1, a, b)
	if found := redis.present(0, 9); !slices.Equal(found, []int{0}) {
		t.Errorf("shards %v exist", found)
	}
}

// A member that is gone for good keeps nobody waiting for longer than its lease.
func TestAReaderThatIsGoneIsWaitedForItsLease(t *testing.T) { synctest.Test(t, goneReader) }

func goneReader(t *testing.T) {
	c, _, redis := reshards(t, 4)
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, c, 4, a, b)
	m := scale(t, c, 1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated, a)
	if found := redis.present(0, 9); !slices.Equal(found, []int{0}) {
		t.Errorf("shards %v exist", found)
	}
}

// Whatever is away, and whoever is killed: the change goes on.
func TestAnotherCoordinatorGoesOn(t *testing.T) {
	for _, call := range []string{"Provision 2-4", "LookAt", "Retire"} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { goesOn(t, call) })
		})
	}
}

func goesOn(t *testing.T, call string) {
	c, store, redis := reshards(t, 2)
	dies := func(_ context.Context, now string) error {
		if now == call {
			return protocol.ErrProvisioning.With("the power is cut")
		}
		return nil
	}
	redis.set(dies)
	to := 4
	if strings.HasPrefix(call, "Provision") {
		if _, err := c.ScaleStream(t.Context(), "orders", scaleTo(to)); !errors.Is(err, protocol.ErrProvisioning) {
			t.Fatalf("scale: %v", err)
		}
		if list, err := c.Migrations(t.Context(), "orders"); err != nil || list.Migrations[0].State != protocol.MigrationPreparing ||
			!strings.Contains(list.Migrations[0].BlockedBy[0].Reason, "the power is cut") {
			t.Errorf("the changes are %+v, %v", list, err)
		}
	} else {
		to = 1
		scale(t, c, to)
		time.Sleep(5 * time.Second)
	}
	redis.set(nil)
	other := start(t, store, redis.wired)
	list, err := other.Migrations(t.Context(), "orders")
	if err != nil || len(list.Migrations) != 1 {
		t.Fatalf("the changes are %+v, %v", list, err)
	}
	comesTo(t, other, list.Migrations[0].ReshardingID, protocol.MigrationDeprecated)
	if found := redis.present(0, 9); len(found) != to {
		t.Errorf("shards %v exist, want %d", found, to)
	}
}

func TestRollbackWhileDraining(t *testing.T) { synctest.Test(t, rollbackWhileDraining) }

func rollbackWhileDraining(t *testing.T) {
	c, _, redis := reshards(t, 4)
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 4, a)
	redis.write(2)
	m := scale(t, c, 1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining, a)
	pass(t, c, 3*time.Second, a)
	if found := redis.present(0, 9); !slices.Equal(found, []int{0, 2}) {
		t.Fatalf("shards %v exist", found)
	}
	back, err := c.GroupRollback(t.Context(), "orders", "billing", m.ReshardingID, protocol.Order{RequestedBy: "test", Reason: "too few"})
	if err != nil || back.State != protocol.MigrationRolledBack {
		t.Fatalf("rollback: %+v, %v", back, err)
	}
	settle(t, c, 4, a)
	for i := range 4 {
		if !redis.write(i) {
			t.Errorf("shard %d is not there again", i)
		}
	}
	time.Sleep(20 * time.Second)
	if found := redis.present(0, 9); len(found) != 4 {
		t.Errorf("shards %v exist later", found)
	}
	if _, err := c.GroupRollback(t.Context(), "orders", "nobody", m.ReshardingID, protocol.Order{RequestedBy: "test", Reason: "x"}); !errors.Is(err, protocol.ErrGroupNotFound) {
		t.Errorf("rollback of no group: %v", err)
	}
	if _, err := c.Rollback(t.Context(), "orders", "nothing", protocol.Order{RequestedBy: "test", Reason: "x"}); !errors.Is(err, protocol.ErrMigrationNotFound) {
		t.Errorf("rollback of nothing: %v", err)
	}
}

// A coordinator that was paused while it created shards goes on when they are long
// gone.
func TestShardsCreatedLateAreFound(t *testing.T) { synctest.Test(t, createdLate) }

func createdLate(t *testing.T) {
	c, _, redis := reshards(t, 2)
	out := scale(t, c, 4)
	comesTo(t, c, out.ReshardingID, protocol.MigrationDeprecated)
	in := scale(t, c, 2)
	comesTo(t, c, in.ReshardingID, protocol.MigrationDeprecated)
	if found := redis.present(0, 9); len(found) != 2 {
		t.Fatalf("shards %v exist", found)
	}
	if err := redis.Provision(t.Context(), port.Provision{Prefix: "orders", First: 2, End: 4, Groups: []string{"billing"}}); err != nil {
		t.Fatal(err)
	}
	redis.write(3)
	time.Sleep(15 * time.Second)
	if found := redis.present(0, 9); !slices.Equal(found, []int{0, 1, 3}) {
		t.Errorf("shards %v exist", found)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 3, a)
	redis.drain(3)
	pass(t, c, 3*time.Second, a)
	if found := redis.present(0, 9); len(found) != 2 {
		t.Errorf("shards %v exist", found)
	}
	settle(t, c, 2, a)
}

func TestAnOperatorOverrules(t *testing.T) { synctest.Test(t, overrules) }

func overrules(t *testing.T) {
	c, _, redis := reshards(t, 3)
	if err := redis.Provision(t.Context(), port.Provision{Prefix: "orders", First: 2, End: 3, Groups: []string{"foreign"}}); err != nil {
		t.Fatal(err)
	}
	redis.write(1)
	redis.write(2)
	order := protocol.Order{RequestedBy: "test", Reason: "nobody needs it"}
	if _, err := c.IgnoreGroup(t.Context(), "orders", protocol.IgnoreGroup{ConsumerGroup: "foreign", Order: order}); !errors.Is(err, protocol.ErrMigrationNotFound) {
		t.Errorf("ignore without a change: %v", err)
	}
	m := scale(t, c, 1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDraining)
	redis.drain(2)
	time.Sleep(2 * time.Second)
	m = comesTo(t, c, m.ReshardingID, protocol.MigrationDraining)
	if len(m.BlockedBy) != 2 || m.BlockedBy[1].ConsumerGroup != "foreign" {
		t.Errorf("it waits for %+v", m.BlockedBy)
	}
	if _, err := c.IgnoreGroup(t.Context(), "orders", protocol.IgnoreGroup{ConsumerGroup: "billing", Order: order}); !errors.Is(err, protocol.ErrInvalidRequest) {
		t.Errorf("ignore a group of ours: %v", err)
	}
	if _, err := c.IgnoreGroup(t.Context(), "orders", protocol.IgnoreGroup{ConsumerGroup: "foreign", Order: order}); err != nil {
		t.Fatal(err)
	}
	if found := redis.present(0, 9); !slices.Equal(found, []int{0, 1}) {
		t.Errorf("shards %v exist", found)
	}
	if _, err := c.GiveUp(t.Context(), "orders", protocol.GiveUp{Shards: protocol.Shards{0}, Order: order}); !errors.Is(err, protocol.ErrInvalidRequest) {
		t.Errorf("give up a shard that is not removed: %v", err)
	}
	if _, err := c.GiveUp(t.Context(), "orders", protocol.GiveUp{Shards: protocol.Shards{1}, Order: order}); err != nil {
		t.Fatal(err)
	}
	if m := comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated); m.Draining != 0 || len(redis.present(1, 9)) != 0 {
		t.Errorf("the end is %+v", m)
	}
}

func TestToZeroAndBack(t *testing.T) { synctest.Test(t, toZeroAndBack) }

func toZeroAndBack(t *testing.T) {
	c, _, redis := reshards(t, 2)
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 2, a)
	zero := scale(t, c, 0)
	if r, err := c.Routing(t.Context(), "orders", "billing"); err != nil || r.ShardCount != 0 || r.Shards == nil {
		t.Errorf("producers are told %+v, %v", r, err)
	}
	comesTo(t, c, zero.ReshardingID, protocol.MigrationDeprecated, a)
	settle(t, c, 0, a)
	if found := redis.present(0, 9); len(found) != 0 {
		t.Errorf("shards %v exist", found)
	}
	scale(t, c, 3)
	settle(t, c, 3, a)
}

// A group that cannot follow keeps the change from ending, is named, and keeps nobody
// else from following.
func TestAGroupThatCannotFollow(t *testing.T) { synctest.Test(t, cannotFollow) }

func cannotFollow(t *testing.T) {
	c, store, _ := reshards(t, 2)
	if _, err := c.CreateGroup(t.Context(), "orders", "audit", protocol.CreateGroup{RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	key := port.GroupKey{Stream: "orders", Group: "audit"}
	rec, err := store.LoadGroup(t.Context(), key, port.Version{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveGroup(t.Context(), key, port.GroupSave{Expected: rec.Version, Nonce: "bad", Body: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	m := scale(t, c, 4)
	if g, err := c.Group(t.Context(), "orders", "billing"); err != nil || g.ShardCount != 4 {
		t.Errorf("the other group is %+v, %v", g, err)
	}
	time.Sleep(3 * time.Second)
	m = comesTo(t, c, m.ReshardingID, protocol.MigrationActive)
	if len(m.BlockedBy) == 0 || m.BlockedBy[0].Kind != protocol.BlockedByGroup || m.BlockedBy[0].ConsumerGroup != "audit" {
		t.Errorf("it waits for %+v", m.BlockedBy)
	}
	if _, err := c.DeleteGroup(t.Context(), "orders", "audit", protocol.Delete{RequestedBy: "test", Reason: "damaged", Force: true}); err != nil {
		t.Fatal(err)
	}
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated)
}

// Every state is told, in its order.
func TestStatesAreTold(t *testing.T) { synctest.Test(t, statesAreTold) }

func statesAreTold(t *testing.T) {
	store, redis := memstore.New(), newShelf()
	var told []string
	c := start(t, store, func(cfg *service.Config, ports *service.Ports) {
		redis.wired(cfg, ports)
		cfg.OnStreamEvents = func(_ string, events []stream.Event) {
			for _, e := range events {
				switch e := e.(type) {
				case stream.Resharding:
					told = append(told, string(e.State))
				case stream.ShardsRetired:
					told = append(told, fmt.Sprint(e.Shards))
				}
			}
		}
	})
	if _, err := c.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	m := scale(t, c, 1)
	comesTo(t, c, m.ReshardingID, protocol.MigrationDeprecated)
	synctest.Wait()
	if want := []string{"PREPARING", "ACTIVE", "DRAINING", "[1]", "DEPRECATED"}; !slices.Equal(told, want) {
		t.Errorf("told are %v, want %v", told, want)
	}
}

// A coordinator that was paused before it deletes shards deletes those that it saw, not
// those of a stream that was created anew meanwhile.
func TestADeletionThatComesLate(t *testing.T) { synctest.Test(t, deletionThatComesLate) }

func deletionThatComesLate(t *testing.T) {
	c, store, redis := reshards(t, 2)
	other := start(t, store, redis.wired)
	redis.write(0)
	if _, err := c.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	order := protocol.Delete{RequestedBy: "test", Reason: "x", DeleteData: true}
	paused := make(chan struct{})
	var first atomic.Bool
	redis.set(func(_ context.Context, call string) error {
		if call == "Retire" && first.CompareAndSwap(false, true) {
			close(paused)
			time.Sleep(20 * time.Second) // longer than any mutex holds
		}
		return nil
	})
	done := make(chan error)
	go func() {
		_, err := c.DeleteStream(t.Context(), "orders", order)
		done <- err
	}()
	<-paused
	unlocked := start(t, store, func(cfg *service.Config, ports *service.Ports) {
		redis.wired(cfg, ports)
		ports.Mutex = nil
	})
	if _, err := unlocked.DeleteStream(t.Context(), "orders", order); err != nil && !errors.Is(err, protocol.ErrStreamNotFound) {
		t.Fatal(err)
	}
	if _, err := unlocked.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	redis.write(0)
	redis.write(1)
	// What it was to delete is another stream by now, which it leaves alone.
	if err := <-done; err != nil && !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("the deletion that was asked for first: %v", err)
	}
	if found := redis.present(0, 2); len(found) != 2 {
		t.Errorf("of the stream that was created anew only shards %v are left", found)
	}
	if s, err := other.Stream(t.Context(), "orders"); err != nil || s.ShardCount != 2 {
		t.Errorf("the stream is %+v, %v", s, err)
	}
}
