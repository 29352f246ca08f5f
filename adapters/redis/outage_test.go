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

// outageTimings keep a fault test short.
var outageTimings = protocol.Timings{HeartbeatInterval: 100 * time.Millisecond, Lease: 2 * time.Second, RebalanceTimeout: 2 * time.Second}

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
	store, err := client.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	return startTriedAt(t, startCoordinator(t, cfg, 100*time.Millisecond))
}

func startTriedAt(t *testing.T, c *service.Coordinator) *tried {
	t.Helper()
	x := &tried{t: t, c: c, counts: map[protocol.Status]int{}}
	n := 2
	if _, err := x.c.CreateStream(t.Context(), "orders", protocol.CreateStream{InitialShardCount: &n, RequestedBy: "test"}); err != nil {
		t.Fatal(err)
	}
	x.settles(10 * time.Second)
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
	q := x.next()
	q.MemberEpoch, q.OwnedShards = protocol.EpochLeave, nil
	if r := x.c.Heartbeat(x.t.Context(), "orders", "billing", q); r.Status != protocol.StatusOK {
		x.t.Fatalf("leave: %s %s", r.Status, r.Reason)
	}
}

// settles beats until both shards are held, and nothing is to be corrected.
func (x *tried) settles(within time.Duration) {
	x.t.Helper()
	for end := time.Now().Add(within); ; {
		if r := x.beat(); r.Status == protocol.StatusOK && len(r.Assignment.AssignedShards) == 2 {
			return
		} else if time.Now().After(end) {
			x.t.Fatalf("not settled after %s: %+v, statuses %v", within, r, x.counts)
		}
		time.Sleep(20 * time.Millisecond)
	}
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
	after := outageTimings.Lease + 3*time.Second
	t.Run("frozen", func(t *testing.T) {
		server := redistest.Start(t)
		x := startTried(t, redis.Config{URL: server.URL(), Timeout: 300 * time.Millisecond})
		server.Freeze()
		x.untilRetry()
		server.Thaw()
		x.settles(after)
	})
	t.Run("restarted", func(t *testing.T) {
		server := redistest.Start(t)
		x := startTried(t, redis.Config{URL: server.URL()})
		server.Restart()
		x.settles(after)
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
		x.settles(after)
	})
	t.Run("loading", func(t *testing.T) {
		server := redistest.Start(t, "--enable-debug-command", "local")
		x := startTried(t, redis.Config{URL: server.URL(), Timeout: time.Second})
		c := raw(t, server.URL())
		for i := range 400 {
			c.Set(t.Context(), fmt.Sprint("filling-", i), strings.Repeat("x", 100), 0)
		}
		for name, value := range map[string]string{"key-load-delay": "10000", "loading-process-events-interval-bytes": "1024"} {
			if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		var loading sync.WaitGroup
		loading.Go(func() { c.Do(t.Context(), "DEBUG", "RELOAD") })
		x.untilRetry()
		loading.Wait()
		x.settles(after)
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
		w.Replica.InStep(w.Master)
		w.Master.Kill()
		x.untilRetry()
		x.settles(20 * time.Second)
	})
	t.Run("a Cluster's failover", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3, true)
		x := startTried(t, redis.Config{Addrs: cluster.Addrs()})
		cluster.InStep()
		cluster.Owner(slotOf(redis.DefaultKeyPrefix, orders)).Kill()
		x.untilRetry()
		x.settles(20 * time.Second)
	})
	t.Run("a Cluster that is down", func(t *testing.T) {
		// A master of other slots dies: until its replica takes over, all others
		// answer CLUSTERDOWN.
		cluster := redistest.StartCluster(t, 3, true)
		x := startTried(t, redis.Config{Addrs: cluster.Addrs()})
		mine := slices.Index(cluster.Masters, cluster.Owner(slotOf(redis.DefaultKeyPrefix, orders)))
		cluster.InStep()
		cluster.Masters[(mine+1)%3].Kill()
		seen := make(chan struct{})
		go func() {
			defer close(seen)
			c := raw(t, cluster.Masters[mine].URL())
			redistest.Eventually(t, "the Cluster to be down", func() bool {
				return strings.Contains(c.ClusterInfo(t.Context()).Val(), "cluster_state:fail")
			})
		}()
		for down := true; down; {
			select {
			case <-seen:
				down = false
			default:
				x.beat()
			}
		}
		x.settles(20 * time.Second)
	})
	t.Run("a slot that moves", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3, false)
		x := startTried(t, redis.Config{Addrs: cluster.Addrs()})
		slot := slotOf(redis.DefaultKeyPrefix, orders)
		mine := slices.Index(cluster.Masters, cluster.Owner(slot))
		redistest.MoveSlot(slot, cluster.Masters[mine], cluster.Masters[(mine+1)%3], false)
		x.settles(after)
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
		x.wantNoOK(2 * time.Second)
		w.Replica.Thaw()
		x.settles(10 * time.Second)
	})
	t.Run("replica gone", func(t *testing.T) {
		w := redistest.StartWatched(t)
		w.Sentinel.Kill()
		x := startTried(t, waits(redis.Config{URL: w.Master.URL()}))
		w.Replica.Kill()
		x.wantNoOK(2 * time.Second)
	})
	t.Run("cut off from its Cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3, true)
		x := startTried(t, waits(redis.Config{Addrs: cluster.Addrs(), Timeout: 300 * time.Millisecond}))
		mine := cluster.Owner(slotOf(redis.DefaultKeyPrefix, orders))
		for _, other := range slices.Concat(cluster.Masters, cluster.Replicas) {
			if other != mine {
				other.Freeze()
			}
		}
		x.wantNoOK(3 * time.Second)
		for _, other := range slices.Concat(cluster.Masters, cluster.Replicas) {
			other.Thaw()
		}
		x.settles(20 * time.Second)
	})
	// A group that another coordinator has changed there: it is not shown.
	t.Run("what others wrote", func(t *testing.T) {
		w := redistest.StartWatched(t)
		w.Sentinel.Kill()
		careful := openStore(t, waits(redis.Config{URL: w.Master.URL(), KeyPrefix: "P"}))
		careless := openStore(t, redis.Config{URL: w.Master.URL(), KeyPrefix: "P"})
		v, err := careful.SaveGroup(t.Context(), orders, port.GroupSave{Nonce: "n1", Body: []byte("one")})
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

// wantNoOK beats for a while, from when the fault has set in.
func (x *tried) wantNoOK(d time.Duration) {
	x.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if r := x.beat(); r.Status != protocol.StatusRetry {
			x.t.Fatalf("answered %s without a replica: %s", r.Status, r.Reason)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestChangesReachOtherCoordinators: a member waits at one coordinator, and hears
// of what another one changed long before the first would have looked.
func TestChangesReachOtherCoordinators(t *testing.T) {
	t.Parallel()
	const tick, rounds = 600 * time.Millisecond, 7
	for name, cfg := range map[string]redis.Config{
		"one server": {URL: redistest.Start(t).URL()},
		"a Cluster":  {Addrs: redistest.StartCluster(t, 3, false).Addrs()},
	} {
		t.Run(name, func(t *testing.T) {
			x := startTriedAt(t, startCoordinator(t, cfg, tick))
			x.c = startCoordinator(t, cfg, tick)
			there := startCoordinator(t, cfg, tick)
			var took []time.Duration
			for i := range rounds {
				x.settles(10 * time.Second)
				q := x.next()
				q.MaxWaitMs = outageTimings.Lease.Milliseconds()
				heard := make(chan protocol.HeartbeatResponse, 1)
				go func() { heard <- x.c.Heartbeat(t.Context(), "orders", "billing", q) }()
				// A change of mind: it joins and leaves, and the other one lets go and
				// is given back. The first that waits is answered at the join.
				other := &tried{t: t, c: there, id: fmt.Sprint("b", i), counts: map[protocol.Status]int{}}
				began := time.Now()
				other.beat()
				x.last = <-heard
				took = append(took, time.Since(began))
				if n := len(x.last.Assignment.AssignedShards); n != 1 {
					t.Fatalf("%d shards after %s, want 1: %+v", n, took[i], x.last)
				}
				other.leave()
			}
			slices.Sort(took)
			if took[rounds/2] > tick/4 {
				t.Errorf("it took %s in the middle, with ticks every %s: %v", took[rounds/2], tick, took)
			}
		})
	}
}
