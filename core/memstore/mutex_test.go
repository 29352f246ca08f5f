package memstore

import (
	"testing"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

func TestMutexForgetsKeys(t *testing.T) {
	var m Mutex
	unlock, err := m.LockGroup(t.Context(), port.GroupKey{Stream: "orders", Group: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.keys) != 1 {
		t.Errorf("%d keys while one is held", len(m.keys))
	}
	unlock()
	if len(m.keys) != 0 {
		t.Errorf("%d keys after the last user left", len(m.keys))
	}
}
