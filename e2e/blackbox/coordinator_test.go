package blackbox

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The timings of all groups here: short, so that the tests are, and yet long
// enough for a busy machine.
const (
	lease          = 3 * time.Second
	heartbeat      = 300 * time.Millisecond
	tick           = 100 * time.Millisecond
	startTimeout   = 20 * time.Second
	requestTimeout = 5 * time.Second
)

// The one stream and the one group of a test.
const (
	stream = "orders"
	group  = "billing"
)

// quick are the settings that say so.
var quick = []string{
	"--set", "coordinator.member-lease-ttl=" + lease.String(),
	"--set", "coordinator.heartbeat-interval=" + heartbeat.String(),
	"--set", "coordinator.loop.tick-interval=" + tick.String(),
	"--set", "coordinator.rebalance-timeout=10s",
}

// coordinator is a process of `rsc server`.
type coordinator struct {
	t *testing.T
	// url reaches it, host is its host and port; they stay the same over a
	// restart.
	url, host string
	args      []string
	proc      *process
}

var listens = regexp.MustCompile(`"url":"(http://([^"]+))"`)

// startCoordinator runs a coordinator on a free port, with quick timings unless
// args say otherwise.
func startCoordinator(t *testing.T, args ...string) *coordinator {
	t.Helper()
	return newCoordinator(t, append(slices.Clone(quick), args...)...)
}

// newCoordinator runs a coordinator on a free port with the timings that args
// and the defaults say.
func newCoordinator(t *testing.T, args ...string) *coordinator {
	t.Helper()
	c := &coordinator{t: t, args: append([]string{"server", "--log-format", "json"}, args...)}
	c.run("127.0.0.1:0")
	return c
}

// restart runs the coordinator again at its address, after it has ended.
func (c *coordinator) restart() { c.t.Helper(); c.run(c.host) }

func (c *coordinator) run(address string) {
	c.t.Helper()
	c.proc = start(c.t, "rsc server "+address, streams{}, rsc(c.t), append(c.args, "--address", address)...)
	eventually(c.t, startTimeout, "the coordinator listens", func() bool {
		if !c.proc.runs() {
			c.t.Fatalf("the coordinator ended with exit code %d", c.proc.code)
		}
		found := listens.FindStringSubmatch(c.proc.log())
		if found == nil {
			return false
		}
		c.url, c.host = found[1], found[2]
		return true
	})
	eventually(c.t, startTimeout, "the coordinator is ready", func() bool {
		status, _ := c.call(http.MethodGet, "/health/ready", nil)
		return status == http.StatusOK
	})
}

// createStream creates the stream.
func (c *coordinator) createStream(shards int) {
	c.t.Helper()
	status, body := c.call(http.MethodPost, "/coord/v1/streams/"+stream, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"})
	if status != http.StatusCreated {
		c.t.Fatalf("create stream %s: %d %s", stream, status, body)
	}
}

// members returns the members of the group by id.
func (c *coordinator) members() map[string]protocol.Member {
	c.t.Helper()
	status, body := c.call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+"/members", nil)
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

// call sends a request as the administrator. A coordinator that cannot be
// reached answers with status 0.
func (c *coordinator) call(method, path string, content any) (status int, body []byte) {
	c.t.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, done := context.WithTimeout(c.t.Context(), requestTimeout)
	defer done()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		c.t.Fatal(err)
	}
	request.SetBasicAuth("admin", "password")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer func() { _ = response.Body.Close() }()
	if body, err = io.ReadAll(io.LimitReader(response.Body, 8<<20)); err != nil {
		return 0, []byte(err.Error())
	}
	return response.StatusCode, body
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
func (k tools) produce(stdin io.Reader, args ...string) *process {
	k.t.Helper()
	return start(k.t, "rsc produce", streams{stdin: stdin}, rsc(k.t), k.args("produce", append([]string{"--key-field", "key"}, args...)...)...)
}

// consume reads as a member of the group and prints to a journal.
func (k tools) consume(member string, j *journal) *process {
	k.t.Helper()
	return start(k.t, "rsc consume "+member, streams{stdout: j.file}, rsc(k.t), k.args("consume", "--group", group, "--member", member)...)
}
