package demo

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis-stream-coordinator/rsc/consumer"
)

// consumerOrders are what a consumer process is told.
type consumerOrders struct {
	Coordinators []string
	Username     string
	Password     string
	Stream       string
	Group        string
	Member       string
	RedisURL     string
	// Embedded says that the Redis is the one inside the demo's process.
	Embedded bool
	// Work is how long a record takes.
	Work time.Duration
}

// embeddedBlock is how long a read waits in a Redis that knows no CLIENT UNBLOCK.
const embeddedBlock = 100 * time.Millisecond

// leaveTimeout is how long a consumer may take to leave. It is less than the
// demo's patience.
const leaveTimeout = patience - time.Second

// RunConsumer is the process of one consumer: it takes its orders from in, tells
// each record that it handled to out, and what is wrong to log. It leaves its
// group and returns when ctx ends or a SIGTERM comes, and breaks off when in ends.
func RunConsumer(ctx context.Context, in io.Reader, out, log io.Writer) error {
	return runConsumer(ctx, in, out, log, func(h consumer.Handler) consumer.Handler { return h })
}

// runConsumer lets tests come between the consumer and its handler.
func runConsumer(ctx context.Context, in io.Reader, out, log io.Writer, wrap func(consumer.Handler) consumer.Handler) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	broken, breakOff := context.WithCancelCause(context.WithoutCancel(ctx))
	defer breakOff(nil)

	var o consumerOrders
	if err := readOrders(in, &o, stop, func() { breakOff(errOrphaned) }); err != nil {
		return err
	}
	redis, err := redisOptions(o.RedisURL)
	if err != nil {
		return err
	}
	cfg := consumer.Config{
		Coordinators: o.Coordinators, Credentials: consumer.BasicAuth(o.Username, o.Password),
		Stream: o.Stream, Group: o.Group, MemberID: o.Member, Redis: redis,
		Handler:         wrap(handler(out, o.Work)),
		ShutdownTimeout: leaveTimeout,
		// In the end every record is counted where it was stored.
		Retention: consumer.Retention{Off: true},
		Logger:    slog.New(newLineHandler(func(line string) { _, _ = fmt.Fprintln(log, line) }, nil)),
	}
	if o.Embedded {
		cfg.BlockTime = embeddedBlock
	}
	c, err := consumer.New(cfg)
	if err != nil {
		return err
	}
	var breaking sync.WaitGroup
	finished := make(chan struct{})
	breaking.Go(func() {
		select {
		case <-broken.Done():
			_ = c.Close(broken) // its context has ended: no goodbye, for nobody is there to hear it
		case <-finished:
		}
	})
	err = c.Run(ctx)
	close(finished)
	breaking.Wait()
	return err
}

// handler takes its time for each record and then tells it.
func handler(out io.Writer, work time.Duration) consumer.Handler {
	var mu sync.Mutex
	var line []byte
	return func(ctx context.Context, r consumer.Record) error {
		h := handledLine{id: r.ID, key: r.Key, seq: r.Values[seqField], shard: r.Shard, token: r.Token, start: time.Now()}
		if work > 0 {
			timer := time.NewTimer(work)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		h.end = time.Now()
		mu.Lock()
		defer mu.Unlock()
		line = h.appendTo(line[:0])
		if _, err := out.Write(line); err != nil {
			return fmt.Errorf("tell the demo of record %s: %w", r.ID, err)
		}
		return nil
	}
}
