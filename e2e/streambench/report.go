package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is what one case came to.
type result struct {
	benchCase
	// samples are those of each candidate, one for each round.
	samples [][]sample
}

// median returns the value in the middle, of an even number the lower one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// pick returns what f picks of each sample.
func pick(samples []sample, f func(sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = f(s)
	}
	return values
}

func figure(s sample) float64 { return s.value }

// of returns the samples of a candidate.
func (r *result) of(name string) []sample {
	for i, c := range r.candidates {
		if c.name == name {
			return r.samples[i]
		}
	}
	return nil
}

// ratios returns what g is about in each round.
func (r *result) ratios(g gate) []float64 {
	values := pick(r.of(g.ours), figure)
	if g.peer == "" {
		return values
	}
	for i, s := range r.of(g.peer) {
		values[i] /= s.value
	}
	return values
}

func (g gate) met(value float64) bool {
	if g.atMost {
		return value <= g.limit
	}
	return value >= g.limit
}

func (g gate) target() string {
	if g.atMost {
		return fmt.Sprintf("≤ %g", g.limit)
	}
	return fmt.Sprintf("≥ %g", g.limit)
}

func (g gate) String() string {
	if g.peer == "" {
		return g.ours
	}
	return g.ours + " / " + g.peer
}

// isOurs says that a candidate is ours to answer for.
func isOurs(name string) bool { return name == "rsc" || strings.HasPrefix(name, "rsc,") }

// sum returns the verdicts of all rounds together.
func sum(samples []sample) verdict {
	var v verdict
	for _, s := range samples {
		v = v.add(s.verdict)
	}
	return v
}

// complaints says which targets r misses.
func (r *result) complaints() []string {
	var all []string
	for _, g := range r.gates {
		if value := median(r.ratios(g)); !g.met(value) {
			all = append(all, fmt.Sprintf("%s is %.2f, must be %s", g, value, g.target()))
		}
	}
	for i, c := range r.candidates {
		if !isOurs(c.name) {
			continue
		}
		v := sum(r.samples[i])
		if v.lost != 0 {
			all = append(all, fmt.Sprintf("%s: %d records lost, must be 0", c.name, v.lost))
		}
		if v.disorder != 0 {
			all = append(all, fmt.Sprintf("%s: %d records out of order, must be 0", c.name, v.disorder))
		}
		if v.again != 0 && !r.crash {
			all = append(all, fmt.Sprintf("%s: %d records twice, must be 0 where nothing fails", c.name, v.again))
		}
	}
	return all
}

const peerModule = "github.com/ThreeDotsLabs/watermill-redisstream"

// printReport writes the tables.
func printReport(out io.Writer, results []result, s settings, serverVersion string) error {
	fmt.Fprintf(out, `Consumers and producers side by side: go-redis %s, watermill-redisstream %s, redis-server %s (%s).
%s %s/%s, %d CPUs, server and clients on this machine; medians of %d interleaved rounds, in
brackets the range. CPU and allocations are this process's, per record. lost, twice, disorder:
over all rounds; disorder counts records that were begun before, or beside, an older one of their key.

`, version("github.com/redis/go-redis/v9"), version(peerModule), serverVersion, persistence(s), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.rounds)
	if err := printFigures(out, results); err != nil {
		return err
	}
	return printGates(out, results)
}

func persistence(s settings) string {
	text := "nothing saved"
	if s.aof {
		text = "append-only file, synced every second"
	}
	if s.cluster {
		text += fmt.Sprintf(", a cluster of %d nodes", clusterNodes)
	}
	return text
}

func printFigures(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%s\t\tp99\tCPU µs\tallocs\tlost\ttwice\tdisorder\n", r.name, r.unit.name)
		for i, c := range r.candidates {
			samples := r.samples[i]
			values := pick(samples, figure)
			p99 := ""
			if tail := median(pick(samples, func(s sample) float64 { return s.p99 })); tail > 0 {
				p99 = r.unit.format(tail)
			}
			v := sum(samples)
			fmt.Fprintf(table, "  %s\t%s\t(%s to %s)\t%s\t%.1f\t%.1f\t%d\t%d\t%d\n", c.name,
				r.unit.format(median(values)), r.unit.format(slices.Min(values)), r.unit.format(slices.Max(values)), p99,
				median(pick(samples, func(s sample) float64 { return float64(s.cpu) / float64(time.Microsecond) })),
				median(pick(samples, func(s sample) float64 { return s.allocs })),
				v.lost, v.again, v.disorder)
		}
		fmt.Fprintln(table, "\t\t\t\t\t\t\t\t")
	}
	return table.Flush()
}

func (u unit) format(value float64) string { return fmt.Sprintf("%.*f", u.digits, value) }

func printGates(out io.Writer, results []result) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "target\tof\tis\t\tmust be\t")
	for i := range results {
		r := &results[i]
		for _, g := range r.gates {
			values := r.ratios(g)
			verdict := "met"
			if !g.met(median(values)) {
				verdict = "MISSED"
			}
			fmt.Fprintf(table, "%s\t%s\t%.2f\t(%.2f to %.2f)\t%s\t%s\n", r.name, g, median(values), slices.Min(values), slices.Max(values), g.target(), verdict)
		}
	}
	fmt.Fprintln(table)
	return table.Flush()
}

// version returns the version of a module that is built in.
func version(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module {
				return m.Version
			}
		}
	}
	return "of unknown version"
}
