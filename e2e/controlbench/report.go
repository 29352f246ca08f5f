package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
)

const peerModule = "github.com/twmb/franz-go/pkg/kfake"

// result is what one scene came to.
type result struct {
	scene

	rounds []measured
}

// median returns the value in the middle, of an even number the lower one.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// of returns a figure of all rounds.
func (r *result) of(figure string) []float64 {
	values := make([]float64, len(r.rounds))
	for i, m := range r.rounds {
		values[i] = m[figure]
	}
	return values
}

// judged returns what a target is about in each round.
func (r *result) judged(t target) []float64 {
	values := r.of(t.figure)
	if t.peer != "" {
		for i, m := range r.rounds {
			values[i] /= m[t.peer]
		}
	}
	return values
}

// value is what counts for a target. Counts of what must not happen are not
// outvoted by other rounds.
func (r *result) value(t target) float64 {
	values := r.judged(t)
	if t.atMost && t.limit == 0 {
		return slices.Max(values)
	}
	return median(values)
}

// printReport writes the table.
func printReport(out io.Writer, results []result, s settings, server string) error {
	fmt.Fprintf(out, `The coordinator at work: kfake %s, redis-server %s (nothing saved), %s %s/%s, %d CPUs shared
with all that loads it. Medians of %d rounds, in brackets their range; rates over %s each,
%d connections. With a peer the ratio is what counts.

`, version(peerModule), server, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), s.rounds, s.sample, s.connections)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tfigure\t\tpeer\t\tratio\t\tmust be\t")
	for i := range results {
		r := &results[i]
		for _, t := range r.targets {
			printTarget(table, r, t)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for i := range results {
		if r := &results[i]; len(r.notes) > 0 {
			fmt.Fprintf(out, "%s: %s\n", r.name, strings.Join(r.noted(), ", "))
		}
	}
	fmt.Fprintln(out)
	return nil
}

func printTarget(table io.Writer, r *result, t target) {
	values := r.of(t.figure)
	counts := r.value(t)
	figure := median(values)
	if t.peer == "" {
		figure = counts
	}
	fmt.Fprintf(table, "%s\t%s\t%s\t", t.what, t.unit.format(figure), span(values, t.unit))
	if t.peer == "" {
		fmt.Fprint(table, "\t\t\t\t")
	} else {
		fmt.Fprintf(table, "%s\t%s\t%.2f\t%s\t", t.peer, t.unit.format(median(r.of(t.peer))), counts, span(r.judged(t), ratio))
	}
	fmt.Fprintf(table, "%s\t%s\n", t.bound(), verdict(t.met(counts)))
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "MISSED"
}

// bound is what the target says.
func (t target) bound() string {
	sign := "≥"
	if t.atMost {
		sign = "≤"
	}
	if t.peer != "" {
		return fmt.Sprintf("%s %g", sign, t.limit)
	}
	return strings.TrimSpace(fmt.Sprintf("%s %g %s", sign, t.limit, t.unit.name))
}

func (u unit) format(value float64) string {
	return strings.TrimSpace(fmt.Sprintf("%.*f %s", u.digits, value, u.name))
}

func span(values []float64, u unit) string {
	return fmt.Sprintf("(%.*f to %.*f)", u.digits, slices.Min(values), u.digits, slices.Max(values))
}

// noted are the figures without a target.
func (r *result) noted() []string {
	var all []string
	for _, n := range r.notes {
		all = append(all, n.figure+" "+n.unit.format(median(r.of(n.figure))))
	}
	return all
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
