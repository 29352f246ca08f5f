package service_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// The bound of shard counts can be changed while streams exist that are beyond it.
func TestMaxShardsCanBeReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, memstore.New(), func(cfg *service.Config, _ *service.Ports) { cfg.MaxShards, cfg.DefaultShards = 8, 2 })
		create := func(prefix string, n int) error {
			_, err := c.CreateStream(t.Context(), prefix, protocol.CreateStream{InitialShardCount: &n, RequestedBy: "test"})
			return err
		}
		refused := func(step string, err error) {
			t.Helper()
			if !errors.Is(err, protocol.ErrInvalidRequest) {
				t.Errorf("%s: %v", step, err)
			}
		}
		if err := create("a", 8); err != nil {
			t.Fatal(err)
		}
		refused("beyond the first bound", create("b", 9))
		for _, n := range []int{-1, 0, 1, protocol.MaxShards + 1} {
			refused("a bound that cannot be", c.SetMaxShards(n))
		}
		if err := c.SetMaxShards(4); err != nil {
			t.Fatal(err)
		}
		refused("beyond the second bound", create("b", 5))
		n := 6
		_, err := c.ScaleStream(t.Context(), "a", protocol.Scale{TargetShardCount: &n, RequestedBy: "test", Reason: "test"})
		refused("a scale beyond it", err)
		if err := c.SetMaxShards(16); err != nil {
			t.Fatal(err)
		}
		if err := create("b", 16); err != nil {
			t.Error(err)
		}
		if s, err := c.Stream(t.Context(), "a"); err != nil || s.ShardCount != 8 {
			t.Errorf("the first stream has %d shards, %v", s.ShardCount, err)
		}
	})
}
