package memstore_test

import (
	"errors"
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/port/porttest"
)

func TestStore(t *testing.T) {
	porttest.Store(t, func(*testing.T) port.Store { return memstore.New() })
}

func TestSignal(t *testing.T) {
	porttest.Signal(t, func(*testing.T) (a, b porttest.SignalStore) {
		s := memstore.New()
		return s, s
	})
}

func TestMutex(t *testing.T) {
	porttest.Mutex(t, func(*testing.T) port.Mutex { return new(memstore.Mutex) })
}

func TestEachStoreIsAnInstanceOfItsOwn(t *testing.T) {
	a, err := memstore.New().Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := memstore.New().Ping(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a == b {
		t.Errorf("two stores are both instance %s", a)
	}
}

func TestMaxBodyBytes(t *testing.T) {
	s := memstore.New()
	key := port.GroupKey{Stream: "orders", Group: "billing"}
	if _, err := s.SaveGroup(t.Context(), key, port.GroupSave{Nonce: "n", Body: make([]byte, memstore.MaxBodyBytes+1)}); !errors.Is(err, port.ErrTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
	if _, err := s.SaveGroup(t.Context(), key, port.GroupSave{Nonce: "n", Body: make([]byte, memstore.MaxBodyBytes)}); err != nil {
		t.Errorf("as many as allowed: %v", err)
	}
}
