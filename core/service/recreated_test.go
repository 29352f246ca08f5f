package service_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/memstore"
	"github.com/redis-stream-coordinator/rsc/core/service"
)

// Whoever keeps an audit is told of shards that were created again, and how many.
func TestRecreatedShardsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := new(fakeStreams)
		var mu sync.Mutex
		var told []string
		c := start(t, memstore.New(), func(cfg *service.Config, p *service.Ports) {
			p.Streams = redis
			cfg.OnShardsRecreated = func(prefix string, shards int) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprint(prefix, " ", shards))
			}
		})
		if _, err := c.CreateStream(t.Context(), "orders", shards(4)); err != nil {
			t.Fatal(err)
		}
		a := &beat{id: "a", incarnation: "a1"}
		settle(t, c, 4, a)
		redis.lose(1, 2)
		a.reportMissing(t, c, 1, 2)
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(told, []string{"orders 2"}) {
			t.Errorf("told %q", told)
		}
	})
}
