package service_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/group"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// moved is a store that answers as another instance, as after a failover.
type moved struct{ port.Store }

func (m moved) LoadGroup(ctx context.Context, key port.GroupKey, _ port.Version) (port.GroupRecord, error) {
	rec, err := m.Store.LoadGroup(ctx, key, port.Version{})
	rec.Version.Instance = "elsewhere"
	return rec, err
}

func (m moved) SaveGroup(ctx context.Context, key port.GroupKey, s port.GroupSave) (port.Version, error) {
	s.Expected.Instance = ""
	at, err := m.Store.SaveGroup(ctx, key, s)
	at.Instance = "elsewhere"
	return at, err
}

// still is a coordinator whose event loop does not run, and which has no mutex.
func still(t *testing.T, store port.Store) *service.Coordinator {
	t.Helper()
	c, err := service.New(service.Config{ID: "test", Timings: fast, TickInterval: 20 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}, service.Ports{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// An operator is the first who meets the group after a failover: his change does not hide
// that the last writes may be lost.
func TestAnOperatorsChangeNoticesAFailover(t *testing.T) { synctest.Test(t, changeNoticesAFailover) }

func changeNoticesAFailover(t *testing.T) {
	store := memstore.New()
	before := still(t, store)
	if _, err := before.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := before.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	slower := fast
	slower.Lease *= 2
	slower.RebalanceTimeout *= 2
	if _, err := still(t, moved{store}).SetTimings(t.Context(), "orders", "billing", slower); err != nil {
		t.Fatal(err)
	}
	rec, err := store.LoadGroup(t.Context(), port.GroupKey{Stream: "orders", Group: "billing"}, port.Version{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := group.Decode(rec.Body)
	if err != nil || s.Correction == nil || s.Timings != slower {
		t.Errorf("correction %+v, timings %+v, %v", s.Correction, s.Timings, err)
	}
}

// A failover has lost what a group had adopted, and nothing of the stream, whose record
// lies elsewhere: the group is told again.
func TestAGroupThatWentBackAdoptsAgain(t *testing.T) { synctest.Test(t, adoptsAgain) }

func adoptsAgain(t *testing.T) {
	store := memstore.New()
	before := still(t, store)
	if _, err := before.CreateStream(t.Context(), "orders", shards(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := before.CreateGroup(t.Context(), "orders", "billing", byTest); err != nil {
		t.Fatal(err)
	}
	key := port.GroupKey{Stream: "orders", Group: "billing"}
	read := func() (port.GroupRecord, group.State) {
		t.Helper()
		rec, err := store.LoadGroup(t.Context(), key, port.Version{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := group.Decode(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		return rec, s
	}
	rec, s := read()
	old := group.New("orders", "billing", 1, s.StreamVersion-1, fast, s.CreatedAt)
	old.Saving(group.Save{Revision: rec.Version.Revision + 1, Nonce: "old"}, rec.Version.Instance)
	body, err := group.Encode(&old)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.SaveGroup(t.Context(), key, port.GroupSave{Expected: rec.Version, Nonce: "old", Body: body}); err != nil {
		t.Fatal(err)
	}
	start(t, moved{store}, nil)
	for began := time.Now(); old.ReadCount != 2; _, old = read() {
		if time.Since(began) > 30*time.Second {
			t.Fatalf("the group reads %d shards of 2", old.ReadCount)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
