package rsctest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Set makes arguments of settings, which are pairs of a key and a value.
func Set(pairs ...string) []string {
	var args []string
	for pair := range slices.Chunk(pairs, 2) {
		args = append(args, "--set", pair[0]+"="+pair[1])
	}
	return args
}

// Timings are what a coordinator gives its groups, and how often it looks at them.
// There are no defaults.
type Timings struct{ Lease, Heartbeat, Tick, RebalanceTimeout time.Duration }

// Args are the settings that say so.
func (t Timings) Args() []string {
	return Set(
		"coordinator.member-lease-ttl", t.Lease.String(), "coordinator.heartbeat-interval", t.Heartbeat.String(),
		"coordinator.loop.tick-interval", t.Tick.String(), "coordinator.rebalance-timeout", t.RebalanceTimeout.String(),
	)
}

// Declaring are the arguments of a coordinator whose settings file declares a stream
// with its groups, so that it comes back after everything was lost.
func Declaring(tb testing.TB, stream string, shards int, groups ...string) []string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "rsc.yaml")
	text := fmt.Sprintf("coordinator:\n  streams:\n    declared:\n      - {prefix: %s, shards: %d, groups: [%s]}\n", stream, shards, strings.Join(groups, ", "))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return []string{"--config", path}
}
