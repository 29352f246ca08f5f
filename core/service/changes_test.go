package service_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// slowTick leaves a coordinator nothing but the signal for a while.
const slowTick = 300 * time.Millisecond

// hold sends a heartbeat that is to be held, and returns where its answer comes.
func hold(c *service.Coordinator, m *beat) <-chan protocol.HeartbeatResponse {
	q := m.next()
	q.MaxWaitMs = fast.Lease.Milliseconds()
	heard := make(chan protocol.HeartbeatResponse, 1)
	go func() { heard <- c.Heartbeat(context.Background(), "orders", "billing", q) }()
	synctest.Wait()
	return heard
}

// TestAHeldHeartbeatHearsOfAnothersChange: a member waits at one coordinator, and
// another one changes the group: the answer takes no time.
func TestAHeldHeartbeatHearsOfAnothersChange(t *testing.T) {
	synctest.Test(t, aHeldHeartbeatHearsOfAnothersChange)
}

func aHeldHeartbeatHearsOfAnothersChange(t *testing.T) {
	store := memstore.New()
	signals := func(cfg *service.Config, p *service.Ports) { cfg.TickInterval, p.Signal = slowTick, store }
	here, there := start(t, store, signals), start(t, store, signals)
	if _, err := here.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, here, 2, a)
	settle(t, there, 2, a)
	for _, change := range []struct {
		name string
		do   func() error
	}{
		{"a join", func() error { b.send(t, here); return nil }},
		{"a deletion", func() error {
			_, err := here.DeleteGroup(t.Context(), "orders", "billing", protocol.Delete{RequestedBy: "test", Reason: "test", Force: true})
			return err
		}},
	} {
		heard := hold(there, a)
		began := time.Now()
		if err := change.do(); err != nil {
			t.Fatalf("%s: %v", change.name, err)
		}
		a.last = <-heard
		if took := time.Since(began); took > time.Millisecond {
			t.Errorf("%s: a heard of it after %s: %+v", change.name, took, a.last)
		}
		if change.name == "a join" {
			if n := len(a.last.Assignment.AssignedShards); n != 1 {
				t.Errorf("a has %d shards after the join", n)
			}
			settle(t, there, 2, a, b)
		}
	}
}

// manual is a signal that says what the test says.
type manual struct{ tell chan port.Change }

func (m manual) Watch(ctx context.Context, changed func(port.Change)) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-m.tell:
			changed(c)
		}
	}
}

// TestWhoDidNotListenReads: after an interruption the group is read, if anybody
// waits, and who has missed something is answered.
func TestWhoDidNotListenReads(t *testing.T) { synctest.Test(t, whoDidNotListenReads) }

func whoDidNotListenReads(t *testing.T) {
	store, signal := memstore.New(), manual{make(chan port.Change)}
	here := start(t, store, nil)
	there := start(t, store, func(cfg *service.Config, p *service.Ports) { cfg.TickInterval, p.Signal = slowTick, signal })
	if _, err := here.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	a, b := &beat{id: "a", incarnation: "a1"}, &beat{id: "b", incarnation: "b1"}
	settle(t, here, 2, a)
	settle(t, there, 2, a)
	heard := hold(there, a)
	began := time.Now()
	b.send(t, here)
	signal.tell <- port.Change{Key: port.GroupKey{Stream: "orders", Group: "nobody"}, Revision: 1, Nonce: "n"}
	signal.tell <- port.Change{Any: true}
	if r := <-heard; len(r.Assignment.AssignedShards) != 1 || time.Since(began) > time.Millisecond {
		t.Errorf("a after %s: %+v", time.Since(began), r)
	}
	if n := there.Runners(); n != 1 {
		t.Errorf("%d groups are run, one of them for a name that was only told", n)
	}
}

// TestOnesOwnWritesAreNoNews: a coordinator that hears of its own saves does not
// read the group for that.
func TestOnesOwnWritesAreNoNews(t *testing.T) { synctest.Test(t, onesOwnWritesAreNoNews) }

func onesOwnWritesAreNoNews(t *testing.T) {
	inner := memstore.New()
	loads, saves := 0, 0
	store := &shaky{Store: inner}
	c := start(t, store, func(cfg *service.Config, p *service.Ports) { cfg.TickInterval, p.Signal = slowTick, inner })
	if _, err := c.CreateStream(t.Context(), "orders", shards(40)); err != nil {
		t.Fatal(err)
	}
	a := &beat{id: "a", incarnation: "a1"}
	settle(t, c, 40, a)
	time.Sleep(slowTick * 2)
	heard := hold(c, a)
	store.set(func(s *shaky) {
		s.before = func(call string) error {
			switch call {
			case "LoadGroup":
				loads++
			case "SaveGroup":
				saves++
			}
			return nil
		}
	})
	began := time.Now()
	for i := range 5 {
		m := &beat{id: string(rune('b' + i)), incarnation: "1"}
		m.send(t, c)
		synctest.Wait()
		if i == 0 {
			a.last = <-heard
			heard = hold(c, a)
		}
	}
	if took := time.Since(began); took > time.Millisecond {
		t.Fatalf("it took %s, so that ticks are among the loads", took)
	}
	if saves < 5 || loads != 0 {
		t.Errorf("%d loads with %d saves, want none", loads, saves)
	}
}

// indexed is a store whose index can be repaired.
type indexed struct {
	port.Store
	repairs chan struct{}
	err     error
}

func (s *indexed) RepairIndex(context.Context) (port.Repair, error) {
	s.repairs <- struct{}{}
	return port.Repair{Added: 1}, s.err
}

func TestTheIndexIsRepaired(t *testing.T) { synctest.Test(t, theIndexIsRepaired) }

func theIndexIsRepaired(t *testing.T) {
	inner := memstore.New()
	store := &indexed{Store: inner, repairs: make(chan struct{}, 2)}
	c := start(t, store, nil)
	if done, err := c.RepairIndex(t.Context()); err != nil || done.Added != 1 {
		t.Errorf("repair: %+v, %v", done, err)
	}
	<-store.repairs
	// Once more by itself, after a loss.
	inner.Clear()
	time.Sleep(time.Second)
	if len(store.repairs) != 1 {
		t.Errorf("%d repairs after a loss, want 1", len(store.repairs))
	}
	broken := start(t, &indexed{Store: memstore.New(), repairs: store.repairs, err: errors.New("away")}, nil)
	<-store.repairs
	if _, err := broken.RepairIndex(t.Context()); !errors.Is(err, protocol.ErrStoreUnavailable) {
		t.Errorf("a repair that did not work: %v", err)
	}
	other := start(t, memstore.New(), nil)
	if done, err := other.RepairIndex(t.Context()); err != nil || done != (port.Repair{}) {
		t.Errorf("a store without an index: %+v, %v", done, err)
	}
}
