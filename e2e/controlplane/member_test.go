package controlplane

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// readEvery is the time between two reads of a shard.
const readEvery = 50 * time.Millisecond

// plan says which members a process runs.
type plan struct {
	Coordinators []string
	Stream       string
	Group        string
	Members      []string
	Journal      string
}

// runMembers is the program of a process of members: they live until SIGTERM.
func runMembers(ctx context.Context, p plan, log *slog.Logger) error {
	w, err := faultkit.OpenJournal(p.Journal)
	if err != nil {
		return err
	}
	ends := make([]error, len(p.Members))
	var lives sync.WaitGroup
	for i, id := range p.Members {
		lives.Go(func() { ends[i] = live(ctx, p, i, id, journal{w}, log) })
	}
	lives.Wait()
	return errors.Join(ends...)
}

// live runs a member until ctx ends. Each begins with another coordinator.
func live(ctx context.Context, p plan, turn int, id string, w journal, log *slog.Logger) error {
	turn %= len(p.Coordinators)
	r := &reader{member: id, journal: w, shards: map[int]*reading{}}
	c, err := consumer.New(consumer.Config{
		Coordinators: append(p.Coordinators[turn:len(p.Coordinators):len(p.Coordinators)], p.Coordinators[:turn]...),
		Stream:       p.Stream, Group: p.Group, MemberID: id, Lifecycle: r, Logger: log,
	})
	if err != nil {
		return err
	}
	r.left = c.LeaseLeft
	return c.Run(ctx)
}

// reader reads shards as an application with a Lifecycle would, save that there is
// nothing to read.
type reader struct {
	member  string
	journal journal
	left    func() time.Duration

	mu     sync.Mutex
	shards map[int]*reading
}

// reading is a shard that is being read.
type reading struct {
	stop, stopped chan struct{}
}

// note writes that a shard could be read just now, unless the lease is over: it is
// looked at after the time was taken, so a pause between the two, or after them,
// cannot make a read of what was none.
func (r *reader) note(kind byte, s consumer.Shard) bool {
	at := time.Now()
	if r.left() <= 0 {
		return false
	}
	r.journal.note(line{kind: kind, at: at, shard: s.Index, token: s.Token, member: r.member, cause: "-"})
	return true
}

// Assigned starts to read.
func (r *reader) Assigned(ctx context.Context, s consumer.Shard) {
	one := &reading{stop: make(chan struct{}), stopped: make(chan struct{})}
	r.mu.Lock()
	r.shards[s.Index] = one
	r.mu.Unlock()
	r.note(started, s)
	go func() {
		defer close(one.stopped)
		tick := time.NewTicker(readEvery)
		defer tick.Stop()
		for {
			select {
			case <-one.stop:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				r.note(reads, s)
			}
		}
	}()
}

// Revoked ends the reading and says so.
func (r *reader) Revoked(_ context.Context, s consumer.Shard) {
	r.end(s)
	if !r.note(letGo, s) {
		r.journal.note(line{kind: lost, at: time.Now(), shard: s.Index, token: s.Token, member: r.member, cause: "late"})
	}
}

// Lost ends the reading and says why.
func (r *reader) Lost(s consumer.Shard, cause error) {
	r.end(s)
	word := "other"
	switch {
	case errors.Is(cause, consumer.ErrFenced):
		word = "fenced"
	case errors.Is(cause, consumer.ErrLeaseEnded):
		word = "lease-ended"
	}
	r.journal.note(line{kind: lost, at: time.Now(), shard: s.Index, token: s.Token, member: r.member, cause: word})
}

func (r *reader) end(s consumer.Shard) {
	r.mu.Lock()
	one := r.shards[s.Index]
	delete(r.shards, s.Index)
	r.mu.Unlock()
	close(one.stop)
	<-one.stopped
}
