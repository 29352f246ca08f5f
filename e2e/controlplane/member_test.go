package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// planVariable hands a process of members its plan.
const planVariable = "RSC_CONTROLPLANE_MEMBERS"

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

// membersMain is the program of a process of members: they live until SIGTERM.
func membersMain(text string) int {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	var p plan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		log.Error("no plan", "err", err)
		return 2
	}
	w, err := openJournal(p.Journal)
	if err != nil {
		log.Error("no journal", "err", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ends := make([]error, len(p.Members))
	var lives sync.WaitGroup
	for i, id := range p.Members {
		lives.Go(func() { ends[i] = live(ctx, p, i, id, w, log) })
	}
	lives.Wait()
	if err := errors.Join(ends...); err != nil {
		log.Error("a member ended", "err", err)
		return 1
	}
	return 0
}

// live runs a member until ctx ends. Each begins with another coordinator.
func live(ctx context.Context, p plan, turn int, id string, w *journalWriter, log *slog.Logger) error {
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
	journal *journalWriter
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
	r.journal.write(line{kind: kind, at: at, shard: s.Index, token: s.Token, member: r.member, cause: "-"})
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
		r.journal.write(line{kind: lost, at: time.Now(), shard: s.Index, token: s.Token, member: r.member, cause: "late"})
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
	r.journal.write(line{kind: lost, at: time.Now(), shard: s.Index, token: s.Token, member: r.member, cause: word})
}

func (r *reader) end(s consumer.Shard) {
	r.mu.Lock()
	one := r.shards[s.Index]
	delete(r.shards, s.Index)
	r.mu.Unlock()
	close(one.stop)
	<-one.stopped
}
