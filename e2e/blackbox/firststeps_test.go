package blackbox

import (
	"fmt"
	"strings"
	"testing"
)

// hurry is how many times faster than the page the test goes through it. The lease is
// still one that a busy machine's standstill does not end.
const hurry = 4

// hurried makes the page's pauses shorter. The last of them also waits until b has been
// given what a had: a coordinator that stood still, or saw a gap, takes a's lease to be
// longer.
const hurried = `
pauses=0
sleep() {
  command sleep "$(($1 * 1000 / %d / 1000)).$(printf %%03d $(($1 * 1000 / %d %% 1000)))"
  if [ $((++pauses)) = 3 ]; then
    for ((i = 0; i < 300; i++)); do
      beat b '[1]' | grep -q 'assignedShards":\[{"shardIndex":0' && break
      command sleep 0.2
    done
  fi
}`

// docs/first-steps.md says what happens.
func TestFirstSteps(t *testing.T) {
	need(t, "bash", "curl")
	t.Parallel()
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
		prelude = fmt.Sprintf(hurried, hurry, hurry)
	}
	c := newCoordinator(t, server...)
	p.check(session{prelude: prelude, replace: map[string]string{"127.0.0.1:8080": c.Addr}, apart: isServer})
}
