package consumer_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// recorder keeps every event.
type recorder struct {
	consumer.NopObserver

	mu     sync.Mutex
	events []any
}

func (r *recorder) note(e any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) ShardAssigned(e consumer.ShardAssignedEvent) { r.note(e) }
func (r *recorder) ShardRevoked(e consumer.ShardRevokedEvent)   { r.note(e) }
func (r *recorder) ShardLost(e consumer.ShardLostEvent)         { r.note(e) }
func (r *recorder) Heartbeat(e consumer.HeartbeatEvent)         { r.note(e) }
func (r *recorder) Read(e consumer.ReadEvent)                   { r.note(e) }
func (r *recorder) Handled(e consumer.HandledEvent)             { r.note(e) }
func (r *recorder) Retried(e consumer.RetriedEvent)             { r.note(e) }
func (r *recorder) DeadLettered(e consumer.DeadLetteredEvent)   { r.note(e) }
func (r *recorder) Acknowledged(e consumer.AcknowledgedEvent)   { r.note(e) }
func (r *recorder) Recovered(e consumer.RecoveredEvent)         { r.note(e) }
func (r *recorder) GroupRestored(e consumer.GroupRestoredEvent) { r.note(e) }
func (r *recorder) TroubleBegan(e consumer.TroubleBeganEvent)   { r.note(e) }
func (r *recorder) TroubleEnded(e consumer.TroubleEndedEvent)   { r.note(e) }
func (r *recorder) Trimmed(e consumer.TrimmedEvent)             { r.note(e) }
func (r *recorder) NamesRemoved(e consumer.NamesRemovedEvent)   { r.note(e) }

// of returns the events of one kind, in order.
func of[E any](r *recorder) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []E
	for _, e := range r.events {
		if e, ok := e.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

func TestObserverSeesTenuresHeartbeatsAndAcknowledgements(t *testing.T) {
	b := newBed(t, 2, steady)
	b.add(40)
	l, r := newJournal(), new(recorder)
	cfg := b.config("a", l.handler("a", nil))
	cfg.Observer = r
	c := start(t, cfg)
	l.await(t, 40)
	c.stop()
	assigned, revoked := of[consumer.ShardAssignedEvent](r), of[consumer.ShardRevokedEvent](r)
	if len(assigned) != 2 || len(revoked) != 2 || len(of[consumer.ShardLostEvent](r)) != 0 {
		t.Errorf("%d assigned, %d revoked", len(assigned), len(revoked))
	}
	for _, e := range revoked {
		if e.Cause != nil || e.Held <= 0 || e.Drained < 0 || e.Drained > e.Held || e.Shard.Key != key(e.Shard.Index) || e.Shard.Token <= 0 {
			t.Errorf("revoked: %+v", e)
		}
	}
	acknowledged := 0
	for _, e := range of[consumer.AcknowledgedEvent](r) {
		if e.Err != nil || e.RoundTrip <= 0 {
			t.Errorf("acknowledged: %+v", e)
		}
		acknowledged += e.Records
	}
	if acknowledged != 40 {
		t.Errorf("%d acknowledged", acknowledged)
	}
	beats := of[consumer.HeartbeatEvent](r)
	if len(beats) < 2 {
		t.Fatalf("%d heartbeats", len(beats))
	}
	for _, e := range beats {
		if e.Err != nil || e.Status == "" || e.RoundTrip < 0 {
			t.Errorf("heartbeat: %+v", e)
		}
	}
}

func TestObserverSeesLossAndFailedHeartbeats(t *testing.T) {
	c := newCoordinator(t, 1, fast)
	r, w := new(recorder), new(watcher)
	cfg := overHTTP(w)
	cfg.Transport, cfg.Observer = c, r
	start(t, cfg)
	eventually(t, "the shard is assigned", func() bool { return len(of[consumer.ShardAssignedEvent](r)) > 0 })
	c.setAway(true)
	eventually(t, "the shard is lost", func() bool { return len(of[consumer.ShardLostEvent](r)) > 0 })
	if e := of[consumer.ShardLostEvent](r)[0]; !errors.Is(e.Cause, consumer.ErrLeaseEnded) || e.Held <= 0 || e.Stopped < 0 {
		t.Errorf("lost: %+v", e)
	}
	eventually(t, "a heartbeat fails", func() bool {
		for _, e := range of[consumer.HeartbeatEvent](r) {
			if errors.Is(e.Err, errAway) && e.Status == "" {
				return true
			}
		}
		return false
	})
}

// troublemaker panics, and takes its time.
type troublemaker struct{ consumer.NopObserver }

func (troublemaker) Heartbeat(consumer.HeartbeatEvent)       { panic("oh") }
func (troublemaker) Acknowledged(consumer.AcknowledgedEvent) { panic("oh") }
func (troublemaker) ShardAssigned(consumer.ShardAssignedEvent) {
	panic(protocol.ErrForbidden)
}

func TestAPanicOfTheObserverIsContained(t *testing.T) {
	b := newBed(t, 2, steady)
	b.add(10)
	l, logged := newJournal(), new(logBuffer)
	cfg := b.config("a", l.handler("a", nil))
	cfg.Observer, cfg.Logger = troublemaker{}, logged.logger()
	c := start(t, cfg)
	l.await(t, 10)
	c.stop()
	if n := strings.Count(logged.String(), "the Observer panicked"); n != 1 {
		t.Errorf("it was logged %d times:\n%s", n, logged)
	}
}

// slowpoke holds every heartbeat's event up.
type slowpoke struct {
	consumer.NopObserver

	release chan struct{}
}

func (s slowpoke) Heartbeat(consumer.HeartbeatEvent) { <-s.release }

// TestASlowObserverEndsNoLease: heartbeats go on while their events are held up.
func TestASlowObserverEndsNoLease(t *testing.T) {
	c := newCoordinator(t, 1, steady)
	w := new(watcher)
	cfg := overHTTP(w)
	s := slowpoke{release: make(chan struct{})}
	cfg.Transport, cfg.Observer, cfg.MaxWait = c, s, -1
	var beats atomic.Int32
	c.watch(func(_ *protocol.Heartbeat, r *protocol.HeartbeatResponse) {
		if r != nil {
			beats.Add(1)
		}
	})
	a := start(t, cfg)
	eventually(t, "heartbeats go on", func() bool { return beats.Load() >= 5 })
	if left := a.LeaseLeft(); left <= 0 {
		t.Errorf("%s of the lease are left", left)
	}
	if got := w.all(); strings.Contains(got, "lost") {
		t.Errorf("told: %s", got)
	}
	close(s.release)
	ctx, done := context.WithTimeout(context.Background(), patience)
	defer done()
	if err := a.Close(ctx); err != nil {
		t.Errorf("Close: %v", err)
	}
}
