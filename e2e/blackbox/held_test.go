package blackbox

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/http/httpload"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

const (
	// heldMembers wait in these tests, as long as the protocol allows.
	heldMembers = 1000
	heldWait    = 10 * time.Second
	// standstill is for how long the machine may stand still while answers are timed.
	standstill = 4 * time.Second
)

// heldHeartbeats are those of a group whose members all wait for an answer, each on a connection of its
// own.
type heldHeartbeats struct {
	conns []*httpload.Conn
	// sent is when each was sent.
	sent []time.Time
}

// hold lets so many members join, and then wait.
func hold(t *testing.T, c *coordinator, members int) *heldHeartbeats {
	t.Helper()
	target, err := httpload.NewTarget(c.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	beat := httpload.NewHTTPBeat(target, stream, group, startTimeout)
	defer beat.Close()
	fleet := httpload.NewFleet("member-", members)
	if err := fleet.Settle(t.Context(), members, 200, beat.Beat); err != nil {
		t.Fatal(err)
	}
	h := &heldHeartbeats{conns: make([]*httpload.Conn, members), sent: make([]time.Time, members)}
	for i, q := range fleet.Requests() {
		q.MaxWaitMs = heldWait.Milliseconds()
		body, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := httpload.Dial(t.Context(), target)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		h.sent[i] = time.Now()
		if err := conn.Send(target.HeartbeatRequest(stream, group, q.MemberID, body), 0); err != nil {
			t.Fatal(err)
		}
		h.conns[i] = conn
	}
	// A lease is renewed when the request comes, so this shows that all have.
	faultkit.Eventually(t, startTimeout, "all heartbeats have come", func() bool {
		come := 0
		for _, m := range c.members() {
			if m.LastHeartbeatAt != nil && !m.LastHeartbeatAt.Before(h.sent[0].Truncate(time.Millisecond)) {
				come++
			}
		}
		return come == members
	})
	return h
}

// answers reads all answers and returns when they came.
func (h *heldHeartbeats) answers(t *testing.T) (came []time.Time) {
	t.Helper()
	came = make([]time.Time, len(h.conns))
	var reading sync.WaitGroup
	for i, c := range h.conns {
		reading.Go(func() {
			status, body, err := c.Receive(startTimeout)
			came[i] = time.Now()
			if err != nil || status != http.StatusOK || !bytes.Contains(body, []byte(`"status":"OK"`)) {
				t.Errorf("a held heartbeat is answered %d %.200s, %v", status, body, err)
			}
		})
	}
	reading.Wait()
	return came
}

// startHolding runs a coordinator, in memory, that may hold heartbeats as long as any.
func startHolding(t *testing.T) *coordinator {
	t.Helper()
	c := newCoordinator(t, "--set", "coordinator.member-lease-ttl=30s", "--set", "coordinator.streams.provisioning-enabled=false")
	c.CreateStream(stream, heldMembers)
	return c
}

// SIGTERM with a thousand heartbeats held: each is answered, within a second, and the
// process ends in order.
func TestHeldHeartbeatsAreAnsweredAtTheEnd(t *testing.T) {
	need(t)
	c := startHolding(t)
	h := hold(t, c, heldMembers)
	asked := time.Now()
	c.Proc.Signal(syscall.SIGTERM)
	var last time.Time
	released := 0
	for i, came := range h.answers(t) {
		if came.Before(h.sent[i].Add(heldWait)) {
			released++ // and did not come to its own end
		}
		if came.After(last) {
			last = came
		}
	}
	took := last.Sub(asked)
	t.Logf("%d held heartbeats were answered within %s of SIGTERM, %d of them before their time; the first was held for %s before", heldMembers, took, released, asked.Sub(h.sent[0]))
	if took > time.Second+standstill {
		t.Errorf("the last of %d held heartbeats was answered after %s, want 1s, and %s on top for a machine that stands still", heldMembers, took, standstill)
	}
	if released < heldMembers/2 {
		t.Errorf("only %d of %d held heartbeats were answered before their time", released, heldMembers)
	}
	if code := c.Proc.Wait(startTimeout); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// No wait is longer than 10 s, whatever is asked for: proxies cut connections off on
// which nothing is said for a while, 60 s by default in most.
func TestNoHeartbeatIsHeldForLong(t *testing.T) {
	need(t)
	t.Parallel()
	c := newCoordinator(t, "--set", "coordinator.member-lease-ttl=66s", "--set", "coordinator.rebalance-timeout=66s", "--set", "coordinator.streams.provisioning-enabled=false")
	c.CreateStream(stream, 1)
	target, err := httpload.NewTarget(c.URL, "", "")
	if err != nil {
		t.Fatal(err)
	}
	beat := httpload.NewHTTPBeat(target, stream, group, time.Minute)
	defer beat.Close()
	fleet := httpload.NewFleet("member-", 1)
	if err := fleet.Settle(t.Context(), 1, 1, beat.Beat); err != nil {
		t.Fatal(err)
	}
	q := fleet.Requests()[0]
	q.MaxWaitMs = time.Hour.Milliseconds()
	began := time.Now()
	r, err := beat.Beat(t.Context(), q)
	// A third of the lease would be twice as long.
	if took := time.Since(began); err != nil || r.Status != protocol.StatusOK || took < heldWait-time.Second || took >= 2*heldWait {
		t.Errorf("answered %+v, %v after %s, want OK after %s", r, err, took, heldWait)
	}
}
