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
	const (
		members = 200
		wait    = 10 * time.Second // the longest there is
	)
	r := run(t, settings(t, "coordinator.member-lease-ttl=1m"), Options{})
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
	bodies := make([][]byte, members)
	for i, q := range requests {
		one := *q
		one.MaxWaitMs = wait.Milliseconds()
		if bodies[i], err = json.Marshal(&one); err != nil {
			t.Fatal(err)
		}
		if conns[i], err = httpload.Dial(t.Context(), target); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conns[i].Close() })
	}
	sent := time.Now()
	for i, q := range requests {
		if err := conns[i].Send(target.HeartbeatRequest("orders", "billing", q.MemberID, bodies[i]), 0); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are held", func() bool { return r.held(t) == members })
	for _, c := range conns {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "nobody waits for them any more", func() bool { return r.held(t) == 0 && runtime.NumGoroutine() <= before+5 })
	if took := time.Since(sent); took >= wait {
		t.Errorf("they were forgotten %s after they were sent: their waits had to end first", took)
	}
	again := httpload.NewHTTPBeat(target, "orders", "billing", patience)
	defer again.Close()
	for _, q := range requests {
		if a, err := again.Beat(t.Context(), q); err != nil || a.Status != protocol.StatusOK {
			t.Errorf("%s: %+v, %v", q.MemberID, a, err)
		}
	}
}
