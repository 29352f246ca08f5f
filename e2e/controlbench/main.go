// Command controlbench measures the coordinator at the sizes that it is made for,
// in one run with its peers, and prints figures, ratios, and whether the targets are
// met.
//
// It starts a redis-server of its own. Coordinators run in this process, save where
// the memory of one is measured: that is the real command, built for the occasion.
// So the two share the processors with what loads them, and the peers do too:
//
//   - bare: a net/http handler that decodes the same requests and encodes answers as
//     long as ours with the same functions, and has nothing between the two.
//   - kfake: franz-go's broker in memory, with heartbeats of as many members of one
//     group with as many partitions. It keeps nothing.
//
// Every scene is opened once and goes through the rounds; what is compared takes
// turns within a round, ratios are taken there, and the median of the rounds counts.
// Targets that are times or rates say something about the machine as well; they are
// meant for two processors that do nothing else. With -gate a target that is missed
// makes the command fail.
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
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Bounds of the settings.
const (
	maxRounds      = 100
	maxSample      = time.Minute
	maxConnections = 5000
)

// errMissed says that the measurement ran, and what came out is not good enough.
var errMissed = errors.New("targets missed")

// settings are what the command line can change.
type settings struct {
	// rounds is how often each figure is taken; the median counts.
	rounds int
	// sample is how long one measurement of a rate lasts.
	sample time.Duration
	// connections is over how many connections keepalives come in.
	connections int
	// only restricts the scenes to those whose name it matches; nil means all.
	only *regexp.Regexp
	// gate makes a missed target an error.
	gate bool
	// stores are compared with each other; none means not to.
	stores []string
	// cpuProfile and memProfile are files for profiles of the whole run, empty for
	// none.
	cpuProfile, memProfile string
}

// silence is where the client library's own log goes.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(silence{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, os.Args[1:])
	stop()
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errMissed):
		fmt.Fprintln(os.Stderr, "controlbench:", err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "controlbench:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, out io.Writer, args []string) (err error) {
	s, err := parse(args)
	if err != nil {
		return err
	}
	server, err := startRedis(ctx)
	if err != nil {
		return err
	}
	b := &bench{settings: s, sizes: full, redis: server}
	results, err := b.playProfiled(ctx, scenes(s), out)
	if err := errors.Join(err, server.close()); err != nil {
		return err
	}
	if err := printReport(out, results, s, server.version); err != nil {
		return err
	}
	missed := 0
	for i := range results {
		for _, t := range results[i].targets {
			if !t.met(results[i].value(t)) {
				missed++
			}
		}
	}
	switch {
	case missed == 0:
		fmt.Fprintln(out, "controlbench: ok, every target met")
	case s.gate:
		return fmt.Errorf("%w: %d", errMissed, missed)
	}
	return nil
}

func parse(args []string) (settings, error) {
	var s settings
	var only, stores string
	flags := flag.NewFlagSet("controlbench", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 3, "how often each figure is taken; the median counts")
	flags.DurationVar(&s.sample, "sample", 2*time.Second, "how long one measurement of a rate lasts")
	flags.IntVar(&s.connections, "connections", 128, "over how many connections keepalives come in")
	flags.StringVar(&only, "only", "", "play only the scenes whose name this regular expression matches")
	flags.BoolVar(&s.gate, "gate", false, "fail when a target is missed")
	flags.StringVar(&stores, "stores", "", "compare these stores with Redis: postgres, mariadb, sqlite, or all; they must be installed")
	flags.StringVar(&s.cpuProfile, "cpuprofile", "", "write a CPU profile of the whole run to this file")
	flags.StringVar(&s.memProfile, "memprofile", "", "write a profile of all allocations to this file")
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
	if s.sample < 100*time.Millisecond || s.sample > maxSample {
		complaints = append(complaints, fmt.Errorf("sample is %s, must be 100ms to %s", s.sample, maxSample))
	}
	if s.connections < 1 || s.connections > maxConnections {
		complaints = append(complaints, fmt.Errorf("connections is %d, must be 1 to %d", s.connections, maxConnections))
	}
	var err error
	if s.stores, err = parseStores(stores); err != nil {
		complaints = append(complaints, err)
	}
	if only != "" {
		var err error
		if s.only, err = regexp.Compile(only); err != nil {
			complaints = append(complaints, fmt.Errorf("only: %w", err))
		}
	}
	return s, errors.Join(complaints...)
}

// bench is what all scenes share.
type bench struct {
	settings
	sizes

	redis *redisServer
}

// playProfiled is play under the profiles that were asked for.
func (b *bench) playProfiled(ctx context.Context, scenes []scene, log io.Writer) (_ []result, err error) {
	if b.cpuProfile != "" {
		file, err := os.Create(b.cpuProfile)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			err = errors.Join(err, file.Close())
		}()
	}
	if b.memProfile != "" {
		defer func() { err = errors.Join(err, writeAllocs(b.memProfile)) }()
	}
	return b.play(ctx, scenes, log)
}

func writeAllocs(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}

// play takes the scenes through their rounds, one scene after the other, so that
// nothing of one is in the memory of the next. log gets a line for each round.
func (b *bench) play(ctx context.Context, scenes []scene, log io.Writer) ([]result, error) {
	results := make([]result, len(scenes))
	for i, s := range scenes {
		results[i].scene = s
		if err := b.playOne(ctx, s, &results[i], log); err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	fmt.Fprintln(log)
	return results, nil
}

func (b *bench) playOne(ctx context.Context, s scene, r *result, log io.Writer) (err error) {
	stage, err := s.open(ctx, b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stage.close(ctx)) }()
	for round := range b.rounds {
		runtime.GC()
		m, err := stage.round(ctx, round)
		if err != nil {
			return err
		}
		r.rounds = append(r.rounds, m)
		fmt.Fprintf(log, "%s: round %d of %d done\n", s.name, round+1, b.rounds)
	}
	return nil
}
