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

// The timings of all groups here: short, so that the tests are, and yet long enough
// for a busy machine.
const (
	lease            = 5 * time.Second
	heartbeat        = 500 * time.Millisecond
	tick             = 100 * time.Millisecond
	rebalanceTimeout = 10 * time.Second
	startTimeout     = 60 * time.Second
)

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
