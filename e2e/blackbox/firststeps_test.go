package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// hurry is how many times faster than the page the test goes through it.
const hurry = 15

// docs/first-steps.md says what happens.
func TestFirstSteps(t *testing.T) {
	need(t, "bash", "curl")
	p := readPage(t, "docs/first-steps.md")
	var server []string
	isServer := func(command string) bool { return strings.HasPrefix(command, "bin/rsc server") }
	for _, one := range p.steps() {
		if isServer(one.command) {
			server = strings.Fields(one.command)[2:]
		}
	}
	if server == nil {
		t.Fatal("the page starts no coordinator")
	}
	prelude := ""
	if !*update {
		// The page's minute, and its pauses, in seconds.
		const pageLease = 60
		server = append(server,
			"--set", fmt.Sprintf("coordinator.member-lease-ttl=%ds", pageLease/hurry),
			"--set", "coordinator.heartbeat-interval=1s",
			"--set", "coordinator.loop.tick-interval=100ms")
		prelude = fmt.Sprintf(`sleep() { command sleep "$(($1 * 1000 / %d / 1000)).$(printf %%03d $(($1 * 1000 / %d %% 1000)))"; }`, hurry, hurry)
	}
	c := newCoordinator(t, server...)
	p.check(session{prelude: prelude, replace: map[string]string{"127.0.0.1:8080": c.Addr}, apart: isServer})
}
