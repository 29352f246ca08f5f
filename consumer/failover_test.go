package consumer_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/consumer/internal/redistest"
)

// TestSentinelNamesANewMaster: the master dies or falls silent, Sentinel promotes
// its replica, and reading goes on there.
func TestSentinelNamesANewMaster(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"dies", "falls silent"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			sentinel := redistest.StartSentinel(t)
			master, replica := sentinel.Master, sentinel.Replica
			b := &bed{tb: t, server: master, redis: master.Client(), coord: newCoordinator(t, 2, steady), shards: 2}
			t.Cleanup(func() { _ = b.redis.Close() })
			b.provision()
			var book logbook
			l := newJournal()
			cfg := b.hurried("a", l.handler("a", nil))
			cfg.Redis = redis.UniversalOptions{Addrs: []string{sentinel.Addr}, MasterName: redistest.MasterName}
			cfg.Logger = book.logger()
			c := start(t, cfg)
			b.add(20)
			l.await(t, 20)
			eventually(t, "all is acknowledged", func() bool { return c.Stats().Acknowledged == 20 })
			replica.InStep(master)
			sentinel.Alert()
			begin, watch := time.Now(), redistest.StartWatch(t)
			if how == "dies" {
				master.Kill()
			} else {
				master.Freeze()
				t.Cleanup(master.Thaw)
			}
			asking := sentinel.Client()
			defer func() { _ = asking.Close() }()
			// A sentinel that has stood still for two seconds does nothing for half a minute.
			atLast(t, 3*patience, "the replica takes over", func() bool {
				addr, err := asking.GetMasterAddrByName(context.Background(), redistest.MasterName).Result()
				return err == nil && strings.Join(addr, ":") == replica.Addr && strings.Contains(replica.Info("INFO", "replication"), "role:master")
			})
			took := time.Since(begin)
			watch.Reset()
			heir := replica.Client()
			defer func() { _ = heir.Close() }()
			for i := range 2 {
				if err := heir.XAdd(context.Background(), &redis.XAddArgs{Stream: key(i), NoMkStream: true, Values: []string{"n", strconv.Itoa(20 + i)}}).Err(); err != nil {
					t.Fatal(err)
				}
			}
			l.await(t, 22)
			watch.Within(2*time.Second, "the gap after the failover")
			t.Logf("the failover took %s, the gap was %s", took, time.Since(begin))
			l.clean(t)
			for _, alarm := range []string{"group was gone", "does not exist"} {
				for _, said := range book.find(alarm) {
					t.Errorf("said %q %v", said.text, said.attrs)
				}
			}
			c.stop()
		})
	}
}

// TestAServerThatIsNoMasterForAWhile: it unblocks its readers, and takes no reads of
// a group until it is one again. Nothing is lost, and no group is taken for gone.
func TestAServerThatIsNoMasterForAWhile(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		name    string
		blocked int
	}{{"blocked", 0}, {"polled", -1}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Parallel()
			b := newBed(t, 2, steady)
			var book logbook
			l := newJournal()
			cfg := b.config("a", l.handler("a", nil))
			cfg.Logger, cfg.MaxBlockedReaders = book.logger(), mode.blocked
			c := start(t, cfg)
			b.add(10)
			l.await(t, 10)
			ctx := context.Background()
			// Nobody is there to follow.
			if err := b.redis.Do(ctx, "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the trouble is seen", func() bool {
				h := c.Health().Shards
				return len(h) == 2 && h[0].Trouble.Kind == "not-ready" && h[1].Trouble.Kind == "not-ready"
			})
			if err := b.redis.Do(ctx, "REPLICAOF", "NO", "ONE").Err(); err != nil {
				t.Fatal(err)
			}
			watch := redistest.StartWatch(t)
			b.add(10)
			l.await(t, 20)
			watch.Within(2*time.Second, "reading goes on")
			eventually(t, "all is acknowledged", func() bool { return b.pending() == 0 })
			if _, again := l.handled(); again != 0 {
				t.Errorf("%d records were handled twice", again)
			}
			for _, alarm := range []string{"group was gone", "does not exist", "went back"} {
				for _, said := range book.find(alarm) {
					t.Errorf("said %q %v", said.text, said.attrs)
				}
			}
		})
	}
}

// TestAServerThatStaysSilent: no connection breaks, and none answers. It is noticed
// long before the read would have ended, and told.
func TestAServerThatStaysSilent(t *testing.T) {
	t.Parallel()
	b := newBed(t, 1, steady)
	l := newJournal()
	cfg := b.hurried("a", l.handler("a", nil))
	cfg.BlockTime, cfg.Redis.ReadTimeout = time.Minute, time.Second
	c := start(t, cfg)
	b.add(1)
	l.await(t, 1)
	b.server.Freeze()
	defer b.server.Thaw()
	watch := redistest.StartWatch(t)
	eventually(t, "the trouble is seen", func() bool {
		trouble := c.Health().Shards[0].Trouble
		if trouble.Kind != "unreachable" {
			return false
		}
		if trouble.Err == nil || errors.Is(trouble.Err, context.Canceled) {
			t.Errorf("the trouble is told as %v", trouble.Err)
		}
		return true
	})
	watch.Within(4*time.Second, "the trouble is seen")
	b.server.Thaw()
	b.add(10)
	l.await(t, 11)
	eventually(t, "all is well", func() bool { return c.Health().Healthy() })
}
