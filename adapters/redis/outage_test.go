package redis_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// outageTimings have a lease that no fault, and no machine that stands still, outlasts.
var outageTimings = protocol.Timings{HeartbeatInterval: 100 * time.Millisecond, Lease: time.Hour, RebalanceTimeout: time.Hour}

// shortTick is the time between two looks at the leases where that is not to be waited for.
const shortTick = 100 * time.Millisecond

// tried is a coordinator on a store in Redis, with one member that holds both
// shards of the stream orders.
type tried struct {
	t *testing.T
	c *service.Coordinator
	// id is the member's, a if it is empty.
	id     string
	last   protocol.HeartbeatResponse
	n      int
	counts map[protocol.Status]int
}

func startCoordinator(t *testing.T, cfg redis.Config, tick time.Duration) *service.Coordinator {
	t.Helper()
	client := open(t, cfg)
	store := storeOn(t, client, cfg)
	c, err := service.New(
		service.Config{ID: "test", Timings: outageTimings, TickInterval: tick, Logger: slog.New(slog.DiscardHandler)},
		service.Ports{Store: store, Signal: store, Mutex: client.Mutex()},
	)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = c.Run(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		ctx, done := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer done()
		_ = c.Close(ctx) // the server may be gone by now
	})
	return c
}

func startTried(t *testing.T, cfg redis.Config) *tried {
	t.Helper()
	return startTriedAt(t, startCoordinator(t, cfg, shortTick))
}

func startTriedAt(t *testing.T, c *service.Coordinator) *tried {
	t.Helper()
	x := &tried{t: t, c: c, counts: map[protocol.Status]int{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the last answer was %+v, the statuses %v", x.last, x.counts)
		}
	})
	n := 2
	redistest.Eventually(t, "a stream", func() bool {
		_, err := x.c.CreateStream(t.Context(), "orders", protocol.CreateStream{InitialShardCount: &n, RequestedBy: "test"})
		if err != nil {
			t.Logf("create: %v", err) // a short time of cfg was too short
		}
		return err == nil || errors.Is(err, protocol.ErrStreamExists)
	})
	x.settles()
	return x
}

// next is the member's next heartbeat.
func (x *tried) next() *protocol.Heartbeat {
	x.n++
	id := cmp.Or(x.id, "a")
	q := &protocol.Heartbeat{
		ProtocolVersion: 1, RequestID: fmt.Sprint(x.n), MemberID: id, Incarnation: id + "1", Capacity: protocol.Capacity{MaxConcurrency: 1},
		MemberEpoch: x.last.MemberEpoch, MetadataVersion: x.last.MetadataVersion,
	}
	for _, s := range x.last.Assignment.AssignedShards {
		q.OwnedShards = append(q.OwnedShards, s.Shard)
	}
	return q
}

// beat sends the member's next heartbeat. Whatever happens to Redis, it is answered,
// and by nothing that would end the member.
func (x *tried) beat() protocol.HeartbeatResponse {
	x.t.Helper()
	r := x.c.Heartbeat(x.t.Context(), "orders", "billing", x.next())
	x.counts[r.Status]++
	switch {
	case r.Status == protocol.StatusRetry:
		return r
	case !r.Status.RenewsLease():
		x.t.Fatalf("%s: %s", r.Status, r.Reason)
	case r.MemberEpoch < x.last.MemberEpoch:
		x.t.Fatalf("epoch %d after %d", r.MemberEpoch, x.last.MemberEpoch)
	}
	x.last = r
	return r
}

// leave ends the member.
func (x *tried) leave() {
	x.t.Helper()
	var r protocol.HeartbeatResponse
	redistest.Eventually(x.t, "the end of the member", func() bool {
		q := x.next()
		q.MemberEpoch, q.OwnedShards = protocol.EpochLeave, nil
		r = x.c.Heartbeat(x.t.Context(), "orders", "billing", q)
		return r.Status != protocol.StatusRetry
	})
	if r.Status != protocol.StatusOK {
		x.t.Fatalf("leave: %s %s", r.Status, r.Reason)
	}
}

// settles beats until both shards are held, and nothing is to be corrected.
func (x *tried) settles() {
	x.t.Helper()
	redistest.Eventually(x.t, "all to be well", func() bool {
		r := x.beat()
		return r.Status == protocol.StatusOK && len(r.Assignment.AssignedShards) == 2
	})
}

// untilRetry beats until a fault has set in: a heartbeat is answered RETRY.
func (x *tried) untilRetry() {
	x.t.Helper()
	redistest.Eventually(x.t, "RETRY", func() bool { return x.beat().Status == protocol.StatusRetry })
}

// TestRetryMeanwhile: whatever keeps Redis from answering, members are told to ask
// again, none is ended, no epoch goes back, and all is well when it is over.
func TestRetryMeanwhile(t *testing.T) {
	t.Parallel()
	t.Run("frozen", func(t *testing.T) {
		server := redistest.Start(t)
		x := startTried(t, redis.Config{URL: server.URL(), Timeout: 300 * time.Millisecond})
		server.Freeze()
		x.untilRetry()
		server.Thaw()
		x.settles()
	})
	t.Run("restarted", func(t *testing.T) {
		server := redistest.Start(t)
		x := startTried(t, redis.Config{URL: server.URL()})
		server.Restart()
		x.settles()
	})
	t.Run("read only", func(t *testing.T) {
		server := redistest.Start(t)
		x := startTried(t, redis.Config{URL: server.URL()})
		c := raw(t, server.URL())
		if err := c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
			t.Fatal(err)
		}
		x.untilRetry()
		if err := c.Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
			t.Fatal(err)
		}
		x.settles()
	})
	t.Run("loading", func(t *testing.T) {
		server := redistest.Start(t, "--enable-debug-command", "local")
		x := startTried(t, redis.Config{URL: server.URL(), Timeout: time.Second})
		c := raw(t, server.URL())
		for i := range 400 {
			c.Set(t.Context(), fmt.Sprint("filling-", i), strings.Repeat("x", 100), 0)
		}
		set := func(name, value string) {
			t.Helper()
			if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		set("loading-process-events-interval-bytes", "1024")
		set("key-load-delay", "100000") // microseconds for each key, until somebody has met it
		var loading sync.WaitGroup
		loading.Go(func() { c.Do(t.Context(), "DEBUG", "RELOAD") })
		x.untilRetry()
		set("key-load-delay", "0")
		loading.Wait()
		x.settles()
	})
	t.Run("scripts forgotten", func(t *testing.T) {
		server := redistest.Start(t)
		x := startTried(t, redis.Config{URL: server.URL()})
		c := raw(t, server.URL())
		for range 10 {
			c.ScriptFlush(t.Context())
			if r := x.beat(); r.Status != protocol.StatusOK {
				t.Errorf("%s: %s", r.Status, r.Reason)
			}
		}
	})
	t.Run("Sentinel's failover", func(t *testing.T) {
		w := redistest.StartWatched(t)
		x := startTried(t, redis.Config{Addrs: []string{w.Sentinel.Addr}, MasterName: w.Name})
		w.KillMaster()
		x.untilRetry()
		w.TakeOver()
		x.settles()
	})
	t.Run("a Cluster's failover", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3, true)
		x := startTried(t, redis.Config{Addrs: cluster.Addrs()})
		cluster.InStep()
		mine := cluster.Owner(slotOf(redis.DefaultKeyPrefix, orders))
		cluster.Kill(mine)
		x.untilRetry()
		cluster.TakeOver(mine)
		x.settles()
	})
	t.Run("a Cluster that is down", func(t *testing.T) {
		// A master of other slots dies: until its replica takes over, all others
		// answer CLUSTERDOWN.
		cluster := redistest.StartCluster(t, 3, true)
		x := startTried(t, redis.Config{Addrs: cluster.Addrs()})
		mine := slices.Index(cluster.Masters, cluster.Owner(slotOf(redis.DefaultKeyPrefix, orders)))
		other := cluster.Masters[(mine+1)%3]
		cluster.InStep()
		cluster.Kill(other)
		c := raw(t, cluster.Masters[mine].URL())
		redistest.Eventually(t, "the Cluster to be down", func() bool {
			x.beat()
			return strings.Contains(c.ClusterInfo(t.Context()).Val(), "cluster_state:fail")
		})
		x.untilRetry()
		cluster.TakeOver(other)
		x.settles()
	})
	t.Run("a slot that moves", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3, false)
		x := startTried(t, redis.Config{Addrs: cluster.Addrs()})
		slot := slotOf(redis.DefaultKeyPrefix, orders)
		mine := slices.Index(cluster.Masters, cluster.Owner(slot))
		redistest.MoveSlot(slot, cluster.Masters[mine], cluster.Masters[(mine+1)%3], false)
		x.settles()
	})
}

// TestNothingWithoutReplicas: with WaitReplicas, a master that its replicas do not
// hear gives no OK, whatever it still takes.
func TestNothingWithoutReplicas(t *testing.T) {
	t.Parallel()
	waits := func(cfg redis.Config) redis.Config {
		cfg.WaitReplicas, cfg.WaitTimeout = 1, 150*time.Millisecond
		return cfg
	}
	t.Run("replica frozen", func(t *testing.T) {
		w := redistest.StartWatched(t)
		w.Sentinel.Kill()
		x := startTried(t, waits(redis.Config{URL: w.Master.URL()}))
		w.Replica.Freeze()
		x.wantNoOK(12)
		w.Replica.Thaw()
		x.settles()
	})
	t.Run("replica gone", func(t *testing.T) {
		w := redistest.StartWatched(t)
		w.Sentinel.Kill()
		x := startTried(t, waits(redis.Config{URL: w.Master.URL()}))
		w.Replica.Kill()
		x.wantNoOK(12)
	})
	t.Run("cut off from its Cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3, true)
		x := startTried(t, waits(redis.Config{Addrs: cluster.Addrs(), Timeout: 300 * time.Millisecond}))
		mine := cluster.Owner(slotOf(redis.DefaultKeyPrefix, orders))
		others := slices.DeleteFunc(slices.Concat(cluster.Masters, cluster.Replicas), func(s *redistest.Server) bool { return s == mine })
		for _, other := range others {
			other.Freeze()
		}
		// It takes writes until it notices, and none after that.
		x.wantNoOK(4)
		c := raw(t, mine.URL())
		if err := c.ConfigSet(t.Context(), "cluster-node-timeout", "1000").Err(); err != nil {
			t.Fatal(err)
		}
		redistest.Eventually(t, "the Cluster to be down", func() bool {
			x.wantRetry()
			return strings.Contains(c.ClusterInfo(t.Context()).Val(), "cluster_state:fail")
		})
		x.wantNoOK(4)
		for _, other := range others {
			other.Thaw()
		}
		x.settles()
	})
	// A group that another coordinator has changed there: it is not shown.
	t.Run("what others wrote", func(t *testing.T) {
		w := redistest.StartWatched(t)
		w.Sentinel.Kill()
		unhurried := openStore(t, redis.Config{URL: w.Master.URL(), KeyPrefix: "P", WaitReplicas: 1})
		careful := openStore(t, waits(redis.Config{URL: w.Master.URL(), KeyPrefix: "P"}))
		careless := openStore(t, redis.Config{URL: w.Master.URL(), KeyPrefix: "P"})
		v, err := unhurried.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one")})
		if err != nil {
			t.Fatal(err)
		}
		w.Replica.Freeze()
		if _, err := careless.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "n2", Body: []byte("two")}); err != nil {
			t.Fatal(err)
		}
		if r, err := careful.LoadGroup(t.Context(), orders, v); err == nil {
			t.Errorf("a state that no replica has is shown: %+v", r)
		}
		if _, err := careful.SaveGroup(t.Context(), orders, port.GroupSave{Expected: v, Nonce: "n3", Body: []byte("three")}); err == nil || errors.Is(err, port.ErrTooLarge) {
			t.Errorf("save: %v", err)
		}
		w.Replica.Thaw()
		redistest.Eventually(t, "the replica to have it", func() bool {
			r, err := careful.LoadGroup(t.Context(), orders, v)
			return err == nil && string(r.Body) == "two"
		})
	})
}

// wantNoOK beats so often, from when the fault has set in.
func (x *tried) wantNoOK(times int) {
	x.t.Helper()
	for range times {
		x.wantRetry()
		time.Sleep(20 * time.Millisecond)
	}
}

// wantRetry beats once.
func (x *tried) wantRetry() {
	x.t.Helper()
	if r := x.beat(); r.Status != protocol.StatusRetry {
		x.t.Fatalf("answered %s without a replica: %s", r.Status, r.Reason)
	}
}

// TestChangesReachOtherCoordinators: a member waits at one coordinator, and hears
// of what another one changed long before the first would have looked.
func TestChangesReachOtherCoordinators(t *testing.T) {
	t.Parallel()
	// Nobody looks before the wait is over.
	tick, wait := outageTimings.Lease/3, protocol.MaxWait(time.Hour, outageTimings.Lease)
	const rounds = 7
	for name, cfg := range map[string]redis.Config{
		"one server": {URL: redistest.Start(t).URL()},
		"a Cluster":  {Addrs: redistest.StartCluster(t, 3, false).Addrs()},
	} {
		t.Run(name, func(t *testing.T) {
			c := universal(t, cfg)
			stamps := func() string {
				return fmt.Sprint(c.HGetAll(t.Context(), redis.DefaultKeyPrefix+":{orders:billing}:live").Val())
			}
			x := startTriedAt(t, startCoordinator(t, cfg, tick))
			x.c = startCoordinator(t, cfg, tick)
			there := startCoordinator(t, cfg, tick)
			var took []time.Duration
			for i := range rounds {
				x.settles()
				q := x.next()
				q.MaxWaitMs = wait.Milliseconds()
				heard := make(chan protocol.HeartbeatResponse, 1)
				before := stamps()
				go func() { heard <- x.c.Heartbeat(t.Context(), "orders", "billing", q) }()
				// It waits once its lease was renewed and nothing was new.
				redistest.Eventually(t, "the renewal", func() bool { return stamps() != before })
				// A change of mind: it joins and leaves, and the other one lets go and
				// is given back. The first that waits is answered at the join.
				other := &tried{t: t, c: there, id: fmt.Sprint("b", i), counts: map[protocol.Status]int{}}
				began := time.Now()
				redistest.Eventually(t, "the join", func() bool { return other.beat().Status != protocol.StatusRetry })
				x.last = <-heard
				took = append(took, time.Since(began))
				if n := len(x.last.Assignment.AssignedShards); n != 1 {
					t.Fatalf("%d shards after %s, want 1: %+v", n, took[i], x.last)
				}
				other.leave()
			}
			slices.Sort(took)
			if took[rounds/2] > wait/2 {
				t.Errorf("it took %s in the middle, with nobody looking for %s: %v", took[rounds/2], wait, took)
			}
		})
	}
}
