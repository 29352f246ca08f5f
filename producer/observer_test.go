package producer_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/producer"
	"github.com/redis-stream-coordinator/rsc/producer/internal/redistest"
)

// recorder is an observer that keeps what it is told.
type recorder struct {
	producer.NopObserver

	mu        sync.Mutex
	published []producer.PublishedEvent
	failed    []producer.FailedEvent
	exchanged []producer.ExchangedEvent
	dropped   []producer.DroppedEvent
	changed   []producer.RoutingChangedEvent
	unrouted  []producer.RoutingFailedEvent
	redirects []producer.RedirectedEvent
}

func (r *recorder) do(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *recorder) Published(e producer.PublishedEvent) {
	r.do(func() { r.published = append(r.published, e) })
}
func (r *recorder) Failed(e producer.FailedEvent) { r.do(func() { r.failed = append(r.failed, e) }) }
func (r *recorder) Exchanged(e producer.ExchangedEvent) {
	r.do(func() { r.exchanged = append(r.exchanged, e) })
}
func (r *recorder) Dropped(e producer.DroppedEvent) {
	r.do(func() { r.dropped = append(r.dropped, e) })
}
func (r *recorder) RoutingChanged(e producer.RoutingChangedEvent) {
	r.do(func() { r.changed = append(r.changed, e) })
}
func (r *recorder) RoutingFailed(e producer.RoutingFailedEvent) {
	r.do(func() { r.unrouted = append(r.unrouted, e) })
}
func (r *recorder) Redirected(e producer.RedirectedEvent) {
	r.do(func() { r.redirects = append(r.redirects, e) })
}

func TestObserver(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 3)
	c := newCoordinator(2)
	r := new(recorder)
	p := open(t, c, server.Addr, limited(5, producer.DropWhenFullExactly), func(cfg *producer.Config) {
		cfg.Observer, cfg.RefreshInterval = r, 100*time.Millisecond
	})
	if _, err := p.Publish(t.Context(), message("k", "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.PublishBatch(t.Context(), []producer.Message{message("k", "y"), {Key: "k"}, message("k", "z")}); err == nil {
		t.Fatal("a message without content was stored")
	}
	outcomes(t, send(t, p, numbered(10, 1)...))
	c.set(func(c *coordinator) { c.err = errAway })
	eventually(t, "a failure", func() bool { return p.Stats().RoutingFailures > 0 })
	c.set(func(c *coordinator) { c.err, c.shards = nil, 3 })
	eventually(t, "a change", func() bool { return p.Stats().RoutingChanges > 0 })
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	if len(r.published) != 12 || r.published[0].Bytes != len("rsc-key"+"k"+"payload"+"x") || r.published[0].Receipt.ID == "" {
		t.Errorf("%d published, the first %+v", len(r.published), r.published[0])
	}
	for _, e := range r.published {
		if e.Latency <= 0 || e.Latency > time.Minute {
			t.Errorf("latency %s", e.Latency)
		}
	}
	if len(r.failed) != 2 || r.failed[0].Err.Code != "INVALID_MESSAGE" || r.failed[1].Err.Code != "EARLIER_FAILED" {
		t.Errorf("failed %+v", r.failed)
	}
	messages, confirmed := 0, 0
	for _, e := range r.exchanged {
		messages += e.Messages
		confirmed += e.Stored
		if e.Addr != server.Addr || e.RoundTrip <= 0 {
			t.Errorf("exchanged %+v", e)
		}
	}
	if messages != 12 || confirmed != 12 {
		t.Errorf("%d messages in requests, %d confirmed", messages, confirmed)
	}
	if len(r.dropped) == 0 || r.dropped[0].Drops.Unread == 0 || r.dropped[0].StreamKey == "" {
		t.Errorf("dropped %+v", r.dropped)
	}
	want := []producer.RoutingChangedEvent{{MetadataVersion: 102, Shards: 2, Before: -1}, {MetadataVersion: 103, Shards: 3, Before: 2}}
	if len(r.changed) != 2 || r.changed[0] != want[0] || r.changed[1] != want[1] {
		t.Errorf("changed %+v", r.changed)
	}
	if len(r.unrouted) == 0 || r.unrouted[0].Err == nil || r.unrouted[0].LeaseLeft <= 0 {
		t.Errorf("unrouted %+v", r.unrouted)
	}
	s := p.Stats()
	if s.Published != 12 || s.Failed["INVALID_MESSAGE"] != 1 || s.Failed["EARLIER_FAILED"] != 1 || s.Unknown != 0 ||
		s.Attempts != 12 || int(s.Exchanges) != len(r.exchanged) {
		t.Errorf("stats %+v", s)
	}
}

type panicking struct{ producer.NopObserver }

func (panicking) Published(producer.PublishedEvent) { panic("no") }

func TestObserverThatPanics(t *testing.T) {
	server := redistest.Start(t)
	provision(t, server.Client, 1)
	var log bytes.Buffer
	p := open(t, newCoordinator(1), server.Addr, func(cfg *producer.Config) {
		cfg.Observer, cfg.Logger = panicking{}, slog.New(slog.NewTextHandler(&log, nil))
	})
	for range 3 {
		if got := firstOf(outcomes(t, send(t, p, message("k", "x")))); got != "ok" {
			t.Fatal(got)
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "the Observer panicked"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &log)
	}
}
