package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
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
	requestTimeout   = 5 * time.Second
)

// coordinator is a process of `rsc server`.
type coordinator struct {
	tb   testing.TB
	id   string
	args []string
	// url reaches it, host is its host and port; they stay the same over a restart.
	url, host string
	proc      *faultkit.Process
	// earlier are the processes before this one.
	earlier []*faultkit.Process
}

var listens = regexp.MustCompile(`"url":"(http://([^"]+))"`)

// startCoordinator runs a coordinator with quick timings, unless args say otherwise.
func startCoordinator(tb testing.TB, id string, args ...string) *coordinator {
	tb.Helper()
	c := &coordinator{tb: tb, id: id, args: slices.Concat([]string{"server", "--log-format", "json", "--id", id}, set(
		"coordinator.member-lease-ttl", lease.String(), "coordinator.heartbeat-interval", heartbeat.String(),
		"coordinator.loop.tick-interval", tick.String(), "coordinator.rebalance-timeout", rebalanceTimeout.String(),
	), args)}
	c.launch("127.0.0.1:0")
	c.await()
	return c
}

// set makes arguments of pairs of a key and a value.
func set(pairs ...string) []string {
	var args []string
	for pair := range slices.Chunk(pairs, 2) {
		args = append(args, "--set", pair[0]+"="+pair[1])
	}
	return args
}

// declaring returns the settings file of a coordinator that declares the stream.
func declaring(tb testing.TB, shards int) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "rsc.yaml")
	text := fmt.Sprintf("coordinator:\n  streams:\n    declared:\n      - {prefix: %s, shards: %d, groups: [%s]}\n", stream, shards, group)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// restart runs the coordinator again at its address, after it has ended.
func (c *coordinator) restart() { c.tb.Helper(); c.relaunch(); c.await() }

// relaunch is restart without waiting.
func (c *coordinator) relaunch() {
	c.tb.Helper()
	c.earlier = append(c.earlier, c.proc)
	c.launch(c.host)
}

func (c *coordinator) launch(address string) {
	c.tb.Helper()
	program, err := built()
	if err != nil {
		c.tb.Fatal(err)
	}
	c.proc = faultkit.Run(c.tb, "rsc server "+c.id, nil, program, append(c.args, "--address", address)...)
}

// await waits until the coordinator listens and is ready.
func (c *coordinator) await() {
	c.tb.Helper()
	faultkit.Eventually(c.tb, startTimeout, c.id+" listens", func() bool {
		if !c.proc.Runs() {
			c.tb.Fatalf("%s ended:\n%s", c.id, c.proc.Log())
		}
		found := listens.FindStringSubmatch(c.proc.Log())
		if found == nil {
			return false
		}
		c.url, c.host = found[1], found[2]
		return true
	})
	c.awaitReady()
}

func (c *coordinator) awaitReady() {
	c.tb.Helper()
	faultkit.Eventually(c.tb, startTimeout, c.id+" is ready", func() bool {
		status, _ := c.call(http.MethodGet, "/health/ready", nil)
		return status == http.StatusOK
	})
}

// says counts how often the coordinator has logged one of the texts, over its
// restarts.
func (c *coordinator) says(texts ...string) int {
	c.tb.Helper()
	n := 0
	for _, p := range append(c.earlier, c.proc) {
		log := p.Log()
		for _, text := range texts {
			n += strings.Count(log, text)
		}
	}
	return n
}

// createStream creates the stream.
func (c *coordinator) createStream(shards int) {
	c.tb.Helper()
	status, body := c.call(http.MethodPost, "/coord/v1/streams/"+stream, protocol.CreateStream{InitialShardCount: &shards, RequestedBy: "test"})
	if status != http.StatusCreated {
		c.tb.Fatalf("create stream %s: %d %s", stream, status, body)
	}
}

// get asks for something to be monitored. It returns false unless the coordinator
// has it.
func (c *coordinator) get(what string, into any) bool {
	c.tb.Helper()
	status, body := c.call(http.MethodGet, "/coord/v1/monitoring/streams/"+stream+"/groups/"+group+what, nil)
	return status == http.StatusOK && json.Unmarshal(body, into) == nil
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
