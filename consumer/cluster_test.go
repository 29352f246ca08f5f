package consumer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// clusterBed is a Redis Cluster with a provisioned stream, and a coordinator.
type clusterBed struct {
	tb      testing.TB
	cluster *redistest.Cluster
	redis   *redis.ClusterClient
	coord   *coordinator
	shards  int
	next    int
	// firstID is the time in the id of the first record.
	firstID int64
}

func newClusterBed(tb testing.TB, masters, replicas, shards int, timings protocol.Timings) *clusterBed {
	tb.Helper()
	c := redistest.StartCluster(tb, masters, replicas)
	b := &clusterBed{
		tb: tb, cluster: c, redis: c.Client(), coord: newCoordinator(tb, shards, timings), shards: shards, firstID: time.Now().UnixMilli(),
	}
	tb.Cleanup(func() { _ = b.redis.Close() })
	for i := range shards {
		b.insist(fmt.Sprintf("make shard %d", i), func() error {
			err := b.redis.XGroupCreateMkStream(context.Background(), key(i), group, "0").Err()
			if err != nil && strings.HasPrefix(err.Error(), "BUSYGROUP") {
				return nil // the answer to an earlier attempt was late
			}
			return err
		})
	}
	return b
}

// insist tries again until it goes well. The client of the bed does not wait long for
// an answer, so do must be something that may be done twice.
func (b *clusterBed) insist(what string, do func() error) {
	b.tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.tb.Fatalf("%s: %v", what, err)
		}
		b.redis.ReloadState(context.Background())
	}
}

// config is that of a member that waits for a machine which stands still for a while,
// as that of bed is.
func (b *clusterBed) config(h consumer.Handler) consumer.Config {
	cfg := consumer.Unhurried(b.hurried(h))
	cfg.Redis.ReadTimeout, cfg.ShutdownTimeout = patience, patience
	return cfg
}

// hurried is config with the waits of the defaults.
func (b *clusterBed) hurried(h consumer.Handler) consumer.Config {
	return consumer.Config{
		Transport: b.coord, Stream: stream, Group: group, MemberID: "a", Handler: h,
		Redis: redis.UniversalOptions{Addrs: b.cluster.Addrs()}, Logger: quiet(), ShutdownTimeout: 5 * time.Second,
	}
}

// add appends one record, and tries again until it is stored: once, since its id is
// made here.
func (b *clusterBed) add(shard int) {
	b.tb.Helper()
	b.addOn(b.redis, shard)
}

// addOn is add by another client than that of the bed.
func (b *clusterBed) addOn(client redis.UniversalClient, shard int) {
	b.tb.Helper()
	n := b.next
	b.next++
	b.insist(fmt.Sprintf("add to shard %d", shard), func() error {
		err := client.XAdd(context.Background(), &redis.XAddArgs{
			Stream: key(shard), NoMkStream: true, ID: fmt.Sprintf("%d-0", b.firstID+int64(n)), Values: []string{"n", strconv.Itoa(n)},
		}).Err()
		if err != nil && strings.Contains(err.Error(), "equal or smaller") {
			return nil // an earlier attempt has stored it, and its answer was late
		}
		return err
	})
}

func (b *clusterBed) pending() (n int) {
	b.tb.Helper()
	for i := range b.shards {
		b.insist("look at what is pending", func() error {
			p, err := b.redis.XPending(context.Background(), key(i), group).Result()
			if err == nil {
				n += int(p.Count)
			}
			return err
		})
	}
	return n
}

// numbers counts the different numbers that were handled.
func (l *journal) numbers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := map[string]bool{}
	for _, r := range l.records {
		seen[r.Values["n"]] = true
	}
	return len(seen)
}

func (l *journal) awaitNumbers(tb testing.TB, n int) {
	tb.Helper()
	for deadline := time.Now().Add(patience); l.numbers() < n; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			l.clean(tb)
			tb.Fatalf("%d of %d records were handled", l.numbers(), n)
		}
	}
}

// logbook is a log handler that keeps what is said.
type logbook struct {
	mu    sync.Mutex
	lines []line
}

type line struct {
	at    time.Time
	level slog.Level
	text  string
	attrs map[string]string
}

func (b *logbook) logger() *slog.Logger { return slog.New(&logbookHandler{book: b}) }

// find returns the lines that contain text.
func (b *logbook) find(text string) (found []line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lines {
		if strings.Contains(l.text, text) {
			found = append(found, l)
		}
	}
	return found
}

// reset forgets what was said.
func (b *logbook) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = nil
}

type logbookHandler struct {
	book  *logbook
	attrs []slog.Attr
}

func (h *logbookHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *logbookHandler) WithGroup(string) slog.Handler            { return h }

func (h *logbookHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &logbookHandler{book: h.book, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

func (h *logbookHandler) Handle(_ context.Context, r slog.Record) error {
	l := line{at: r.Time, level: r.Level, text: r.Message, attrs: map[string]string{}}
	for _, a := range h.attrs {
		l.attrs[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		l.attrs[a.Key] = a.Value.String()
		return true
	})
	h.book.mu.Lock()
	defer h.book.mu.Unlock()
	h.book.lines = append(h.book.lines, l)
	return nil
}

// redirects counts the redirects that the nodes have answered.
func (b *clusterBed) redirects() (n int) {
	for _, s := range b.cluster.Masters {
		for _, code := range []string{"MOVED", "ASK"} {
			_, rest, found := strings.Cut(s.Info("INFO", "errorstats"), "errorstat_"+code+":count=")
			if found {
				count, _, _ := strings.Cut(rest, "\r")
				i, _ := strconv.Atoi(count)
				n += i
			}
		}
	}
	return n
}

// TestManyShardsOnAFewNodes: plain names, no hash tags, one command for each
// shard, and no redirect in ordinary work, whether reads block or not.
func TestManyShardsOnAFewNodes(t *testing.T) {
	t.Parallel() // starting a cluster is waiting
	b := newClusterBed(t, 3, 0, 16, steady)
	for _, mode := range []struct {
		name    string
		blocked int
	}{{"blocked", 0}, {"polled", -1}, {"both", 5}} {
		t.Run(mode.name, func(t *testing.T) {
			l := newJournal()
			cfg := b.config(l.handler("a", nil))
			cfg.MaxBlockedReaders = mode.blocked
			c := start(t, cfg)
			var before int
			for i := range 320 {
				if i == 16 {
					// The look at Redis before the join may ask the wrong node.
					l.awaitNumbers(t, 16)
					before = b.redirects()
				}
				b.add(i % 16)
			}
			l.awaitNumbers(t, 320)
			eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 320 })
			if n := b.redirects() - before; n != 0 {
				t.Errorf("%d redirects", n)
			}
			watch := redistest.StartWatch(t)
			c.stop()
			watch.Within(time.Second, "the stop")
			if n := b.pending(); n != 0 {
				t.Errorf("%d records are pending", n)
			}
			l.clean(t)
		})
	}
}

// TestSlotsMoveUnderLoad: the slot of every shard is handed to another node while
// records arrive, with a while in between in which the key is there and the slot is
// not. Nothing is lost, nothing is handled twice, and nobody cries loss.
func TestSlotsMoveUnderLoad(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name    string
		blocked int
	}{{"blocked", 0}, {"polled", -1}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			const shards = 6
			b := newClusterBed(t, 3, 0, shards, steady)
			var book logbook
			l := newJournal()
			cfg := b.config(l.handler("a", nil))
			cfg.Logger, cfg.MaxBlockedReaders = book.logger(), mode.blocked
			c := start(t, cfg)
			for i := range shards {
				b.add(i)
			}
			l.awaitNumbers(t, shards)
			watch := redistest.StartWatch(t)
			for i := range shards {
				slot := routing.Slot(key(i))
				from := b.cluster.Owner(slot)
				src, dst := b.cluster.Masters[from], b.cluster.Masters[(from+1)%3]
				feed := func() {
					watch.Reset()
					n := b.next
					for s := range shards {
						b.add(s)
					}
					l.awaitNumbers(t, b.next)
					watch.Within(2*time.Second, fmt.Sprintf("shard %d: the records from %d on", i, n))
				}
				b.cluster.BeginMove(slot, src, dst)
				feed()
				b.cluster.MoveKeys(slot, src, dst)
				feed()
				if i == 0 {
					// Long enough for the reader to look whether the slot has arrived.
					begin := time.Now()
					for time.Since(begin) < 2500*time.Millisecond {
						feed()
					}
				}
				b.cluster.FinishMove(slot, src, dst)
				feed()
				eventually(t, "the shard is read at its new node", func() bool {
					h := c.Health().Shards[i]
					return h.Node == dst.Addr && h.Trouble.OK()
				})
			}
			eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged >= uint64(b.next) })
			c.stop()
			if n := b.pending(); n != 0 {
				t.Errorf("%d records are pending", n)
			}
			if _, again := l.handled(); again != 0 {
				t.Errorf("%d records were handled twice", again)
			}
			l.clean(t)
			for _, alarm := range []string{"group was gone", "does not exist", "went back", "not be acknowledged"} {
				for _, said := range book.find(alarm) {
					t.Errorf("said %q %v", said.text, said.attrs)
				}
			}
			t.Logf("%d records, %d lines about trouble", b.next, len(book.find("cannot be read")))
		})
	}
}

// TestAMasterFailsOver: its replica takes over, whether the master dies or only
// falls silent, and its shards go on in less than the time that took and 2 s.
func TestAMasterFailsOver(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"dies", "falls silent"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			const shards = 6
			b := newClusterBed(t, 3, 1, shards, steady)
			var book logbook
			l := newJournal()
			cfg := b.hurried(l.handler("a", nil))
			cfg.Logger = book.logger()
			start(t, cfg)
			for i := range 60 {
				b.add(i % shards)
			}
			l.awaitNumbers(t, 60)
			old, heir := b.cluster.Masters[0], b.cluster.Replicas[0]
			shard := -1
			for i := range shards {
				if b.cluster.Owner(routing.Slot(key(i))) == 0 {
					shard = i
				}
			}
			if shard < 0 {
				t.Fatal("the first master has no shard: choose other names")
			}
			heir.InStep(old)
			b.cluster.Alert()
			begin, watch := time.Now(), redistest.StartWatch(t)
			if how == "dies" {
				old.Kill()
			} else {
				old.Freeze()
				t.Cleanup(old.Thaw)
			}
			eventually(t, "the replica takes over", func() bool {
				return strings.Contains(heir.Info("INFO", "replication"), "role:master") && strings.Contains(heir.Info("CLUSTER", "INFO"), "cluster_state:ok")
			})
			took := time.Since(begin)
			watch.Reset()
			client := heir.Client()
			defer func() { _ = client.Close() }()
			b.addOn(client, shard)
			l.awaitNumbers(t, b.next)
			watch.Within(2*time.Second, "the gap after the failover")
			t.Logf("the failover took %s, the gap was %s", took, time.Since(begin))
			for i := range 60 {
				b.add(i % shards)
			}
			l.awaitNumbers(t, b.next)
			l.clean(t)
			for _, alarm := range []string{"group was gone", "does not exist"} {
				for _, said := range book.find(alarm) {
					t.Errorf("said %q %v", said.text, said.attrs)
				}
			}
		})
	}
}

// TestTheModeDoesNotFit: a single server is addressed where a cluster is, and the
// other way round. No waiting helps, so Run says what to change.
func TestTheModeDoesNotFit(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, cfg consumer.Config) error {
		t.Helper()
		c, err := consumer.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, done := context.WithTimeout(context.Background(), patience)
		defer done()
		return c.Run(ctx)
	}
	handler := func(context.Context, consumer.Record) error { return nil }
	t.Run("one node of a cluster", func(t *testing.T) {
		t.Parallel()
		b := newClusterBed(t, 2, 0, 1, steady)
		cfg := b.config(handler)
		cfg.Redis.Addrs = cfg.Redis.Addrs[:1]
		err := run(t, cfg)
		if !errors.Is(err, consumer.ErrRedisMode) || !strings.Contains(err.Error(), "IsClusterMode") {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Run("a single server", func(t *testing.T) {
		t.Parallel()
		b := newBed(t, 1, steady)
		cfg := b.config("a", handler)
		cfg.Redis.IsClusterMode = true
		if err := run(t, cfg); !errors.Is(err, consumer.ErrRedisMode) {
			t.Errorf("Run returned %v", err)
		}
	})
}
