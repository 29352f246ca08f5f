// Command assignbench times our assignor beside a peer, franz-go's sticky
// balancer, in one process and on the same groups, and fails when ours misses
// its targets.
//
// Ours is [assign.Plan] on arrays that lie ready (held and previous target, one
// int32 per shard): the form in which a coordinator keeps a group between two
// heartbeats. Its result, the new target array, is allocated anew each time.
//
// The peer is franz-go's public path with one topic and
// [kgo.StickyBalancer]; its algorithm alone is not public. What a member
// reports, the encoded JoinGroupMetadata with the partitions it owns, lies
// ready as well. Two figures are taken of each call: "balance" is
// BalanceOrError alone, which decodes what each member owns and plans; "path"
// adds MemberBalancer, which decodes the members, before it, and
// IntoSyncAssignment, which encodes the plan for them, after it. Of these a
// coordinator like ours need do neither, so the targets are held against
// "balance", the smaller of the two.
//
// The groups are balanced and their shards scattered over the members, as after
// a long life; each event is a step from there. A shard of a member that is
// gone belongs to nobody, for both.
//
// Each round visits every size and event; the two take turns in it, and repeat
// short calls, so that a disturbance of the machine meets both. The median of
// the rounds counts, for the ratio too, which is taken within each round. The
// garbage collector runs as it does by default, at the cost of whoever makes
// garbage.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

// Bounds of the settings.
const (
	maxRounds = 1000
	maxSample = 10 * time.Second
)

// errMissed says that the comparison ran, and what came out is not good enough.
var errMissed = errors.New("targets missed")

// settings are what the command line can change.
type settings struct {
	// rounds is how often each figure is taken; the median counts. From 1 to
	// maxRounds.
	rounds int
	// sample is how long each of the two works at least for one figure: shorter
	// calls are repeated. More than 0, at most maxSample.
	sample time.Duration
}

func main() {
	err := run(os.Stdout, os.Args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errMissed):
		fmt.Fprintln(os.Stderr, "assignbench:", err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "assignbench:", err)
		os.Exit(2)
	}
}

func run(out io.Writer, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	results, err := compare(sizes, s)
	if err != nil {
		return err
	}
	if err := printReport(out, results, s); err != nil {
		return err
	}
	missed := 0
	for _, r := range results {
		for _, complaint := range r.complaints() {
			fmt.Fprintf(out, "missed: %s %s: %s\n", r.size, r.event.name, complaint)
			missed++
		}
	}
	if missed > 0 {
		return fmt.Errorf("%w: %d", errMissed, missed)
	}
	fmt.Fprintln(out, "assignbench: ok, every target met")
	return nil
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("assignbench", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 5, "how often each figure is taken; the median counts")
	flags.DurationVar(&s.sample, "sample", 40*time.Millisecond, "how long each of the two works at least, per figure")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	var complaints []error
	if flags.NArg() > 0 {
		complaints = append(complaints, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	if s.rounds < 1 || s.rounds > maxRounds {
		complaints = append(complaints, fmt.Errorf("rounds is %d, must be 1 to %d", s.rounds, maxRounds))
	}
	if s.sample <= 0 || s.sample > maxSample {
		complaints = append(complaints, fmt.Errorf("sample is %s, must be above 0 and at most %s", s.sample, maxSample))
	}
	return s, errors.Join(complaints...)
}
