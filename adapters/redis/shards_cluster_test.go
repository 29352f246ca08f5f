package redis_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// TestShardsMove: slots half moved, whose keys are asked for at their new server, and
// slots of a server that the client has never heard of.
func TestShardsMove(t *testing.T) {
	t.Parallel()
	const shards = 12
	cluster := redistest.StartCluster(t, 3, false)
	c, s := rawCluster(t, cluster.Addrs()), openCluster(t, cluster)
	p := port.Provision{Prefix: "orders", End: shards, Groups: []string{"g"}, Start: protocol.StartEarliest}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	indexes := make([]int, shards)
	for i := range indexes {
		indexes[i] = i
		if i%3 == 0 {
			do(t, c, fmt.Sprintf("XADD orders:%d 1-1 k v", i))
		}
	}
	before := looked(t, s, indexes...)
	fresh := redistest.StartNode(t)
	cluster.Join(fresh)
	for i := range shards {
		slot := routing.Slot(routing.StreamKey("orders", i))
		redistest.MoveSlot(slot, cluster.Owner(slot), fresh, i%2 == 1)
	}
	if found, err := s.Find(t.Context(), "orders", 0, shards+5); err != nil || !slices.Equal(found, indexes) {
		t.Errorf("found %v, %v; want %v", found, err, indexes)
	}
	p.Renew = true
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	seen := looked(t, s, indexes...)
	stale, want := make([]port.RetireOutcome, shards), make([]port.RetireOutcome, shards)
	for i, sh := range seen {
		if sh.LastID == before[i].LastID || sh.Records != before[i].Records || len(sh.Cursors) != 1 {
			t.Errorf("it was %+v and is %+v", before[i], sh)
		}
		stale[i], want[i] = port.ShardKept, port.ShardGone
		if i%3 == 0 {
			want[i] = port.ShardBusy
		}
	}
	wantOutcomes(t, s, asLooked("orders", before), stale...)
	wantOutcomes(t, s, asLooked("orders", seen), want...)
	if n := raw(t, fresh.URL()).DBSize(t.Context()).Val(); n != shards/3 {
		t.Errorf("%d keys are left, want %d", n, shards/3)
	}
}

// TestShardsWhileAMasterDies: what cannot be carried out while a replica takes over is
// carried out once it has.
func TestShardsWhileAMasterDies(t *testing.T) {
	t.Parallel()
	const shards = 12
	cluster := redistest.StartCluster(t, 3, true)
	s := openCluster(t, cluster)
	p := port.Provision{Prefix: "orders", End: shards, Groups: []string{"g"}, Start: protocol.StartEarliest}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	cluster.InStep()
	indexes := make([]int, shards)
	want := make([]port.RetireOutcome, shards)
	for i := range indexes {
		indexes[i], want[i] = i, port.ShardGone
	}
	cluster.Kill(cluster.Masters[1])
	cluster.TakeOver(cluster.Masters[1])
	seen := looked(t, s, indexes...)
	if _, err := s.Find(t.Context(), "orders", 0, shards); err != nil {
		t.Error(err)
	}
	wantOutcomes(t, s, asLooked("orders", seen), want...)
	if found, err := s.Find(t.Context(), "orders", 0, shards); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

// TestShardsLostAnswer: whether a shard was removed is not known when the answer is lost.
// It is asked again, which removes nothing else.
func TestShardsLostAnswer(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 1, false)
	proxy := redistest.StartProxy(t, cluster.Masters[0].Addr)
	c := raw(t, cluster.Masters[0].URL())
	_, announced, err := net.SplitHostPort(proxy.Addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ConfigSet(t.Context(), "cluster-announce-port", announced).Err(); err != nil {
		t.Fatal(err)
	}
	s := open(t, redis.Config{Addrs: []string{proxy.Addr}}).Streams()
	p := port.Provision{Prefix: "orders", End: 4, Groups: []string{"g"}, Renew: true}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func(){
		"look":  func() { looked(t, s, 0, 1, 2, 3) },
		"renew": func() { mustProvision(t, s, p) },
		"retire": func() {
			wantOutcomes(t, s, asLooked("orders", looked(t, s, 0, 1, 2)), port.ShardGone, port.ShardGone, port.ShardGone)
			mustProvision(t, s, p)
		},
	} {
		lost := proxy.Lost.Load()
		proxy.LoseAnswerTo("evalsha")
		call()
		if proxy.Lost.Load() != lost+1 {
			t.Errorf("%s: no answer was lost", name)
		}
	}

	// On one server nobody takes over: the outcome is unknown, and asking again tells.
	server := redistest.Start(t)
	proxy = redistest.StartProxy(t, server.Addr)
	s = open(t, redis.Config{URL: proxy.URL()}).Streams()
	mustProvision(t, s, p)
	proof := asLooked("orders", looked(t, s, 0, 1))
	proxy.LoseAnswerTo("evalsha")
	if _, err := s.Retire(t.Context(), proof); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("retire: %v, want an unknown outcome", err)
	}
	wantOutcomes(t, s, proof, port.ShardGone, port.ShardGone)
}
