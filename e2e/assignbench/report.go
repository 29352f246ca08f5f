package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"text/tabwriter"
	"time"
)

const (
	peerModule = "github.com/twmb/franz-go"
	// maxAllocs is how often one plan of ours may allocate: the result and one
	// scratch.
	maxAllocs = 2
	// maxSpread is how far loads may lie apart.
	maxSpread = 1
)

// times are what one call took in one round.
type times struct {
	ours    time.Duration
	balance time.Duration // the peer's BalanceOrError
	path    time.Duration // with its decoding before and encoding after
}

// result is what one event at one size came to.
type result struct {
	size       size
	event      event
	ours, peer outcome
	minMoves   int
	ourAllocs  float64 // per call
	peerAllocs float64 // per call, of the whole path
	rounds     []times
}

// median returns the median over the rounds of what pick picks, of an even
// number of rounds the lower one in the middle.
func (r result) median(pick func(times) float64) float64 {
	values := make([]float64, len(r.rounds))
	for i, t := range r.rounds {
		values[i] = pick(t)
	}
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// ratio is how many times longer the peer's balancing takes than ours. It is
// taken within each round, where both met the same machine.
func (r result) ratio() float64 {
	return r.median(func(t times) float64 { return float64(t.balance) / float64(t.ours) })
}

// complaints says which targets r misses.
func (r result) complaints() []string {
	var all []string
	if r.ratio() < r.event.ratio {
		all = append(all, fmt.Sprintf("%.1f times faster than the peer, must be %.0f", r.ratio(), r.event.ratio))
	}
	if extra := r.ours.moves - r.minMoves; extra != 0 {
		all = append(all, fmt.Sprintf("%+d moves from the minimum of %d, must be that", extra, r.minMoves))
	}
	if r.ours.spread > maxSpread {
		all = append(all, fmt.Sprintf("loads %d apart, must be at most %d", r.ours.spread, maxSpread))
	}
	if r.ourAllocs > maxAllocs {
		all = append(all, fmt.Sprintf("%.0f allocations, must be at most %d", r.ourAllocs, maxAllocs))
	}
	return all
}

// printReport writes the table.
func printReport(out io.Writer, results []result, s settings) error {
	fmt.Fprintf(out, `Assignor: ours beside franz-go %s (sticky balancer, one topic), in one process.
%s %s/%s, %d CPUs; medians of %d interleaved rounds, each sample at least %s.
ours: assign.Plan on prepared arrays. balance: franz-go's BalanceOrError, which decodes
what members own and plans. path: with MemberBalancer before it and IntoSyncAssignment
after it. ratio: balance / ours, in brackets path / ours. Times in microseconds.
moves: shards that we take from live owners; extra, peer extra: how many above the minimum.

`, peerVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.rounds, s.sample)

	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "shards x members\tevent\tours\tbalance\tpath\tratio\t\tmust be\tmoves\textra\tpeer extra\tallocs\tpath allocs\t")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%s\t%.1f\t%.1f\t%.1f\t%.1f\t(%.1f)\t%.0f\t%d\t%d\t%d\t%.0f\t%.0f\t\n",
			r.size, r.event.name,
			r.median(func(t times) float64 { return micros(t.ours) }),
			r.median(func(t times) float64 { return micros(t.balance) }),
			r.median(func(t times) float64 { return micros(t.path) }),
			r.ratio(),
			r.median(func(t times) float64 { return float64(t.path) / float64(t.ours) }),
			r.event.ratio,
			r.ours.moves, r.ours.moves-r.minMoves, r.peer.moves-r.minMoves,
			r.ourAllocs, r.peerAllocs)
	}
	fmt.Fprintln(table)
	return table.Flush()
}

func micros(d time.Duration) float64 {
	return float64(d) / float64(time.Microsecond)
}

// peerVersion returns the version of the peer that is built in.
func peerVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == peerModule {
				return m.Version
			}
		}
	}
	return "of unknown version"
}
