package sim

import (
	"time"
)

// producer writes records, by a route that it may use for the routing lease.
type producer struct {
	w    *world
	name string
	born time.Duration
	rate float64
	// route is the last one that it was told.
	route route
	// asked counts the requests for a route; asking is true while one is open, since
	// asked at.
	asking  bool
	request int
	askedAt time.Duration
	// last is when a record of its was last accepted.
	last time.Duration
}

type route struct {
	version int64
	count   int
	// until is the end of the lease on the producer's clock, 0 before the first.
	until time.Duration
	// due is when it is to be refreshed.
	due time.Duration
}

const (
	// quiet is how long before the end nobody writes any more, so that all can be
	// handled.
	quiet = 15 * time.Second
	// resumes is how long a producer may take to write again.
	resumes = 15 * time.Second
	// routeTimeout is when a producer gives up on a request for a route.
	routeTimeout = 2 * time.Second
)

func (w *world) newProducer(name string) *producer {
	p := &producer{w: w, name: name, born: w.now, rate: w.clockRate()}
	w.after(w.between(0, time.Second), p.turn)
	return p
}

func (p *producer) mono() time.Duration { return time.Duration(float64(p.w.now-p.born) * p.rate) }

// routed reports whether it may use its route now.
func (p *producer) routed() bool { return p.route.until > 0 && p.mono() < p.route.until }

// turn writes a record, and asks for a route when it is time.
func (p *producer) turn() {
	p.w.settled = true
	if p.w.now > p.w.shape.Faulty+p.w.shape.Settle-quiet {
		return
	}
	p.w.after(p.w.between(200*time.Millisecond, 1200*time.Millisecond), p.turn)
	if !p.routed() || p.mono() >= p.route.due {
		p.ask()
	}
	if p.routed() && p.route.count > 0 {
		p.write()
	}
}

// write sends a record. It may be on its way for long: the process stops after it has
// looked at its route, or the network does.
func (p *producer) write() {
	w := p.w
	delay := w.between(time.Millisecond, 20*time.Millisecond)
	switch {
	case w.chance(w.shape.LateWrite):
		delay = w.between(w.shape.RoutingLease/2, 2*w.shape.RoutingLease)
	case w.chance(w.shape.Middle):
		delay = w.between(0, time.Second)
	}
	index := w.rng.IntN(p.route.count)
	w.after(delay, func() {
		w.settled = true
		if w.streams.add(index) {
			p.last = w.now
			return
		}
		// A definite failure: the route is old.
		w.counts.Refused++
		p.ask()
	})
}

// ask asks any coordinator for the route. The lease runs from sending.
func (p *producer) ask() {
	if p.asking && p.w.now < p.askedAt+routeTimeout {
		return
	}
	w := p.w
	p.request++
	p.asking, p.askedAt = true, w.now
	request, sent := p.request, p.mono()
	c := w.coords[w.rng.IntN(len(w.coords))]
	w.transmit(p.name, c.name, func() {
		w.settled = true
		c.routing(func(version int64, count int) {
			w.transmit(c.name, p.name, func() {
				w.settled = true
				if p.request == request {
					p.told(version, count, sent)
				}
			})
		})
	})
}

// deafen cuts the producer off from all coordinators for a while.
func (p *producer) deafen(long time.Duration) {
	p.w.logf("%s reaches no coordinator for %s", p.name, long.Truncate(time.Millisecond))
	p.w.counts.Cuts++
	for _, c := range p.w.coords {
		p.w.cuts[cut{p.name, c.name}] = p.w.now + long
	}
}

func (p *producer) told(version int64, count int, sent time.Duration) {
	lease := p.w.shape.RoutingLease
	p.asking = false
	if sent+lease < p.mono() {
		// The answer came too late.
		return
	}
	p.route = route{version: version, count: count, until: sent + lease, due: sent + lease/3}
	if !p.w.store.stream.Provisioned {
		// The stream is being made, and refuses what is written.
		return
	}
	for i := range count {
		if _, there := p.w.streams.keys[i]; !there {
			p.w.violate("a route points at a shard that does not exist: %s may write to %d of %d", p.name, i, count)
		}
	}
}
