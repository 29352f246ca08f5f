package main

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/assign"
)

// compare takes all events at these sizes through all rounds.
func compare(sizes []size, s settings) ([]result, error) {
	var results []result
	for _, size := range sizes {
		for _, e := range events {
			r, err := examine(size, e)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", size, e.name, err)
			}
			results = append(results, r)
		}
	}
	for range s.rounds {
		for i := range results {
			r := &results[i]
			t, err := race(r.size, r.event, s.sample)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", r.size, r.event.name, err)
			}
			r.rounds = append(r.rounds, t)
		}
	}
	return results, nil
}

// examine lets both plan once and keeps everything but the times.
func examine(size size, e event) (result, error) {
	g := e.happen(scattered(size))
	p := newPeer(g)
	r := result{size: size, event: e, minMoves: assign.MinMoves(g.owner, g.owner, g.members)}

	var err error
	if r.ours, err = g.judge(plan(g)); err != nil {
		return result{}, err
	}
	answer, _, err := p.plan()
	if err != nil {
		return result{}, err
	}
	target, err := p.target(answer)
	if err != nil {
		return result{}, err
	}
	if r.peer, err = g.judge(target); err != nil {
		return result{}, fmt.Errorf("peer: %w", err)
	}
	r.ourAllocs = testing.AllocsPerRun(5, func() { plan(g) })
	r.peerAllocs = testing.AllocsPerRun(1, func() { _, _, err = p.plan() })
	return r, err
}

// plan is ours.
func plan(g group) []int32 {
	return assign.Plan(g.owner, g.owner, g.members)
}

// turns is how often the two take turns in one round.
const turns = 4

// race times both on one event, in short turns, so that a disturbance of the
// machine meets both. The group is made for this race alone: with all of them
// alive, each garbage collection would make one assignor pay for marking the
// reports that lie ready for the other.
func race(size size, e event, sample time.Duration) (times, error) {
	g := e.happen(scattered(size))
	p := newPeer(g)
	var ours, peer lap
	runtime.GC() // start without what came before
	for range turns {
		ours.add(lapOurs(g, sample/turns))
		l, err := lapPeer(p, sample/turns)
		if err != nil {
			return times{}, err
		}
		peer.add(l)
	}
	return times{
		ours:    ours.path / time.Duration(ours.calls),
		balance: peer.balance / time.Duration(peer.calls),
		path:    peer.path / time.Duration(peer.calls),
	}, nil
}

// lap is some calls in a row, and their time in all.
type lap struct {
	peerTime

	calls int
}

func (l *lap) add(o lap) {
	l.calls += o.calls
	l.balance += o.balance
	l.path += o.path
}

// lapOurs plans until that took atLeast so long. It looks at the clock more and
// more rarely, since one call may take no longer than that look.
func lapOurs(g group, atLeast time.Duration) lap {
	var l lap
	start := time.Now()
	for calls := 1; l.path < atLeast; calls *= 2 {
		for range calls {
			plan(g)
		}
		l.calls += calls
		l.path = time.Since(start)
	}
	l.balance = l.path // ours has no more to it
	return l
}

// lapPeer lets the peer plan until its balancing took atLeast so long.
func lapPeer(p *peer, atLeast time.Duration) (lap, error) {
	var l lap
	for l.balance < atLeast {
		_, took, err := p.plan()
		if err != nil {
			return lap{}, err
		}
		l.add(lap{peerTime: took, calls: 1})
	}
	return l, nil
}
