package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis-stream-coordinator/rsc/e2e/faultkit"
	"github.com/redis-stream-coordinator/rsc/e2e/rsctest"
)

// What cannot be carried out ends with 2 and a sentence that says what to do.
func TestExitCodesOfWhatCannotBeDone(t *testing.T) {
	need(t)
	settings := filepath.Join(t.TempDir(), "rsc.yaml")
	if err := os.WriteFile(settings, []byte("coordinator:\n  lop:\n    tick-interval: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args string
		code int
		says string
	}{
		{"produce", 2, "--stream is needed"},
		{"consume", 2, "--stream is needed"},
		{"consume --stream orders", 2, "--group is needed"},
		{"produce --stream orders --redis localhost", 2, "--redis must be a URL"},
		{"produce --stream orders --coordinator localhost", 2, "--coordinator must be a URL"},
		{"produce --stream orders one two", 2, "takes one file"},
		{"produce --stream orders no-such-file", 1, "no-such-file: no such file"},
		{"server --config " + settings, 2, "coordinator.lop.tick-interval: no such setting, did you mean coordinator.loop.tick-interval?"},
		{"server --config no-such-file", 2, "no-such-file: no such file"},
		{"server --set coordinator.member-lease-ttl=1s", 2, "coordinator.member-lease-ttl: is 1s, must be at least three times heartbeat-interval"},
		{"server --address 0.0.0.0:0", 2, "has the documented default password"},
		{"server --colour", 2, "unknown flag: --colour"},
		{"serve", 2, `there is no command "serve"`},
		{"version", 0, ""},
		{"--help", 0, ""},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			p := faultkit.Command{Path: rsctest.Program(t), Args: strings.Fields(tt.args), Stdout: newFile(t, "stdout")}.Start(t, "rsc")
			if code := p.Wait(startTimeout); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			p.ExpectLog(tt.says)
		})
	}
}
