package blackbox

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// The timings of all groups here: as short as they can be where nothing is to end
// because the machine stands still for seconds.
const (
	lease        = 10 * time.Second
	heartbeat    = 300 * time.Millisecond
	tick         = 100 * time.Millisecond
	startTimeout = 60 * time.Second
)

// The one stream and the one group of a test.
const (
	stream = "orders"
	group  = "billing"
)

// coordinator is a process of `rsc server`.
type coordinator struct {
	*rsctest.Coordinator

	t *testing.T
}

// startCoordinator runs a coordinator on a free port, with quick timings unless
// args say otherwise.
func startCoordinator(t *testing.T, args ...string) *coordinator {
	t.Helper()
	quick := rsctest.Timings{Lease: lease, Heartbeat: heartbeat, Tick: tick, RebalanceTimeout: 2 * lease}
	return newCoordinator(t, append(quick.Args(), args...)...)
}

// newCoordinator runs a coordinator on a free port with the timings that args
// and the defaults say.
func newCoordinator(t *testing.T, args ...string) *coordinator {
	t.Helper()
	return &coordinator{rsctest.Start(t, rsctest.Config{Args: args, StartTimeout: startTimeout}), t}
}

// members returns the members of the group by id.
func (c *coordinator) members() map[string]protocol.Member {
	c.t.Helper()
	status, body := c.Call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+"/members", nil)
	if status == http.StatusNotFound {
		return nil
	}
	var list protocol.MemberList
	if err := json.Unmarshal(body, &list); err != nil || status != http.StatusOK {
		c.t.Fatalf("members of %s: %d %s (%v)", group, status, body, err)
	}
	byID := map[string]protocol.Member{}
	for _, m := range list.Members {
		byID[m.MemberID] = m
	}
	return byID
}

// holders returns how many members of the group are live and hold at least one
// shard, and how many shards they hold together.
func (c *coordinator) holders() (members, shards int) {
	c.t.Helper()
	for _, m := range c.members() {
		if m.State == protocol.MemberActive && len(m.CurrentAssignment) > 0 {
			members++
			shards += len(m.CurrentAssignment)
		}
	}
	return members, shards
}

// tools runs `rsc produce` and `rsc consume` against coordinators and a Redis.
type tools struct {
	t            *testing.T
	coordinators []string
	redis        *redisServer
}

func (k tools) args(command string, args ...string) []string {
	return append([]string{command, "--stream", stream, "--coordinator", strings.Join(k.coordinators, ","), "--redis", k.redis.url}, args...)
}

// produce publishes NDJSON lines by their field key.
func (k tools) produce(stdin io.Reader, args ...string) *faultkit.Process {
	k.t.Helper()
	args = k.args("produce", append([]string{"--key-field", "key"}, args...)...)
	return faultkit.Command{Path: rsctest.Program(k.t), Args: args, Stdin: stdin, Stdout: newFile(k.t, "produce.out")}.Start(k.t, "rsc produce")
}

// consume reads as a member of the group and prints to a journal.
func (k tools) consume(member string, j *journal) *faultkit.Process {
	k.t.Helper()
	args := k.args("consume", "--group", group, "--member", member)
	return faultkit.Command{Path: rsctest.Program(k.t), Args: args, Stdout: j.file}.Start(k.t, "rsc consume "+member)
}
