package smoke

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
)

// What may take how long: the first start of all containers, and one command.
const (
	composeUp      = 5 * time.Minute
	composeCommand = 2 * time.Minute
)

// project is the stack in Docker.
type project struct {
	tb      testing.TB
	command []string
	environ []string
}

// compose runs a command of compose and returns what it prints.
func (p *project) compose(within time.Duration, args ...string) string {
	p.tb.Helper()
	ctx, done := context.WithTimeout(context.Background(), within)
	defer done()
	command := exec.CommandContext(ctx, p.command[0], slices.Concat(p.command[1:], args)...)
	command.Dir, command.Env = root, append(os.Environ(), p.environ...)
	out, err := command.CombinedOutput()
	if err != nil {
		p.tb.Fatalf("%s %s: %v\n%s", strings.Join(p.command, " "), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestContainers plays the stack in Docker. scripts/smoke-containers.sh has built
// the image and says what runs compose files here, and which services have an image.
func TestContainers(t *testing.T) {
	asked(t, "containers", "smoke-containers")
	services := strings.Fields(os.Getenv("RSC_SMOKE_SERVICES"))
	api, metrics, grafana := faultkit.FreeAddr(t), faultkit.FreeAddr(t), faultkit.FreeAddr(t)
	p := &project{
		tb:      t,
		command: append(strings.Fields(os.Getenv("RSC_SMOKE_COMPOSE")), "-p", fmt.Sprintf("rsc-smoke-%d", os.Getpid())),
		environ: []string{"RSC_PORT=" + portOf(t, api), "PROMETHEUS_PORT=" + portOf(t, metrics), "GRAFANA_PORT=" + portOf(t, grafana), "RSC_RATE=100"},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the logs:\n%s", p.compose(composeCommand, "logs", "--tail=30"))
		}
		p.compose(composeCommand, "down", "-v", "--remove-orphans")
	})
	began := time.Now()
	p.compose(composeUp, append([]string{"up", "-d", "--no-build"}, services...)...)
	t.Logf("up: %.0f s", time.Since(began).Seconds())

	s := &stack{tb: t, at: map[string]string{"balancer": api, "prometheus": metrics}}
	eventually(t, "the coordinators answer behind their one address", s.healthy("balancer"))
	prom := s.prometheus()
	eventually(t, "Prometheus answers", prom.ready)
	prom.checkTargets(t)
	prom.checkFlow(t)
	prom.checkOwners(t, "consumer-1", "consumer-2")
	t.Logf("records flow: after %.0f s", time.Since(began).Seconds())
	for range 2 {
		p.compose(composeCommand, "stop", "consumer-2")
		prom.checkOwners(t, "consumer-1")
		p.compose(composeCommand, "start", "consumer-2")
		prom.checkOwners(t, "consumer-1", "consumer-2")
	}
	p.compose(composeCommand, "kill", "coordinator-1")
	prom.checkTargetDown(t, "coordinator-1")
	prom.checkFlow(t)
	p.compose(composeCommand, "start", "coordinator-1")
	prom.checkTargets(t)
	prom.checkFlow(t)
	t.Log("consumer-2 stopped and started twice, coordinator-1 killed and started: records flowed on")
	prom.checkDashboards(t)
	prom.checkRules(t)
	if !slices.Contains(services, "grafana") {
		t.Log("Grafana did not run: its image cannot be pulled here")
	}
	t.Logf("smoke: ok, %.0f s", time.Since(began).Seconds())
}

func portOf(tb testing.TB, addr string) string {
	tb.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	return port
}
