package demo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// story is what is done to the system while traffic flows.
type story struct {
	o            *Options
	journal      *journal
	fleet        *fleet
	watcher      *watcher
	coordinators *coordinators
	api          *api
	inspector    *inspector
	layout       *layout
	say          func(format string, args ...any)
	// startTraffic begins to publish; burst publishes so many records more.
	startTraffic func()
	burst        func(n int)

	// traffic is when records began to flow, 0 before.
	traffic time.Duration
	// restart is when a coordinator was away.
	restart window
	// out is the scaling out, reshards counts the changes of the shard count that are done.
	out      change
	reshards int
}

// The shares of the run's length at which its chapters begin, unless the one
// before takes longer.
const (
	growAt     = 0.10
	killAt     = 0.20
	dismissAt  = 0.42
	scaleOutAt = 0.50
	restartAt  = 0.58
	scaleInAt  = 0.80
)

// away is how long a coordinator stays away when it is restarted: long enough to be
// missed, and not so long that a member whose only one it is, and whose last
// heartbeat may be a third of a lease old, loses its lease.
func (s *story) away() time.Duration { return s.o.Timings.Lease / 3 }

// look is the time between two looks at something that is waited for.
const look = 20 * time.Millisecond

// play tells the story to its end.
// Errors: what did not come to pass, or the cause of ctx.
func (s *story) play(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	chapters := []struct {
		at   float64
		play func(context.Context) error
	}{
		{growAt, s.grow}, {killAt, s.kill}, {dismissAt, s.dismiss}, {scaleOutAt, s.scaleOut},
		{restartAt, s.restartCoordinator}, {scaleInAt, s.scaleIn},
	}
	for _, c := range chapters {
		if err := s.until(ctx, s.traffic+time.Duration(c.at*float64(s.o.length()))); err != nil {
			return err
		}
		if err := c.play(ctx); err != nil {
			return err
		}
	}
	return s.until(ctx, s.traffic+s.o.length())
}

// begin starts two consumers, and the traffic.
func (s *story) begin(ctx context.Context) error {
	if err := s.add(2); err != nil {
		return err
	}
	if err := s.settle(ctx, "the first consumers"); err != nil {
		return err
	}
	s.traffic = s.journal.now()
	s.startTraffic()
	s.say("records flow: %d a second, with %d keys", s.o.Rate, keys)
	return nil
}

// grow adds two consumers.
func (s *story) grow(ctx context.Context) error {
	if err := s.add(2); err != nil {
		return err
	}
	return s.settle(ctx, "the consumers that were added")
}

// kill kills the second consumer without warning.
func (s *story) kill(ctx context.Context) error {
	name := memberName(2)
	shards := s.held(name)
	s.fleet.kill(name)
	s.say("KILLED %s (kill -9) with %s; its lease of %s has to end first", name, shards, s.o.Timings.Lease)
	return s.settle(ctx, "the shards of the consumer that was killed")
}

// dismiss stops the third consumer in good order.
func (s *story) dismiss(ctx context.Context) error {
	name := memberName(3)
	s.say("asking %s to stop (SIGTERM); it has %s", name, s.held(name))
	began := time.Now()
	if err := s.fleet.dismiss(ctx, name); err != nil {
		return err
	}
	s.say("%s let go, said goodbye and ended in %d ms", name, time.Since(began).Milliseconds())
	return s.settle(ctx, "the shards of the consumer that was stopped")
}

// restartCoordinator ends the first coordinator and starts another one on its store.
func (s *story) restartCoordinator(ctx context.Context) error {
	const victim = 0
	seats := s.coordinators.known()
	name := seats[victim].name
	s.restart.from = s.journal.now()
	if err := s.coordinators.end(victim); err != nil {
		return err
	}
	if s.coordinators.shared {
		s.say("KILLED %s (kill -9), for %s; %s goes on", name, s.away(), seats[victim+1].name)
	} else {
		s.say("stopped the %s, for %s", name, s.away())
	}
	if err := sleep(ctx, s.away()); err != nil {
		return err
	}
	if err := s.coordinators.start(ctx, victim); err != nil {
		return err
	}
	s.say("%s has started again, on the same store and address", name)
	if err := s.settle(ctx, "the consumers, with the new coordinator"); err != nil {
		return err
	}
	// A member that did not find it would stop within a lease.
	s.restart.to = s.journal.now() + s.o.Timings.Lease
	return nil
}

// add starts consumers.
func (s *story) add(n int) error {
	for range n {
		c, err := s.fleet.start()
		if err != nil {
			return err
		}
		s.say("started %s, process %d", c.name, c.pid())
	}
	return nil
}

// held names the shards that a consumer holds.
func (s *story) held(name string) string {
	latest := s.watcher.latest()
	if held := named(heldOf(&latest, name, 0, s.layout.shards().read)); held != "" {
		return held
	}
	return "no shard"
}

// heldOf are the shards from first to end that a consumer holds.
func heldOf(latest *sample, name string, first, end int) (held []string) {
	for shard := first; shard < end; shard++ {
		if latest.owner(shard) == name {
			held = append(held, strconv.Itoa(shard))
		}
	}
	return held
}

// named names shards one by one, empty for none.
func named(shards []string) string {
	switch len(shards) {
	case 0:
		return ""
	case 1:
		return "shard " + shards[0]
	}
	return "shards " + strings.Join(shards, ", ")
}

// settle waits until every shard has one owner among the consumers that run, as
// the coordinator says, and, while records flow, until every owner was seen at
// work on it.
func (s *story) settle(ctx context.Context, what string) error {
	t := s.o.Timings
	patience := t.Lease + t.RebalanceTimeout + s.o.Tick + patience
	since := time.Now()
	for {
		missing := s.missing(since)
		if missing == "" {
			s.say("settled: %s", s.owners())
			return nil
		}
		if time.Since(since) > patience {
			return fmt.Errorf("%s did not settle within %s: %s", what, patience, missing)
		}
		if err := sleep(ctx, look); err != nil {
			return err
		}
	}
}

func (s *story) missing(since time.Time) string {
	latest, count := s.watcher.latest(), s.layout.shards().written
	if missing := latest.settled(s.fleet.live(), count, since); missing != "" || s.traffic == 0 {
		return missing
	}
	for shard, t := range s.journal.counts().shards[:count] {
		if owner := latest.owner(shard); t.member != owner {
			return fmt.Sprintf("%s has not handled a record of shard %d yet", owner, shard)
		}
	}
	return ""
}

// owners sums up who holds what.
func (s *story) owners() string {
	var parts []string
	for _, name := range s.fleet.live() {
		parts = append(parts, name+" "+s.held(name))
	}
	return strings.Join(parts, "; ")
}

// until waits for a moment of the run.
func (s *story) until(ctx context.Context, at time.Duration) error {
	return sleep(ctx, at-s.journal.now())
}

// sleep waits. Errors: the cause of ctx, if that ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
