// Command streambench times our consumer and producer beside peers, in one
// process, on one redis-server of its own, and prints figures and ratios.
//
// Consumers that are compared:
//
//   - rsc: the consumer module as an application uses it, with order per key and
//     its default number of handlers; a coordinator in this process gives it its
//     shards.
//   - raw: go-redis by hand, as the ceiling: a goroutine for each shard that
//     reads COUNT 100, handles, and acknowledges all of it with one XACK.
//   - naive: the loop that most examples show: COUNT 10, one XACK each.
//   - watermill: watermill-redisstream, a subscription for each shard.
//
// Each run has a fresh stream that was filled before; time counts from the first
// call of the handler until everything was handled and nothing is pending. Every
// record carries its number, so each run also tells what was lost, handled
// twice, or handled before an older record of its key had been. A consumer that
// is fast with a wrong count has failed.
//
// Producers are timed until the last confirmation; then the streams are read
// back and checked in the same way.
//
// In each round every case lets its candidates take turns, so that a disturbance
// of the machine meets all of them. Ratios are taken within a round, and the
// median of the rounds counts. Absolute figures say something about the machine;
// only the ratios have targets. With -gate a target that is missed makes the
// command fail.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bounds of the settings.
const (
	maxRounds  = 100
	minRecords = 1000
	maxRecords = 5_000_000
	maxShards  = 512
	minPayload = 16
	maxPayload = 1 << 20
)

// errMissed says that the comparison ran, and what came out is not good enough.
var errMissed = errors.New("targets missed")

// settings are what the command line can change.
type settings struct {
	// rounds is how often each figure is taken; the median counts.
	rounds int
	// records is how many records a run of a fast candidate has; slow ones and
	// large payloads get fewer.
	records int
	// shards and payloads (in bytes) are what consumers and producers are tried with.
	shards, payloads []int
	// trickle is how long one run of the latency lasts.
	trickle time.Duration
	// aof lets the server write an append-only file, synced every second.
	aof bool
	// cluster takes a Redis Cluster of clusterNodes nodes in place of one server.
	cluster bool
	// only restricts the cases to those whose name it matches; nil means all.
	only *regexp.Regexp
	// gate makes a missed target an error.
	gate bool
	// cpuProfile and memProfile are files for profiles of the whole run, empty
	// for none.
	cpuProfile, memProfile string
}

// silence is where the client library's own log goes: it remarks on connections
// that are closed while it refreshes its map of a Cluster.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(silence{})
	if address, ok := os.LookupEnv(victimEnv); ok {
		// We are the member that a crash case started in order to kill it.
		if err := victim(address); err != nil {
			fmt.Fprintln(os.Stderr, "streambench:", err)
			os.Exit(2)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errMissed):
		fmt.Fprintln(os.Stderr, "streambench:", err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "streambench:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	s, err := parse(args)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, s)
	if err != nil {
		return err
	}
	results, err := b.compareProfiled(ctx, cases(s), out)
	if closed := b.close(ctx); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := printReport(out, results, s, b.serverVersion); err != nil {
		return err
	}
	missed := 0
	for i := range results {
		for _, complaint := range results[i].complaints() {
			fmt.Fprintf(out, "missed: %s: %s\n", results[i].name, complaint)
			missed++
		}
	}
	switch {
	case missed == 0:
		fmt.Fprintln(out, "streambench: ok, every target met")
	case s.gate:
		return fmt.Errorf("%w: %d", errMissed, missed)
	}
	return nil
}

func parse(args []string) (settings, error) {
	s := settings{shards: []int{1, 16, 64}, payloads: []int{200, 4096}}
	var only string
	flags := flag.NewFlagSet("streambench", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 5, "how often each figure is taken; the median counts")
	flags.IntVar(&s.records, "records", 200_000, "records of one run of a fast candidate")
	flags.Func("shards", "shard counts to try, such as 1,16,64 (the default)", list(&s.shards))
	flags.Func("payloads", "payload sizes to try in bytes, such as 200,4096 (the default)", list(&s.payloads))
	flags.DurationVar(&s.trickle, "trickle", 3*time.Second, "how long one run of the latency lasts")
	flags.BoolVar(&s.aof, "aof", false, "let the server write an append-only file, synced every second")
	flags.BoolVar(&s.cluster, "cluster", false, "take a Redis Cluster of three nodes in place of one server")
	flags.StringVar(&only, "only", "", "run only the cases whose name this regular expression matches")
	flags.BoolVar(&s.gate, "gate", false, "fail when a target is missed")
	flags.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of the whole run to this file")
	flags.StringVar(&s.memProfile, "memprofile", "", "write a profile of all allocations to this file")
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	var complaints []error
	within := func(name string, value, low, high int) {
		if value < low || value > high {
			complaints = append(complaints, fmt.Errorf("%s is %d, must be %d to %d", name, value, low, high))
		}
	}
	if flags.NArg() > 0 {
		complaints = append(complaints, fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	within("rounds", s.rounds, 1, maxRounds)
	within("records", s.records, minRecords, maxRecords)
	for _, n := range s.shards {
		within("shards", n, 1, maxShards)
	}
	for _, n := range s.payloads {
		within("payloads", n, minPayload, maxPayload)
	}
	if s.trickle < 500*time.Millisecond || s.trickle > time.Minute {
		complaints = append(complaints, fmt.Errorf("trickle is %s, must be 500ms to 1m", s.trickle))
	}
	if only != "" {
		var err error
		if s.only, err = regexp.Compile(only); err != nil {
			complaints = append(complaints, fmt.Errorf("only: %w", err))
		}
	}
	return s, errors.Join(complaints...)
}

// list returns a flag's function that takes numbers with commas between them.
func list(into *[]int) func(string) error {
	return func(text string) error {
		var numbers []int
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(part)
			if err != nil {
				return fmt.Errorf("%q is no number", part)
			}
			numbers = append(numbers, n)
		}
		*into = numbers
		return nil
	}
}
