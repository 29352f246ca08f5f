package demo

import (
	"fmt"
	"time"
)

// Figures are the outcome of a run.
type Figures struct {
	// Produced counts the records that Redis acknowledged, Processed the records
	// that were handled, each once; Duplicates counts the further handlings, and
	// Lost the records that were stored and never handled.
	Produced, Processed, Duplicates, Lost int
	// Overlaps counts the handlings that began while another holder of the shard
	// was at work, or after a newer one had begun.
	Overlaps int
	// OrderViolations counts the records that were handled before an earlier one
	// of their key was done.
	OrderViolations int
	// Rebalances counts the changes of who should hold what, Reshards those of the shard
	// count.
	Rebalances, Reshards int
	// Handover is the longest time that records of a shard waited while it went
	// from one living consumer to another; Takeover that from the kill of its
	// owner to the first record in other hands; RestartPause that of a shard that
	// stayed where it was while the coordinator was away.
	Handover, Takeover, RestartPause time.Duration
	// Handovers and Takeovers count the moves that were measured, Steady the
	// shards that were watched through the restart.
	Handovers, Takeovers, Steady int
	// Uncertain counts the records that were sent without an answer, of which
	// UncertainStored were found in Redis.
	Uncertain, UncertainStored int
}

// String is the line that a run ends with.
func (f Figures) String() string {
	return fmt.Sprintf("produced=%d processed=%d duplicates=%d lost=%d overlaps=%d order_violations=%d rebalances=%d reshards=%d handover_ms_max=%d takeover_ms=%d restart_pause_ms=%d",
		f.Produced, f.Processed, f.Duplicates, f.Lost, f.Overlaps, f.OrderViolations, f.Rebalances, f.Reshards,
		f.Handover.Milliseconds(), f.Takeover.Milliseconds(), f.RestartPause.Milliseconds())
}
