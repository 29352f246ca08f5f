package controlplane

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// The one stream and the one group of a test.
const (
	stream = "orders"
	group  = "billing"
)

// The timings of all groups here.
const (
	heartbeat        = 500 * time.Millisecond
	tick             = 100 * time.Millisecond
	rebalanceTimeout = 20 * time.Second
	startTimeout     = 60 * time.Second
)

// lease is short in the long form, which has its machine to itself. In the short one
// members and coordinators stand still for seconds beside the other tests, and no lease
// may end by that.
var lease = map[bool]time.Duration{true: 5 * time.Second, false: 10 * time.Second}[long()]

// coordinator is a process of `rsc server`.
type coordinator struct{ *rsctest.Coordinator }

// startCoordinator runs a coordinator with quick timings, unless args say otherwise.
func startCoordinator(tb testing.TB, id string, args ...string) *coordinator {
	tb.Helper()
	timings := rsctest.Timings{Lease: lease, Heartbeat: heartbeat, Tick: tick, RebalanceTimeout: rebalanceTimeout}
	return &coordinator{rsctest.Start(tb, rsctest.Config{ID: id, Args: append(timings.Args(), args...), StartTimeout: startTimeout})}
}

// get asks for something to be monitored. It returns false unless the coordinator
// has it.
func (c *coordinator) get(what string, into any) bool {
	c.TB.Helper()
	status, body := c.Call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+what, nil)
	return status == http.StatusOK && json.Unmarshal(body, into) == nil
}
