package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// plan says how a member consumes.
type plan struct {
	Coordinators []string
	Addrs        []string
	Cluster      bool
	Stream       string
	Group        string
	Member       string
	// Journal is the file that handlers write to.
	Journal string

	// Hold is how long each handler takes, Spread what chance adds at most.
	Hold, Spread time.Duration
	// FailOneIn makes one of so many calls fail by chance, 0 none.
	FailOneIn int
	// Seed begins the chances.
	Seed uint64

	Concurrency      int
	MaxInFlight      int
	MaxInFlightBytes int64
	BatchSize        int
	BlockTime        time.Duration
	ShutdownTimeout  time.Duration
	PoolSize         int
	DeadLetter       bool
	MaxDeliveries    int
	RetryFirst       time.Duration
	RetryLast        time.Duration
	MaxBlocked       int
	// Trim removes what every group has acknowledged; most accounts read the streams
	// at the end.
	Trim         bool
	TrimInterval time.Duration
	// MemoryLimit is the Go runtime's, 0 for none.
	MemoryLimit int64
}

// config makes a consumer's settings of a plan.
func (p plan) config(handler consumer.Handler, log *slog.Logger) consumer.Config {
	cfg := consumer.Config{
		Coordinators: p.Coordinators,
		Stream:       p.Stream, Group: p.Group, MemberID: p.Member,
		Redis:   redis.UniversalOptions{Addrs: p.Addrs, IsClusterMode: p.Cluster, PoolSize: p.PoolSize},
		Handler: handler, Logger: log,
		Concurrency: p.Concurrency, MaxInFlight: p.MaxInFlight, MaxInFlightBytes: p.MaxInFlightBytes,
		BatchSize: p.BatchSize, BlockTime: p.BlockTime, ShutdownTimeout: p.ShutdownTimeout,
		MaxBlockedReaders: p.MaxBlocked,
	}
	cfg.Retry.First, cfg.Retry.Last, cfg.Retry.MaxDeliveries = p.RetryFirst, p.RetryLast, p.MaxDeliveries
	cfg.DeadLetter.Enabled = p.DeadLetter
	cfg.Retention = consumer.Retention{Off: !p.Trim, Interval: p.TrimInterval}
	return cfg
}

// runMember is the program of a member process: it lives until SIGTERM.
func runMember(ctx context.Context, p plan, log *slog.Logger) error {
	if p.MemoryLimit > 0 {
		debug.SetMemoryLimit(p.MemoryLimit)
	}
	return consume(ctx, p, log, nil)
}

// consume runs a member until ctx ends.
func consume(ctx context.Context, p plan, log *slog.Logger, o consumer.Observer) error {
	w, err := faultkit.OpenJournal(p.Journal)
	if err != nil {
		return err
	}
	h := &handling{plan: p, journal: journal{w}, chance: rand.New(rand.NewPCG(p.Seed, 1)), attempts: map[string]int{}}
	cfg := p.config(h.handle, log)
	cfg.Observer = o
	c, err := consumer.New(cfg)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	err = c.Run(ctx)
	// A handler that was left behind may still write: its process ends with it.
	if errors.Is(err, consumer.ErrStuck) {
		return err
	}
	return errors.Join(err, w.Close())
}

// handling is the handler of a member. What it does with a record stands in the
// record: see order.
type handling struct {
	plan    plan
	journal journal

	mu       sync.Mutex
	chance   *rand.Rand
	attempts map[string]int
	// meeting are handlers that wait for more of them, met is closed when they are enough.
	meeting int
	met     chan struct{}
}

var (
	errByChance = errors.New("fails by chance")
	errByOrder  = errors.New("fails by order")
)

func (h *handling) handle(ctx context.Context, r consumer.Record) error {
	seq, ord, err := parsePayload(r.Values["payload"])
	if err != nil {
		// A record that is not ours: it can never be handled.
		return consumer.Reject(err)
	}
	h.journal.note(event{kind: began, at: time.Now(), shard: r.Shard, id: r.ID, token: r.Token, deliveries: r.Deliveries, member: h.plan.Member, key: r.Key, seq: seq})
	kind := failed
	defer func() { // a panic ends the handling too
		h.journal.note(event{kind: kind, at: time.Now(), shard: r.Shard, id: r.ID, token: r.Token, deliveries: r.Deliveries, member: h.plan.Member, key: r.Key, seq: seq})
	}()
	if err = h.work(ctx, r, ord); err == nil {
		kind = finished
	}
	return err
}

func (h *handling) work(ctx context.Context, r consumer.Record, ord order) error {
	h.mu.Lock()
	pause := h.plan.Hold + ord.hold
	if h.plan.Spread > 0 {
		pause += time.Duration(h.chance.Int64N(int64(h.plan.Spread)))
	}
	unlucky := h.plan.FailOneIn > 0 && h.chance.IntN(h.plan.FailOneIn) == 0
	attempt := 1
	if ord.what != "" {
		h.attempts[r.ID]++ // few records have orders
		attempt = h.attempts[r.ID]
	}
	h.mu.Unlock()
	if err := sleep(ctx, pause); err != nil {
		return err
	}
	switch ord.what {
	case "exit":
		os.Exit(3)
	case "fail":
		return errByOrder
	case "meet":
		return h.meet(ctx, ord.times)
	case "panic":
		if attempt <= ord.times {
			panic("by order")
		}
	case "stumble":
		if attempt <= ord.times {
			return errByOrder
		}
	}
	if unlucky {
		return errByChance
	}
	return nil
}

// meet waits until so many handlers are in it.
func (h *handling) meet(ctx context.Context, many int) error {
	h.mu.Lock()
	if h.meeting == 0 {
		h.met = make(chan struct{})
	}
	met := h.met
	if h.meeting++; h.meeting == many {
		h.meeting = 0
		close(met)
	}
	h.mu.Unlock()
	select {
	case <-met:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// order is what a record asks of its handler.
type order struct {
	// what is empty, or one of: exit (ends the process), fail (always), panic and
	// stumble (so many times), meet (waits until so many are there).
	what  string
	times int
	// hold is how long the handler takes on top of its plan.
	hold time.Duration
}

// payload writes a record: its number within its key, what is asked of the
// handler, and bytes to make it larger.
func payload(seq int, ord order, padding int) []byte {
	return fmt.Appendf(nil, "%d %s %d %d %s", seq, orNone(ord.what), ord.times, ord.hold, strings.Repeat("x", padding))
}

func orNone(what string) string {
	if what == "" {
		return "none"
	}
	return what
}

func parsePayload(text string) (seq int, ord order, err error) {
	fields := strings.SplitN(text, " ", 5)
	if len(fields) != 5 {
		return 0, order{}, fmt.Errorf("no record of this suite: %.40q", text)
	}
	seq, err = strconv.Atoi(fields[0])
	if err != nil {
		return 0, order{}, err
	}
	if fields[1] != "none" {
		ord.what = fields[1]
	}
	if ord.times, err = strconv.Atoi(fields[2]); err != nil {
		return 0, order{}, err
	}
	hold, err := strconv.ParseInt(fields[3], 10, 64)
	ord.hold = time.Duration(hold)
	return seq, ord, err
}
