package rsctest

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// Config says how a coordinator is started.
type Config struct {
	// ID is the coordinator's own, and what messages call it. Empty leaves it to the
	// coordinator.
	ID string
	// Args are arguments of `rsc server`, besides its address and the form of its log.
	Args []string
	// StartTimeout is how long it may take until it listens, and then until it is ready.
	//
	// Defaults to 60 s.
	StartTimeout time.Duration
	// RequestTimeout is how long Call waits for an answer.
	//
	// Defaults to 30 s, for a machine that stands still at times.
	RequestTimeout time.Duration
}

// Coordinator is a process of `rsc server`. It ends with its test.
type Coordinator struct {
	// ID is that of its Config.
	ID string
	// URL reaches it, Addr is its host and port; they stay the same over a restart.
	URL, Addr string
	// Proc is the process that runs, or that ran last.
	Proc *faultkit.Process
	// TB is the test that it belongs to.
	TB testing.TB

	cfg Config
	// name is what messages call it.
	name string
	// earlier are the processes before this one.
	earlier []*faultkit.Process
}

// Start runs a coordinator on a free port, which is its own until the test ends, and
// waits until it is ready.
func Start(tb testing.TB, cfg Config) *Coordinator {
	tb.Helper()
	if cfg.StartTimeout == 0 {
		cfg.StartTimeout = 60 * time.Second
	}
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = 30 * time.Second
	}
	c := &Coordinator{ID: cfg.ID, TB: tb, cfg: cfg, name: "the coordinator"}
	if cfg.ID != "" {
		c.name = cfg.ID
	}
	c.launch(faultkit.FreeAddr(tb))
	c.Await()
	return c
}

func (c *Coordinator) launch(address string) {
	c.TB.Helper()
	args, name := []string{"server", "--log-format", "json"}, "rsc server"
	if c.ID != "" {
		args, name = append(args, "--id", c.ID), name+" "+c.ID
	}
	// The address comes last: it counts, whatever else the arguments say.
	args = slices.Concat(args, c.cfg.Args, []string{"--address", address})
	c.Proc = faultkit.Run(c.TB, name, nil, Program(c.TB), args...)
}

// Relaunch runs the coordinator again at its address, after its process has ended, and
// does not wait for it.
func (c *Coordinator) Relaunch() {
	c.TB.Helper()
	c.earlier = append(c.earlier, c.Proc)
	c.launch(c.Addr)
}

// Restart is Relaunch and Await.
func (c *Coordinator) Restart() { c.TB.Helper(); c.Relaunch(); c.Await() }

// listens is what the log says of the address.
var listens = regexp.MustCompile(`"url":"(http://([^"]+))"`)

// Await waits until the coordinator, which must not end, listens and is ready.
func (c *Coordinator) Await() {
	c.TB.Helper()
	c.awaitRunning("listens", func() bool {
		found := listens.FindStringSubmatch(c.Proc.Log())
		if found == nil {
			return false
		}
		c.URL, c.Addr = found[1], found[2]
		return true
	})
	c.awaitRunning("is ready", c.Ready)
}

// awaitRunning waits for a condition while the process runs.
func (c *Coordinator) awaitRunning(what string, holds func() bool) {
	c.TB.Helper()
	faultkit.Eventually(c.TB, c.cfg.StartTimeout, c.name+" "+what, func() bool {
		if !c.Proc.Runs() {
			c.TB.Fatalf("%s ended with exit code %d:\n%s", c.name, c.Proc.Wait(time.Minute), c.Proc.Log())
		}
		return holds()
	})
}

// AwaitReady waits until the coordinator is ready, whatever its process does meanwhile.
func (c *Coordinator) AwaitReady() {
	c.TB.Helper()
	faultkit.Eventually(c.TB, c.cfg.StartTimeout, c.name+" is ready", c.Ready)
}

// Ready reports whether the coordinator says that it can coordinate.
func (c *Coordinator) Ready() bool {
	c.TB.Helper()
	status, _ := c.Call(http.MethodGet, "/health/ready", nil)
	return status == http.StatusOK
}

// Says counts how often the coordinator has logged one of the texts, over its restarts.
func (c *Coordinator) Says(texts ...string) int {
	c.TB.Helper()
	n := 0
	for _, p := range append(slices.Clone(c.earlier), c.Proc) {
		log := p.Log()
		for _, text := range texts {
			n += strings.Count(log, text)
		}
	}
	return n
}
