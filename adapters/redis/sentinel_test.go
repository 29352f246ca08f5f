package redis_test

import (
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/adapters/redis/internal/redistest"
	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// TestSentinel: streams are provisioned on the master that the Sentinel names,
// also while another one becomes it.
func TestSentinel(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t)
	client := open(t, redis.Config{Addrs: []string{w.Sentinel.Addr}, MasterName: w.Name})
	s := client.Streams()
	p := port.Provision{Prefix: "orders", End: 3, Groups: []string{"g"}, Start: protocol.StartEarliest}
	if err := s.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.KillMaster()
	w.TakeOver()
	p.Groups = []string{"g", "h"}
	redistest.Eventually(t, "groups on the new master", func() bool {
		before := w.TakenOver()
		err := s.Provision(t.Context(), p)
		if err != nil && before {
			t.Fatal(err)
		}
		return err == nil // else it took longer than the patience of a call
	})
	for i := range p.End {
		if groups, err := raw(t, w.Replica.URL()).XInfoGroups(t.Context(), "orders:"+string(rune('0'+i))).Result(); err != nil || len(groups) != 2 {
			t.Errorf("shard %d: groups %v, %v", i, groups, err)
		}
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestSentinelOfAnotherName: it says what to check.
func TestSentinelOfAnotherName(t *testing.T) {
	t.Parallel()
	w := redistest.StartWatched(t)
	_, err := redis.Open(t.Context(), patient(redis.Config{Addrs: []string{w.Sentinel.Addr}, MasterName: "other"}))
	if err == nil || !strings.Contains(err.Error(), "the master's name") {
		t.Errorf("got %v", err)
	}
}
