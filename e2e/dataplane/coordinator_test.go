package dataplane

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// The timings of all groups here.
const (
	heartbeat        = 300 * time.Millisecond
	tick             = 100 * time.Millisecond
	rebalanceTimeout = 20 * time.Second
	startTimeout     = 60 * time.Second
)

// lease is short in the long form, which has its machine to itself. In the short one
// members stand still for seconds beside the other scenarios, and keep it.
var lease = map[bool]time.Duration{true: 3 * time.Second, false: 8 * time.Second}[long()]

// coordinator is a process of `rsc server`.
type coordinator struct{ *rsctest.Coordinator }

// startCoordinator runs a coordinator for the streams on s. Its own records are in
// memory, or there too.
func startCoordinator(tb testing.TB, s *faultkit.Server, metaThere bool, args ...string) *coordinator {
	tb.Helper()
	timings := rsctest.Timings{Lease: lease, Heartbeat: heartbeat, Tick: tick, RebalanceTimeout: rebalanceTimeout}
	args = append(args, timings.Args()...)
	if s.Kind.Clustered {
		args = append(args, rsctest.Set("coordinator.streams.redis.addresses", strings.Join(s.Addrs(), ","))...)
	} else {
		args = append(args, "--redis", "redis://"+s.Nodes[0].Addr)
	}
	if !metaThere {
		args = append(args, rsctest.Set("coordinator.store.type", "memory")...)
	}
	return &coordinator{rsctest.Start(tb, rsctest.Config{Args: args, StartTimeout: startTimeout})}
}

// held returns the shards that each member of a group holds, as they report.
func (c *coordinator) held(stream, group string) map[string][]int {
	c.TB.Helper()
	status, body := c.Call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+"/members", nil)
	held := map[string][]int{}
	if status != http.StatusOK {
		return held
	}
	var list protocol.MemberList
	if err := json.Unmarshal(body, &list); err != nil {
		c.TB.Fatalf("members of %s: %s (%v)", group, body, err)
	}
	for _, m := range list.Members {
		if m.State == protocol.MemberActive {
			for _, s := range m.CurrentAssignment {
				held[m.MemberID] = append(held[m.MemberID], int(s))
			}
		}
	}
	return held
}

func shardKey(shard int) string { return fmt.Sprintf("%s:%d", stream, shard) }
