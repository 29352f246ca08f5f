package dataplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// The timings of all groups here: short, so that the scenarios are, and yet long
// enough for a busy machine.
const (
	lease            = 3 * time.Second
	heartbeat        = 300 * time.Millisecond
	tick             = 100 * time.Millisecond
	rebalanceTimeout = 10 * time.Second
	startTimeout     = 60 * time.Second
	requestTimeout   = 5 * time.Second
)

// coordinator is a process of `rsc server`.
type coordinator struct {
	tb   testing.TB
	args []string
	// url reaches it, host is its host and port.
	url, host string
	proc      *faultkit.Process
}

var listens = regexp.MustCompile(`"url":"(http://([^"]+))"`)

// startCoordinator runs a coordinator for the streams on s. Its own records are in
// memory, or there too.
func startCoordinator(tb testing.TB, s *faultkit.Server, metaThere bool, args ...string) *coordinator {
	tb.Helper()
	if _, err := built(); err != nil {
		tb.Fatal(err)
	}
	c := &coordinator{tb: tb, args: append([]string{"server", "--log-format", "json"}, args...)}
	c.set("coordinator.member-lease-ttl", lease.String())
	c.set("coordinator.heartbeat-interval", heartbeat.String())
	c.set("coordinator.loop.tick-interval", tick.String())
	c.set("coordinator.rebalance-timeout", rebalanceTimeout.String())
	if s.Kind.Clustered {
		c.set("coordinator.streams.redis.addresses", strings.Join(s.Addrs(), ","))
	} else {
		c.args = append(c.args, "--redis", "redis://"+s.Nodes[0].Addr)
	}
	if !metaThere {
		c.set("coordinator.store.type", "memory")
	}
	c.run("127.0.0.1:0")
	return c
}

func (c *coordinator) set(key, value string) { c.args = append(c.args, "--set", key+"="+value) }

// restart runs the coordinator again at its address, after it has ended.
func (c *coordinator) restart() { c.tb.Helper(); c.run(c.host) }

func (c *coordinator) run(address string) {
	c.tb.Helper()
	program, err := built()
	if err != nil {
		c.tb.Fatal(err)
	}
	c.proc = faultkit.Run(c.tb, "rsc server", nil, program, append(c.args, "--address", address)...)
	faultkit.Eventually(c.tb, startTimeout, "the coordinator listens", func() bool {
		if !c.proc.Runs() {
			c.tb.Fatalf("the coordinator ended:\n%s", c.proc.Log())
		}
		found := listens.FindStringSubmatch(c.proc.Log())
		if found == nil {
			return false
		}
		c.url, c.host = found[1], found[2]
		return true
	})
	faultkit.Eventually(c.tb, startTimeout, "the coordinator is ready", func() bool {
		status, _ := c.call(http.MethodGet, "/health/ready", nil)
		return status == http.StatusOK
	})
}

// createStream creates a stream.
func (c *coordinator) createStream(stream string, shards int) {
	c.tb.Helper()
	status, body := c.call(http.MethodPost, "/coord/v1/streams/"+stream, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"})
	if status != http.StatusCreated {
		c.tb.Fatalf("create stream %s: %d %s", stream, status, body)
	}
}

// held returns the shards that each member of a group holds, as they report.
func (c *coordinator) held(stream, group string) map[string][]int {
	c.tb.Helper()
	status, body := c.call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+"/members", nil)
	held := map[string][]int{}
	if status != http.StatusOK {
		return held
	}
	var list protocol.MemberList
	if err := json.Unmarshal(body, &list); err != nil {
		c.tb.Fatalf("members of %s: %s (%v)", group, body, err)
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

// call sends a request as the administrator. A coordinator that cannot be
// reached answers with status 0.
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

func shardKey(shard int) string { return fmt.Sprintf("%s:%d", stream, shard) }
