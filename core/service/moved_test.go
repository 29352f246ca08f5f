package service_test

import (
	"context"
	"log/slog"
	"testing"
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
func TestAnOperatorsChangeNoticesAFailover(t *testing.T) {
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
