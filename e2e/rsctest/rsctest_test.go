package rsctest

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

const patience = 60 * time.Second

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestACoordinatorComesBackAtItsAddress(t *testing.T) {
	faultkit.Slow(t)
	timings := Timings{Lease: 5 * time.Second, Heartbeat: 400 * time.Millisecond, Tick: 90 * time.Millisecond, RebalanceTimeout: 11 * time.Second}
	c := Start(t, Config{ID: "one", Args: append(timings.Args(), "--store", "memory")})
	url := c.URL
	c.CreateStream("orders", 3)
	var described protocol.Stream
	status, body := c.Call(http.MethodGet, "/coord/v1/streams/orders", nil)
	if err := json.Unmarshal(body, &described); err != nil || status != http.StatusOK || described.ShardCount != 3 {
		t.Errorf("the stream: %d %s (%v)", status, body, err)
	}
	if status, body := c.Call(http.MethodPost, "/coord/v1/streams/orders", map[string]int{"initialShardCount": 4}); status/100 != 4 {
		t.Errorf("it was created again: %d %s", status, body)
	}
	const says = `"url":"http://`
	if n := c.Says(says, "no coordinator says this"); n != 1 {
		t.Errorf("it says %d times where it listens", n)
	}

	c.Proc.Kill()
	if status, body := c.Call(http.MethodGet, "/health/ready", nil); status != 0 || len(body) == 0 || c.Ready() {
		t.Errorf("a dead coordinator answered with %d %s", status, body)
	}
	c.Restart()
	if c.URL != url || !c.Ready() {
		t.Errorf("it is at %s now and was at %s", c.URL, url)
	}
	if n := c.Says(says); n != 2 {
		t.Errorf("it has said %d times where it listens, over both processes", n)
	}

	c.Proc.Pause()
	c.Proc.Resume()
	c.AwaitReady()
	c.Proc.Stop(patience)
	c.Proc.ForbidLog(0, `"level":"ERROR"`)
}
