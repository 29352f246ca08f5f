package sql_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/sql"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// testTablesAreMadeOnce: programs that start together.
func testTablesAreMadeOnce(t *testing.T, p place) {
	const programs = 8
	stores, errs := make([]*sql.Store, programs), make([]error, programs)
	configs := make([]sql.Config, programs)
	for i := range configs {
		configs[i] = p.config()
	}
	var starting sync.WaitGroup
	for i := range programs {
		starting.Go(func() {
			stores[i], errs[i] = sql.Open(t.Context(), configs[i])
		})
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	first, err := stores[0].Identity(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	instance, err := stores[0].Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range stores {
		id, err := s.Identity(t.Context(), "")
		name, failed := s.Ping(t.Context())
		if err != nil || failed != nil || id != first || name != instance {
			t.Errorf("store %d is %+v at %s, the first %+v at %s: %v, %v", i, id, name, first, instance, err, failed)
		}
	}
}

func testNewerTablesAreRefused(t *testing.T, p place) {
	s := open(t, p.config())
	if err := s.SetSchema(t.Context(), 99); err != nil {
		t.Fatal(err)
	}
	_, err := sql.Open(t.Context(), p.config())
	if !errors.Is(err, sql.ErrSchema) || !strings.Contains(err.Error(), "version 99") {
		t.Errorf("tables of version 99: %v", err)
	}
}

// testDroppedTables: whoever drops them all has emptied the store, and knows it.
func testDroppedTables(t *testing.T, p place) {
	s := open(t, p.config())
	before, err := s.Identity(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	v := save(t, s, port.Version{})
	if err := s.DropTables(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LoadGroup(t.Context(), orders, v); err == nil {
		t.Error("a table that is not there was loaded from")
	}
	after, err := s.Identity(t.Context(), before.ID)
	if err != nil || after.ID == before.ID || !after.Emptied {
		t.Errorf("after all was dropped: %+v, %v; before %+v", after, err, before)
	}
	r := load(t, s)
	if r.Version.Revision != 0 || r.Version.Instance == v.Instance {
		t.Errorf("after all was dropped there is %+v, was %+v", r, v)
	}
}

// testDamagedRecord is an error to whoever loads it, and to nobody else.
func testDamagedRecord(t *testing.T, p place) {
	s := open(t, p.config())
	save(t, s, port.Version{})
	if err := s.Damage(t.Context(), orders); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LoadGroup(t.Context(), orders, port.Version{}); !errors.Is(err, protocol.ErrCorrupt) {
		t.Errorf("load: %v", err)
	}
	if _, err := s.LoadGroup(t.Context(), port.GroupKey{Stream: "orders", Group: "other"}, port.Version{}); err != nil {
		t.Errorf("load of another: %v", err)
	}
	if list, err := s.ListGroups(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}
}
