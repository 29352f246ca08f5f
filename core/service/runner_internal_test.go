package service

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/engine"
	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// TestAFaultEndsNeitherProcessNorGroup: a panic in the engine is answered with
// RETRY, and the group goes on with a new engine.
func TestAFaultEndsNeitherProcessNorGroup(t *testing.T) {
	synctest.Test(t, aFaultEndsNeitherProcessNorGroup)
}

func aFaultEndsNeitherProcessNorGroup(t *testing.T) {
	c, err := New(Config{ID: "test", Logger: slog.New(slog.DiscardHandler)}, Ports{Store: memstore.New(), Mutex: new(memstore.Mutex)})
	if err != nil {
		t.Fatal(err)
	}
	n := 1
	if _, err := c.CreateStream(t.Context(), "orders", protocol.CreateStream{InitialShardCount: &n, RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	join := &protocol.Heartbeat{
		ProtocolVersion: 1, RequestID: "1", MemberID: "a", Incarnation: "a1", Capacity: protocol.Capacity{MaxConcurrency: 1},
	}
	if r := c.Heartbeat(t.Context(), "orders", "billing", join); r.Status != protocol.StatusOK {
		t.Fatalf("join: %s %s", r.Status, r.Reason)
	}
	r := c.runner(port.GroupKey{Stream: "orders", Group: "billing"}, false)
	synctest.Wait()
	// A Happening that the engine cannot look at.
	waits := make(chan protocol.HeartbeatResponse, 1)
	r.inbox <- message{what: engine.Arrived{ID: 99}, reply: waits}
	if _, answered := <-waits; answered {
		t.Error("a request that ended in a fault was answered by the engine")
	}
	if r := c.Heartbeat(t.Context(), "orders", "billing", join); r.Status != protocol.StatusOK {
		t.Errorf("after the fault: %s %s", r.Status, r.Reason)
	}
	c.release(r)
	if err := c.Close(t.Context()); err != nil {
		t.Error(err)
	}
	time.Sleep(time.Second)
}
