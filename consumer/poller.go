package consumer

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// poller is the Lifecycle that reads from Redis and calls a Handler: one worker
// for each shard, and one acker for all.
type poller struct {
	cfg   *Config
	gate  *gate
	log   *slog.Logger
	stats stats
	// observing may be nil.
	observing *observing
	// poke makes the agent look at the progress.
	poke func()

	servers *servers
	acker   *acker
	pool    *pool
	running sync.WaitGroup
	stop    context.CancelFunc

	toldShort sync.Once
	// letters is what keeps dead letters from being written, orderBy that OrderBy
	// panics.
	letters *hitch
	orderBy complaint

	mu      sync.Mutex
	workers map[int]*worker
	// unreturned has, for shards that were lost, what could not be given back.
	unreturned map[int]map[string]returned
}

func newPoller(cfg *Config, g *gate, o *observing) *poller {
	return &poller{
		cfg: cfg, gate: g, observing: o, workers: map[int]*worker{}, unreturned: map[int]map[string]returned{}, letters: newHitch(),
		log: cfg.Logger.With(slog.String("stream", cfg.Stream), slog.String("group", cfg.Group), slog.String("member", cfg.MemberID)),
	}
}

// open starts what all shards share.
func (p *poller) open(ctx context.Context) {
	p.servers = newServers(ctx, p.cfg.Redis, p.cfg.MaxBlockedReaders, p.cfg.limits.link)
	p.acker = newAcker(p.servers, p.cfg, p.gate, p.log, &p.stats, p.observing)
	p.pool = newPool(p.cfg.Concurrency, p.cfg.MaxInFlight, p.cfg.MaxInFlightBytes)
	ctx, p.stop = context.WithCancel(ctx)
	p.running.Go(func() { p.acker.run(ctx) })
	k := newKeeper(p.servers, p)
	p.running.Go(func() { k.run(ctx) })
}

// close ends it. Workers have ended, but for those whose handler is stuck.
func (p *poller) close() {
	p.stop()
	p.servers.close()
	p.running.Wait()
	p.mu.Lock()
	stuck := len(p.workers) > 0
	p.mu.Unlock()
	p.pool.close(!stuck)
}

// Assigned starts the shard's worker.
func (p *poller) Assigned(ctx context.Context, s Shard) {
	w := newWorker(ctx, p, s)
	p.mu.Lock()
	p.workers[s.Index] = w
	p.mu.Unlock()
	// end waits for it.
	go w.run(ctx)
}

// Revoked lets the handlers that run finish, and returns when they have.
func (p *poller) Revoked(ctx context.Context, s Shard) { p.end(ctx, s) }

// Lost waits until the worker has dropped everything; its context has ended.
func (p *poller) Lost(s Shard, _ error) {
	over, now := context.WithCancel(context.Background())
	now()
	p.end(over, s)
}

func (p *poller) end(ctx context.Context, s Shard) {
	p.mu.Lock()
	w := p.workers[s.Index]
	p.mu.Unlock()
	w.halt(ctx)
	<-w.done
	p.mu.Lock()
	delete(p.workers, s.Index)
	p.mu.Unlock()
}

// progress tells how far each shard has come, and how many of the handlers that
// the coordinator was told of are idle.
func (p *poller) progress() (rows []protocol.ShardProgress, idle int) {
	for _, w := range p.all() {
		rows = append(rows, w.progress())
	}
	return rows, p.pool.limit - p.pool.busy()
}

// all returns the workers in the order of their shards.
func (p *poller) all() []*worker {
	p.mu.Lock()
	workers := make([]*worker, 0, len(p.workers))
	for _, w := range p.workers {
		workers = append(workers, w)
	}
	p.mu.Unlock()
	slices.SortFunc(workers, func(a, b *worker) int { return a.shard.Index - b.shard.Index })
	return workers
}
