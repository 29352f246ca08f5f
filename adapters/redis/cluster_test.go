package redis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

func openCluster(t *testing.T, c *redistest.Cluster) *redis.Streams {
	t.Helper()
	return open(t, redis.Config{Addrs: c.Addrs()}).Streams()
}

// wantGroup fails unless every shard has the group.
func wantGroup(t *testing.T, c *goredis.ClusterClient, prefix, group string, end int) {
	t.Helper()
	for i := range end {
		key := routing.StreamKey(prefix, i)
		if err := c.XPending(t.Context(), key, group).Err(); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func TestStreamsOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, false)
	c := rawCluster(t, cluster.Addrs())
	cfg := redis.Config{Addrs: cluster.Addrs()}
	streamSuites(t, cfg, c, func(ctx context.Context) error { return c.ForEachMaster(ctx, removeKeys) })
}

// TestWrongKind: a Cluster taken for a server, and the other way round.
func TestWrongKind(t *testing.T) {
	t.Parallel()
	server, cluster := redistest.Start(t), redistest.StartCluster(t, 1, false)
	for name, test := range map[string]struct {
		cfg  redis.Config
		says string
	}{
		"a server by the address of a Cluster":     {redis.Config{URL: cluster.Masters[0].URL()}, "part of a Redis Cluster"},
		"a Cluster by the address of a server":     {redis.Config{Addrs: []string{server.Addr}}, "not part of a Redis Cluster"},
		"Sentinels by the address of a server":     {redis.Config{Addrs: []string{server.Addr}, MasterName: "mymaster"}, "addresses of the Sentinels"},
		"Sentinels by an address of nobody":        {redis.Config{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, MasterName: "mymaster"}, "refused"},
		"a Cluster by several addresses of nobody": {redis.Config{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}}, "refused"},
	} {
		client, err := redis.Open(t.Context(), patient(test.cfg))
		if err == nil {
			_ = client.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q in it", name, err, test.says)
		}
		if strings.Count(err.Error(), "dial tcp") > 1 {
			t.Errorf("%s: the same is said again and again: %v", name, err)
		}
	}
}

// TestSlotsMove: a slot half moved, whose keys are asked for at its new server,
// and one moved to a server that the client has never heard of.
func TestSlotsMove(t *testing.T) {
	t.Parallel()
	const shards = 12
	cluster := redistest.StartCluster(t, 3, false)
	c, s := rawCluster(t, cluster.Addrs()), openCluster(t, cluster)
	p := port.Provision{Prefix: "orders", End: shards, Groups: []string{"g"}, Start: protocol.StartEarliest}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	fresh := redistest.StartNode(t)
	cluster.Join(fresh)
	for i := range shards {
		slot := routing.Slot(routing.StreamKey("orders", i))
		// The odd ones stay half moved.
		redistest.MoveSlot(slot, cluster.Owner(slot), fresh, i%2 == 1)
	}
	p.Groups = []string{"g", "h"}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	direct := raw(t, fresh.URL())
	for i := range shards {
		key := routing.StreamKey("orders", i)
		pipe := direct.Pipeline()
		pipe.Do(t.Context(), "ASKING")
		groups := pipe.XInfoGroups(t.Context(), key)
		if _, err := pipe.Exec(t.Context()); err != nil || len(groups.Val()) != 2 {
			t.Errorf("%s: groups %v, %v, want g and h", key, groups.Val(), err)
		}
	}
	if err := s.RemoveGroup(t.Context(), "orders", "g", 0, shards); err != nil {
		t.Error(err)
	}
	wantGroup(t, c, "orders", "h", shards)
	if err := s.Remove(t.Context(), "orders", 0, shards); err != nil {
		t.Error(err)
	}
	if n := direct.DBSize(t.Context()).Val(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

// TestMasterDies: what cannot be carried out while a replica takes over is
// carried out once it has.
func TestMasterDies(t *testing.T) {
	t.Parallel()
	const shards = 12
	cluster := redistest.StartCluster(t, 3, true)
	c, s := rawCluster(t, cluster.Addrs()), openCluster(t, cluster)
	p := port.Provision{Prefix: "orders", End: shards, Groups: []string{"g"}, Start: protocol.StartEarliest}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	cluster.InStep()
	cluster.Kill(cluster.Masters[1])
	cluster.TakeOver(cluster.Masters[1])
	p.Groups = []string{"g", "h"}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	cluster.CalmDown()
	wantGroup(t, c, "orders", "h", shards)
	redistest.Eventually(t, "a ping of all masters", func() bool { return s.Ping(t.Context()) == nil })
	if err := s.Remove(t.Context(), "orders", 0, shards); err != nil {
		t.Error(err)
	}
}

// TestClusterDown: a Cluster that answers nothing for a slot is waited for no
// longer than the context, or than Patience.
func TestClusterDown(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, false)
	impatient := open(t, redis.Config{Addrs: cluster.Addrs(), Patience: 200 * time.Millisecond}).Streams()
	s := openCluster(t, cluster)
	cluster.Kill(cluster.Masters[2])
	for name, call := range map[string]func() error{
		"patience": func() error {
			return impatient.Provision(t.Context(), port.Provision{Prefix: "orders", End: 12, Groups: []string{"g"}})
		},
		"context": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			return s.Provision(ctx, port.Provision{Prefix: "orders", End: 12, Groups: []string{"g"}})
		},
	} {
		start := time.Now()
		err := call()
		if !errors.Is(err, protocol.ErrProvisioning) {
			t.Errorf("%s: %v, want ErrProvisioning", name, err)
		}
		if took := time.Since(start); took > patience/2 {
			t.Errorf("%s: it took %s", name, took)
		}
	}
	// What is there can be reached; that something is missing shows in the ping.
	for name, s := range map[string]*redis.Streams{"a client from before": s, "a new client": openCluster(t, cluster)} {
		if err := s.Ping(t.Context()); err == nil {
			t.Errorf("%s: ping: no error though a master is away", name)
		}
	}
}

// TestLostAnswerOnCluster: a creation is repeated, which does no harm; a removal
// is not, as there may be something new by then.
func TestLostAnswerOnCluster(t *testing.T) {
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
	p := port.Provision{Prefix: "orders", End: 3, Groups: []string{"g"}, Start: protocol.StartEarliest}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	p.End = 6
	proxy.LoseAnswerTo("xgroup")
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if proxy.Lost.Load() != 1 {
		t.Fatal("no answer was lost")
	}
	before := calls(t, c, "eval")
	proxy.LoseAnswerTo("eval")
	err = s.Remove(t.Context(), "orders", 0, 1)
	if err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("remove: %v, want an unknown outcome", err)
	}
	if n := calls(t, c, "eval") - before; n != 1 {
		t.Errorf("the removal was sent %d times: %v", n, err)
	}
}

// TestMissingRule: the error names the rule that the user's ACL lacks.
func TestMissingRule(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	c := raw(t, url)
	for i, test := range []struct{ rules, lacks string }{
		{"~orders:0 +@all", "~orders:*"},
		{"~* +@all -xgroup|create", "+xgroup|create"},
		{"~* +@all -type", "+type"},
	} {
		user := fmt.Sprintf("user%d", i)
		args := []any{"ACL", "SETUSER", user, "on", ">pw"}
		for rule := range strings.FieldsSeq(test.rules) {
			args = append(args, rule)
		}
		if err := c.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		s := open(t, redis.Config{URL: url, Username: user, Password: "pw"}).Streams()
		err := s.Provision(t.Context(), port.Provision{Prefix: "orders", First: 1, End: 4, Groups: []string{"g"}})
		if want := "ACL SETUSER " + user + " " + test.lacks; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", test.rules, err, want)
		}
		// Without groups it is a script, inside of which a command is refused.
		err = s.Provision(t.Context(), port.Provision{Prefix: "orders", First: 1, End: 4})
		if err == nil || !strings.Contains(err.Error(), test.lacks) {
			t.Errorf("%s, without groups: %v, want %q in it", test.rules, err, test.lacks)
		}
	}
}
