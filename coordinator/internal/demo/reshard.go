package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

const (
	// progressEvery is the time between two looks at how a change of the shard count
	// gets on.
	progressEvery = 100 * time.Millisecond
	// changePatience is how long it may take, beyond the routing lease.
	changePatience = 15 * time.Second
)

// change is a change of the shard count.
type change struct {
	id       string
	from, to int
	// switched is when producers were sent to the new shards.
	switched time.Time
}

// scaleOut adds shards while records flow. That the change is over is not waited for:
// it goes on while the coordinator is restarted.
func (s *story) scaleOut(ctx context.Context) error {
	s.say("scaling out from %d to %d shards", s.layout.shards().written, mostShards)
	var err error
	if s.out, err = s.scale(ctx, mostShards, "the demo scales out"); err != nil {
		return err
	}
	s.say("%s are there, with the group on them; producers are told of them from now on", span(s.out.from, s.out.to))
	return s.settle(ctx, "the shards that were added")
}

// scaleIn removes shards while records flow, with a burst of records before it, so that
// the removed ones are not empty; and waits until they are gone.
func (s *story) scaleIn(ctx context.Context) error {
	// What is measured around the restart belongs to shards that are written to.
	if err := s.until(ctx, s.restart.to); err != nil {
		return err
	}
	took, err := s.follow(ctx, s.out)
	if err != nil {
		return err
	}
	s.say("scaling out to %d shards was done %d ms after the switch: the group and every producer follow", s.out.to, took.Milliseconds())
	burst := s.o.Rate
	s.say("a burst of %d records, then scaling in from %d to %d shards", burst, s.out.to, lastShards)
	if err := s.publish(ctx, burst); err != nil {
		return err
	}
	in, err := s.scale(ctx, lastShards, "the demo scales in")
	if err != nil {
		return err
	}
	removed := span(in.to, in.from)
	s.say("nothing new comes to %s; read to their ends by %s", removed, s.readers(in.to, in.from))
	if took, err = s.follow(ctx, in); err != nil {
		return err
	}
	there, err := s.inspector.existing(ctx, in.to, in.from)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("the change to %d shards is done, and these keys are still there: %s", in.to, strings.Join(there, ", "))
	}
	s.layout.drained()
	s.say("%s are empty and gone, %d ms after the switch", removed, took.Milliseconds())
	return s.settle(ctx, "the shards that are left")
}

// publish has a burst of records published, and waits until they are.
func (s *story) publish(ctx context.Context, n int) error {
	before, since := s.journal.counts().produced, time.Now()
	s.burst(n)
	for s.journal.counts().produced < before+n {
		if time.Since(since) > changePatience {
			return fmt.Errorf("a burst of %d records was not published within %s", n, changePatience)
		}
		if err := sleep(ctx, look); err != nil {
			return err
		}
	}
	return nil
}

// scale asks for another shard count; it returns when producers are told.
func (s *story) scale(ctx context.Context, to int, reason string) (change, error) {
	c := change{from: s.layout.shards().written, to: to}
	m, err := s.api.scale(ctx, to, reason)
	if err != nil {
		return c, fmt.Errorf("scale to %d shards: %w", to, err)
	}
	c.id, c.switched = m.ReshardingID, time.Now()
	s.layout.scaled(to)
	return c, nil
}

// follow waits until a change is done, tells how it gets on, and returns how long after
// the switch it was done, on the clock that the processes of one machine share.
func (s *story) follow(ctx context.Context, c change) (time.Duration, error) {
	patience := s.coordinators.routingLease + s.o.Timings.RebalanceTimeout + changePatience
	since, told := time.Now(), ""
	for {
		m, err := s.api.migration(ctx, c.id)
		switch {
		case err == nil && m.State == protocol.MigrationDeprecated:
			s.reshards++
			return max(0, m.UpdatedAt.Sub(c.switched.Round(0))), nil
		case err == nil && m.State == protocol.MigrationRolledBack:
			return 0, fmt.Errorf("the change from %d to %d shards was taken back, and nobody had asked for it", c.from, c.to)
		case err == nil && c.to < c.from:
			s.layout.drains(m.RecordsLeft)
			if now := s.progress(&m, c); now != told {
				told = now
				s.say("%s", now)
			}
		}
		if time.Since(since) > patience {
			return 0, errors.Join(fmt.Errorf("the change from %d to %d shards is %s after %s: %s", c.from, c.to, m.State, patience, blockers(&m)), err)
		}
		if err := sleep(ctx, progressEvery); err != nil {
			return 0, err
		}
	}
}

// progress tells how far the removed shards of a change are.
func (s *story) progress(m *protocol.Migration, c change) string {
	if m.RecordsLeft > 0 {
		return fmt.Sprintf("%d records are left in %s", m.RecordsLeft, span(c.to, c.from))
	}
	for _, b := range m.BlockedBy {
		if b.Kind == protocol.BlockedByRoutes {
			return fmt.Sprintf("no record is left in %s; they stay until the routing lease of %s is over", span(c.to, c.from), s.coordinators.routingLease)
		}
	}
	return fmt.Sprintf("no record is left in %s", span(c.to, c.from))
}

// blockers are the reasons why a change is not done.
func blockers(m *protocol.Migration) string {
	if len(m.BlockedBy) == 0 {
		return "nothing is said to block it"
	}
	var reasons []string
	for _, b := range m.BlockedBy {
		reasons = append(reasons, b.Reason)
	}
	return strings.Join(reasons, "; ")
}

// readers names who holds the shards from first to end.
func (s *story) readers(first, end int) string {
	latest := s.watcher.latest()
	var parts []string
	for _, name := range s.fleet.live() {
		if held := named(heldOf(&latest, name, first, end)); held != "" {
			parts = append(parts, name+" ("+held+")")
		}
	}
	if len(parts) == 0 {
		return "nobody yet"
	}
	return strings.Join(parts, " and ")
}
