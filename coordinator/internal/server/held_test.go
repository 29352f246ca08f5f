package server

import (
	"encoding/json"
	"runtime"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Clients that go away while their heartbeats are held leave nothing behind: no
// goroutine, and no hold that would keep their next heartbeat from being answered.
func TestClientsThatGoAwayLeaveNothing(t *testing.T) {
	const members = 200
	r := run(t, settings(t, "coordinator.member-lease-ttl=30s"), Options{})
	r.mustCall(t, "POST", "/coord/v1/streams/orders", create, 201)
	target, err := httpload.NewTarget(r.URL(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	start := runtime.NumGoroutine()
	beats := httpload.NewHTTPBeat(target, "orders", "billing", patience)
	fleet := httpload.NewFleet("m-", members)
	if err := fleet.Settle(t.Context(), 2, members, beats.Beat); err != nil {
		t.Fatal(err)
	}
	beats.Close()
	// The group has a few of its own; each connection has two.
	eventually(t, "the connections are closed", func() bool { return runtime.NumGoroutine() <= start+members/10 })
	before := runtime.NumGoroutine()
	requests := fleet.Requests()
	conns := make([]*httpload.Conn, members)
	for i, q := range requests {
		one := *q
		one.MaxWaitMs = 10_000
		body, err := json.Marshal(&one)
		if err != nil {
			t.Fatal(err)
		}
		if conns[i], err = httpload.Dial(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conns[i].Close() })
		if err := conns[i].Send(target.HeartbeatRequest("orders", "billing", q.MemberID, body), 0); err != nil {
			t.Fatal(err)
		}
	}
	// One goroutine reads from the connection of each, another waits for the answer.
	eventually(t, "all are held", func() bool { return runtime.NumGoroutine() >= before+2*members-members/10 })
	gone := time.Now()
	for _, c := range conns {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "nobody waits for them any more", func() bool { return runtime.NumGoroutine() <= before+5 })
	if took := time.Since(gone); took > 5*time.Second {
		t.Errorf("it took %s until they were forgotten: their waits had to end first", took)
	}
	again := httpload.NewHTTPBeat(target, "orders", "billing", patience)
	defer again.Close()
	for _, q := range requests {
		if a, err := again.Beat(t.Context(), q); err != nil || a.Status != protocol.StatusOK {
			t.Errorf("%s: %+v, %v", q.MemberID, a, err)
		}
	}
}
