package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// worker reads one shard for one tenure and puts its records into lanes: what
// earlier owners left first, then what is new. The context that its methods pass on
// ends when all work on the shard must end.
type worker struct {
	p     *poller
	shard Shard
	// quit is closed when reading must stop; handlers that run may finish.
	quit   chan struct{}
	halted sync.Once
	// done is closed when nothing of the shard is read or handled any more.
	done  chan struct{}
	acks  *ackQueue
	lanes *lanes
	log   *slog.Logger

	// The fields below belong to the worker's goroutine.
	redis backoff
	// at is where the next link leads, if a redirect said so; redirects counts
	// those that came one after the other.
	at        target
	redirects int
	// ailment is what keeps the shard from being read, starts what keeps deliveries
	// from being counted; both are safe for concurrent use.
	ailment complaint
	starts  *hitch
	// until is when the pending list need no longer be looked at after every read.
	until time.Time
	// sweepAt is when the whole pending list is due to be looked at.
	sweepAt time.Time
	// seen is the id up to which all that was delivered is done or in hand; base is
	// what it was after the first look at the pending list, based says that there
	// was one.
	seen, base streamID
	based      bool
	// hungry: the last read was full, so there is more.
	hungry bool
	// missedAt is when the stream was found missing.
	missedAt time.Time

	mu   sync.Mutex
	link *link
	row  protocol.ShardProgress
	// state is what the worker is about, since when.
	state ShardState
	since time.Time
}

func newWorker(ctx context.Context, p *poller, s Shard) *worker {
	now := time.Now()
	w := &worker{
		p: p, shard: s, quit: make(chan struct{}), done: make(chan struct{}),
		log:   p.log.With(slog.Int("shard", s.Index), slog.Int64("token", s.Token)),
		redis: redisBackoff(), starts: newHitch(), until: now.Add(p.gate.lease()), sweepAt: now,
		row:   protocol.ShardProgress{Shard: protocol.ShardIndex(s.Index), StreamKey: s.Key},
		state: ShardConnecting, since: now,
	}
	w.acks = p.acker.queue(s, p.cfg.BatchSize, func() bool { return !w.ailment.condition().OK() })
	w.lanes = newLanes(p.pool, func(e *entry) verdict { return w.attempt(ctx, e) })
	return w
}

// halt stops the reading, and lets no further handler begin. It returns when no
// command of the reader is under way.
func (w *worker) halt(ctx context.Context) {
	w.halted.Do(func() { close(w.quit) })
	w.lanes.stop()
	w.mu.Lock()
	l := w.link
	w.mu.Unlock()
	if l != nil {
		l.stop(ctx)
	}
}

func (w *worker) stopping(ctx context.Context) bool {
	select {
	case <-w.quit:
		return true
	default:
		return ctx.Err() != nil
	}
}

// mayWork reports whether the next read or the next record may begin.
func (w *worker) mayWork(ctx context.Context) bool {
	return !w.stopping(ctx) && w.p.gate.left() > 0
}

func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	defer w.acks.close()
	for !w.stopping(ctx) {
		if w.p.gate.left() <= 0 {
			// The lease has ended, and we are about to be told.
			w.enter(ShardNoLease)
			w.sleep(ctx, 10*time.Millisecond)
			continue
		}
		err := w.step(ctx)
		switch {
		case err == nil:
			w.well()
		case errors.Is(err, errStopped):
		default:
			w.trouble(ctx, err)
		}
	}
	w.disconnect()
	w.dropTrouble()
	w.enter(ShardDraining)
	w.drain(ctx)
}

// drain waits for the handlers that run, and gives back what was not begun.
func (w *worker) drain(ctx context.Context) {
	defer w.lanes.end()
	w.lanes.stop()
	var giving sync.WaitGroup
	defer giving.Wait()
	if !lost(ctx) {
		// At once: the handlers may take long.
		back := w.lanes.takeBack()
		giving.Go(func() { w.giveBack(ctx, back) })
	}
	<-w.lanes.quiet
	if lost(ctx) {
		w.p.remember(w.shard.Index, w.lanes.takeBack())
		return
	}
	// Beside each other, since there may be little time.
	giving.Go(func() { w.giveBack(ctx, w.lanes.takeBack()) })
	w.finish(ctx)
}

// finish waits for the last acknowledgements.
func (w *worker) finish(ctx context.Context) {
	timeout := w.p.cfg.limits.finalAck
	if ctx.Err() != nil {
		// Time is up, but the shard is still ours for a moment.
		ctx, timeout = context.WithoutCancel(ctx), w.p.cfg.limits.lateAck
	}
	ctx, done := context.WithTimeout(ctx, timeout)
	defer done()
	if !w.acks.await(ctx, nil, 0) {
		w.log.Warn("let go of before the last acknowledgements went through: these records will be handled again", slog.Int("records", w.acks.size()))
	}
}

// lost reports whether the shard may be somebody else's already. One whose
// handler was merely cancelled because time was up is still ours.
func lost(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause != nil && !errors.Is(cause, ErrRevokeTimeout) && !errors.Is(cause, ErrShutdownTimeout)
}

// sleep waits, unless reading is stopped meanwhile.
func (w *worker) sleep(ctx context.Context, d time.Duration) { sleep(ctx, w.quit, d) }

// step reads once and handles what comes.
func (w *worker) step(ctx context.Context) error {
	if err := w.connect(ctx); err != nil {
		return err
	}
	if now := time.Now(); !now.Before(w.sweepAt) {
		if w.p.servers.outdated(w.link) {
			w.disconnect()
			if err := w.connect(ctx); err != nil {
				return err
			}
		}
		w.enter(ShardRecovering)
		if err := w.sweep(ctx); err != nil {
			return err
		}
		w.sweepAt = now.Add(w.p.gate.lease())
	}
	if w.acks.size() > w.acks.limit {
		w.enter(ShardUnacknowledged)
	}
	if !w.acks.await(ctx, w.quit, w.acks.limit) {
		return nil
	}
	w.enter(ShardFull)
	count := w.lanes.book(ctx, w.quit, w.p.cfg.BatchSize, w.hungry)
	if count == 0 || !w.mayWork(ctx) {
		w.lanes.unbook()
		return nil
	}
	w.enter(ShardReading)
	var also *look
	if time.Now().Before(w.until) {
		also = &look{after: w.seen}
	}
	batch, err := w.read(ctx, count, also)
	if err != nil {
		w.lanes.unbook()
		return err
	}
	w.found()
	w.hungry = len(batch) == count
	if also != nil && !also.clear(batch) {
		// Something may have been delivered to the old owner after we looked. It lies
		// between what we read before and this batch, so it goes first.
		below := ""
		if len(batch) > 0 {
			below = batch[0].ID
		}
		strays, err := w.strays(ctx, below)
		if err != nil && w.stopping(ctx) {
			// Nothing begins any more: what we have goes back without a delivery.
			w.lanes.stop()
			w.take(batch)
			return err
		}
		if err != nil {
			w.lanes.unbook()
			// What we have is on the pending list, and found there.
			return err
		}
		batch = append(strays, batch...)
	}
	w.take(batch)
	return nil
}

// read waits for at most count new records, for as long as the lease lasts at most.
// While there is more it does not wait, since it holds room that others could use.
func (w *worker) read(ctx context.Context, count int, also *look) ([]*entry, error) {
	wait := min(w.p.cfg.BlockTime, w.p.gate.left())
	if w.hungry {
		wait = 0
	}
	begun := time.Now()
	found, err := w.link.read(plain(ctx), w.p.cfg.Group, w.p.cfg.MemberID, count, wait, also)
	if err != nil {
		return nil, err
	}
	batch := w.entries(found, func(e *entry) {
		// Reading it has counted the start to come.
		e.Deliveries, e.owed = 1, true
	})
	if w.p.observing != nil {
		var size int64
		for _, e := range batch {
			size += e.size
		}
		notify(w.p.observing, Observer.Read, ReadEvent{Shard: w.shard, Records: len(batch), Bytes: int(size), Waited: time.Since(begun)})
	}
	return batch, nil
}

// take puts a batch into the lanes. They may be stopped already: then what was not
// begun goes back.
func (w *worker) take(batch []*entry) {
	if len(batch) > 0 {
		last := batch[len(batch)-1]
		if w.seen.less(last.id) {
			w.seen = last.id
		}
		w.mu.Lock()
		if parseID(w.row.LastDeliveredID).less(last.id) {
			w.row.LastDeliveredID = last.ID
		}
		w.row.UpdatedAt = time.Now().UTC().Format(time.RFC3339Nano)
		w.mu.Unlock()
	}
	if late := w.lanes.push(batch); late > 0 {
		w.p.stats.late.Add(uint64(late))
		w.log.Warn("records were found behind later ones that were begun before: somebody else had them delivered", slog.Int("records", late))
	}
}

// settled returns the id up to which all was handled, by whomever.
func (w *worker) settled() streamID {
	if low, some := w.lanes.lowest(); some {
		if low = low.prev(); low.less(w.seen) {
			return low
		}
	}
	return w.seen
}

// plain returns a context for commands: with the values of Run's context, and
// without an end, because a command that is broken off may have been carried out.
func plain(ctx context.Context) context.Context { return context.WithoutCancel(ctx) }

// entries makes entries of what Redis sent; more fills in the rest.
func (w *worker) entries(found []redis.XMessage, more func(*entry)) []*entry {
	all := make([]entry, len(found))
	batch := make([]*entry, len(found))
	for i := range found {
		e, m := &all[i], &found[i]
		e.Record = Record{
			Stream: w.shard.Stream, Shard: w.shard.Index, ID: m.ID, Token: w.shard.Token,
			Values: make(map[string]string, len(m.Values)),
		}
		size := len(m.ID)
		for name, v := range m.Values {
			// Fields of a stream are strings.
			value, _ := v.(string)
			e.Values[name] = value
			size += len(name) + len(value)
		}
		e.Key = e.Values[KeyField]
		e.id, e.size = parseID(m.ID), int64(size)
		more(e)
		e.key = w.orderKey(&e.Record)
		batch[i] = e
	}
	return batch
}

// connect opens the link, unless it is open.
func (w *worker) connect(ctx context.Context) error {
	if w.link != nil && w.link.asking && w.p.servers.outdated(w.link) {
		w.disconnect()
	}
	if w.link != nil {
		return nil
	}
	w.enter(ShardConnecting)
	ctx, done := w.whileReading(ctx)
	defer done()
	at := w.at
	w.at = target{}
	l, err := w.p.servers.open(ctx, w.shard.Key, at)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.link = l
	w.mu.Unlock()
	if w.stopping(ctx) {
		// halt may have come before the link was there to be stopped.
		return errStopped
	}
	if err := l.connect(ctx); err != nil {
		return err
	}
	if l.id == 0 && !l.polled() {
		w.p.toldShort.Do(func() {
			w.p.log.Info("reads are short, since CLIENT UNBLOCK is not to be had here", slog.Duration("block", min(shortBlock, w.p.cfg.BlockTime)))
		})
	}
	return nil
}

// whileReading returns a context that ends when reading must stop, and a function
// that gives it back.
func (w *worker) whileReading(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-w.quit:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel()
		watching.Wait()
	}
}

func (w *worker) disconnect() {
	w.mu.Lock()
	l := w.link
	w.link = nil
	w.mu.Unlock()
	if l != nil {
		l.close()
	}
}

// progress tells how far the shard has come.
func (w *worker) progress() protocol.ShardProgress {
	w.mu.Lock()
	row := w.row
	w.mu.Unlock()
	row.LastAckedID = w.acks.lastAcked()
	row.PendingCount = int64(w.lanes.size() + w.acks.size())
	return row
}
