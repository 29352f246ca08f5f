package reshard

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// The timings of all groups here: short, so that the tests are, and yet long enough for
// a busy machine.
const (
	lease            = 5 * time.Second
	heartbeat        = 500 * time.Millisecond
	tick             = 100 * time.Millisecond
	rebalanceTimeout = 10 * time.Second
	startTimeout     = 60 * time.Second
	requestTimeout   = 30 * time.Second
)

// routingLease is how long a producer may use what it was told: 30 s is the default.
func routingLease() time.Duration { return either(2*time.Second, 30*time.Second) }

// coordinator is a process of `rsc server`.
type coordinator struct {
	tb   testing.TB
	id   string
	args []string
	// url reaches it, host is its host and port; they stay the same over a restart.
	url, host string
	proc      *faultkit.Process
}

var listens = regexp.MustCompile(`"url":"(http://([^"]+))"`)

// startCoordinator runs a coordinator that keeps its records on s, where the streams are
// too.
func startCoordinator(tb testing.TB, s *faultkit.Server, id string, args ...string) *coordinator {
	tb.Helper()
	if _, err := built(); err != nil {
		tb.Fatal(err)
	}
	c := &coordinator{tb: tb, id: id, args: []string{"server", "--log-format", "json", "--id", id}}
	c.set("coordinator.member-lease-ttl", lease.String())
	c.set("coordinator.heartbeat-interval", heartbeat.String())
	c.set("coordinator.loop.tick-interval", tick.String())
	c.set("coordinator.rebalance-timeout", rebalanceTimeout.String())
	c.set("coordinator.routing-lease", routingLease().String())
	if s.Kind.Clustered {
		c.set("coordinator.redis.addresses", strings.Join(s.Addrs(), ","))
	} else {
		c.args = append(c.args, "--redis", "redis://"+s.Nodes[0].Addr)
	}
	c.args = append(c.args, args...)
	c.launch("127.0.0.1:0")
	c.await()
	return c
}

func (c *coordinator) set(key, value string) { c.args = append(c.args, "--set", key+"="+value) }

func (c *coordinator) launch(address string) {
	c.tb.Helper()
	program, err := built()
	if err != nil {
		c.tb.Fatal(err)
	}
	c.proc = faultkit.Run(c.tb, "rsc server "+c.id, nil, program, append(slices.Clone(c.args), "--address", address)...)
}

// restart runs the coordinator again at its address, after it has ended.
func (c *coordinator) restart() { c.tb.Helper(); c.launch(c.host); c.await() }

// await waits until the coordinator listens and is ready.
func (c *coordinator) await() {
	c.tb.Helper()
	faultkit.Eventually(c.tb, startTimeout, c.id+" is ready", func() bool {
		if !c.proc.Runs() {
			c.tb.Fatalf("%s ended:\n%s", c.id, c.proc.Log())
		}
		found := listens.FindStringSubmatch(c.proc.Log())
		if found == nil {
			return false
		}
		c.url, c.host = found[1], found[2]
		status, _ := c.call(http.MethodGet, "/health/ready", nil)
		return status == http.StatusOK
	})
}

// call sends a request as the administrator. A coordinator that cannot be reached
// answers with status 0.
func (c *coordinator) call(method, path string, content any) (status int, body []byte) {
	c.tb.Helper()
	text, err := json.Marshal(content)
	if err != nil {
		c.tb.Fatal(err)
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(c.tb.Context()), requestTimeout)
	defer done()
	request, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		c.tb.Fatal(err)
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

// fleet are several coordinators of one store.
type fleet []*coordinator

// urls are where they listen.
func (f fleet) urls() []string {
	var urls []string
	for _, c := range f {
		urls = append(urls, c.url)
	}
	return urls
}

// ask sends a request to the first that answers.
func (f fleet) ask(method, path string, content any) (status int, body []byte) {
	f[0].tb.Helper()
	for _, c := range f {
		if status, body = c.call(method, path, content); status != 0 {
			break
		}
	}
	return status, body
}

// order is ask of what is to be accepted; the answer is read into the last argument.
func (f fleet) order(path string, content, into any) {
	f[0].tb.Helper()
	status, body := f.ask(http.MethodPost, path, content)
	if status/100 != 2 {
		f[0].tb.Fatalf("POST %s: %d %s", path, status, body)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(body, into); err != nil {
		f[0].tb.Fatalf("POST %s: %s: %v", path, body, err)
	}
}

func streamPath(stream string) string { return "/coord/v1/streams/" + stream }

// createStream creates a stream with groups.
func (f fleet) createStream(stream string, shards int, groups ...string) {
	f[0].tb.Helper()
	f.order(streamPath(stream), protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"}, nil)
	for _, g := range groups {
		f.order(streamPath(stream)+"/groups/"+g, protocol.CreateGroup{RequestedBy: "test"}, nil)
	}
}

func scaleTo(n int) protocol.Scale {
	return protocol.Scale{TargetShardCount: &n, RequestedBy: "test", Reason: fmt.Sprintf("to %d", n)}
}

// scale begins to change the shard count, and returns the id of the change.
func (f fleet) scale(stream string, to int) string {
	f[0].tb.Helper()
	var scaled protocol.StreamScaled
	f.order(streamPath(stream)+"/scale", scaleTo(to), &scaled)
	if len(scaled.Migrations) == 0 || scaled.Migrations[0].ReshardingID == protocol.NoMigration {
		f[0].tb.Fatalf("scale %s to %d: %+v", stream, to, scaled)
	}
	return scaled.Migrations[0].ReshardingID
}

// migration returns a change of the shard count, false when nobody answers.
func (f fleet) migration(stream, id string) (m protocol.Migration, ok bool) {
	f[0].tb.Helper()
	status, body := f.ask(http.MethodGet, streamPath(stream)+"/migrations/"+id, nil)
	if status != http.StatusOK {
		return m, false
	}
	if err := json.Unmarshal(body, &m); err != nil {
		f[0].tb.Fatalf("migration %s: %s: %v", id, body, err)
	}
	return m, true
}

// open returns the change of the shard count that is under way, the last one.
func (f fleet) open(stream string) protocol.Migration {
	f[0].tb.Helper()
	var list protocol.MigrationList
	status, body := f.ask(http.MethodGet, streamPath(stream)+"/migrations", nil)
	if status != http.StatusOK {
		f[0].tb.Fatalf("migrations of %s: %d %s", stream, status, body)
	}
	if err := json.Unmarshal(body, &list); err != nil || len(list.Migrations) == 0 {
		f[0].tb.Fatalf("migrations of %s: %s: %v", stream, body, err)
	}
	return list.Migrations[0]
}
