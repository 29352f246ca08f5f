package consumer

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
)

// A poller can be tried without a coordinator: these tests assign and revoke.

func openGate(lease time.Duration) *gate {
	g := new(gate)
	end := time.Now().Add(time.Hour)
	g.set(leaseEnd{mono: end, wall: end.Round(0), lease: lease})
	return g
}

type pollerBed struct {
	*poller
	redis *redis.Client
	gate  *gate
	shard Shard
	watch *redistest.Watch
}

func newPollerBed(t *testing.T, addr, user string, h Handler, change ...func(*Config)) *pollerBed {
	t.Helper()
	cfg := Config{
		Stream: "orders", Group: "billing", MemberID: "a", Handler: h, Logger: slog.New(slog.DiscardHandler),
		Redis: redis.UniversalOptions{Addrs: []string{addr}, Username: user, Password: user},
	}
	for _, c := range change {
		c(&cfg)
	}
	cfg = Unhurried(cfg).withDefaults()
	b := &pollerBed{gate: openGate(10 * time.Second), shard: Shard{Stream: "orders", Key: "orders:0", Token: 1}, watch: redistest.StartWatch(t)}
	b.poller = newPoller(&cfg, b.gate, newObserving(&cfg))
	b.poller.poke = func() {}
	b.open(t.Context())
	b.redis = redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: redistest.Patience, ReadTimeout: redistest.Patience})
	if err := b.redis.XGroupCreateMkStream(t.Context(), "orders:0", "billing", "0").Err(); err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.close()
		_ = b.redis.Close()
	})
	return b
}

func (b *pollerBed) add(t *testing.T, n int) string {
	t.Helper()
	id, err := b.redis.XAdd(context.Background(), &redis.XAddArgs{Stream: "orders:0", Values: []string{"n", fmt.Sprint(n)}}).Result()
	if err != nil {
		t.Error(err)
	}
	return id
}

// tenureOf assigns the shard and returns what revokes it and what loses it.
func (b *pollerBed) assign() (revoke, lose func() time.Duration) {
	ctx, cancel := context.WithCancelCause(context.Background())
	b.shard.Token++
	s := b.shard
	b.Assigned(ctx, s)
	revoke = func() time.Duration {
		begin := b.watch.Ran()
		b.Revoked(ctx, s)
		d := b.watch.Ran() - begin
		cancel(errLetGo)
		return d
	}
	lose = func() time.Duration {
		begin := b.watch.Ran()
		cancel(ErrLeaseEnded)
		b.Lost(s, ErrLeaseEnded)
		return b.watch.Ran() - begin
	}
	return revoke, lose
}

// tally keeps what was handled, and in which tenure.
type tally struct {
	mu     sync.Mutex
	tokens map[string][]int64
	last   streamID
	wrong  atomic.Int32
}

func (c *tally) handle(_ context.Context, r Record) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens[r.ID] = append(c.tokens[r.ID], r.Token)
	if id := parseID(r.ID); c.last.less(id) {
		c.last = id
	} else if len(c.tokens[r.ID]) == 1 {
		c.wrong.Add(1)
	}
	return nil
}

func (c *tally) distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.tokens)
}

// again counts the records that were handled more than once, and those of them
// that a tenure which was not lost had handled before.
func (c *tally) again(lost map[int64]bool) (all, unexcused int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tokens := range c.tokens {
		for i, token := range tokens[:len(tokens)-1] {
			if i == 0 {
				all++
			}
			if !lost[token] {
				unexcused++
			}
		}
	}
	return all, unexcused
}

// TestStopRaces stops a reader again and again, while a record arrives: before
// it connects, in its first look at the pending list, blocked, or with the
// record in hand. Nothing is lost, and nothing is stranded either: the next
// tenure finds it.
func TestStopRaces(t *testing.T) {
	const rounds = 1000
	// A stop that misses the moment to unblock a read waits for as long as that.
	const block = 20 * time.Second
	for _, tc := range []struct {
		name   string
		user   string
		rounds int
		// blocked is MaxBlockedReaders.
		blocked int
	}{
		{"with CLIENT UNBLOCK", "", rounds, 0},
		{"without it", "plain", 40, 0},
		{"polled", "", rounds, -1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := redistest.Start(t)
			admin := server.Client()
			defer func() { _ = admin.Close() }()
			if err := admin.Do(t.Context(), "ACL", "SETUSER", "plain", "on", ">plain", "~*", "+@all", "-client").Err(); err != nil {
				t.Fatal(err)
			}
			c := &tally{tokens: map[string][]int64{}}
			lost := map[int64]bool{}
			b := newPollerBed(t, server.Addr, tc.user, c.handle, func(c *Config) { c.MaxBlockedReaders, c.BlockTime, c.Redis.ReadTimeout = tc.blocked, block, block })
			rng := rand.New(rand.NewPCG(1, 2))
			var slowest time.Duration
			for i := range tc.rounds {
				revoke, lose := b.assign()
				var adding sync.WaitGroup
				before := time.Duration(rng.IntN(2000)) * time.Microsecond
				adding.Go(func() {
					time.Sleep(before)
					b.add(t, i)
				})
				time.Sleep(time.Duration(rng.IntN(2500)) * time.Microsecond)
				var took time.Duration
				if i%4 == 0 {
					lost[b.shard.Token] = true
					took = lose()
				} else {
					took = revoke()
				}
				slowest = max(slowest, took)
				adding.Wait()
			}
			revoke, _ := b.assign()
			for deadline := time.Now().Add(redistest.Patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				if c.distinct() == tc.rounds {
					break
				}
			}
			revoke()
			n := c.distinct()
			again, unexcused := c.again(lost)
			if n != tc.rounds || c.wrong.Load() != 0 {
				t.Errorf("%d of %d records were handled, %d out of order", n, tc.rounds, c.wrong.Load())
			}
			// Only a tenure that was lost may leave a handled record unacknowledged.
			if unexcused > 0 {
				t.Errorf("%d records were handled again after a tenure that let go in order", unexcused)
			}
			if slowest > block/2 {
				t.Errorf("a stop took %s", slowest)
			}
			t.Logf("%d records, %d handled twice, the slowest stop took %s", n, again, slowest)
			if p := b.redis.XPending(t.Context(), "orders:0", "billing").Val(); p.Count != 0 {
				t.Errorf("%d records are pending", p.Count)
			}
		})
	}
}

func TestMain(m *testing.M) {
	redis.SetLogger(noLog{})
	os.Exit(m.Run())
}

type noLog struct{}

func (noLog) Printf(context.Context, string, ...any) {}
