package dataplane

import (
	"slices"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// durations gathers how long something took.
type durations struct {
	mu  sync.Mutex
	all []time.Duration
}

func (d *durations) add(one time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, one)
}

// reset forgets all.
func (d *durations) reset() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = nil
}

func (d *durations) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// percentile returns 0 of nothing.
func (d *durations) percentile(p int) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.all) == 0 {
		return 0
	}
	sorted := slices.Clone(d.all)
	slices.Sort(sorted)
	return sorted[len(sorted)*p/100]
}

// observer measures a member within the test process.
type observer struct {
	consumer.NopObserver
	acks *durations
}

// Acknowledged notes the round trip of an acknowledgement.
func (o observer) Acknowledged(e consumer.AcknowledgedEvent) { o.acks.add(e.RoundTrip) }
