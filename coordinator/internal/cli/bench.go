package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/bench"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
)

// benchFlags is what `rsc bench` is told on the command line.
type benchFlags struct {
	bench.Options

	redisAt  redisAt
	password config.Secret
	json     bool
}

func newBench(a App) *cobra.Command {
	flags := benchFlags{password: config.Secret(a.getenv("RSC_PASSWORD", config.DefaultPassword))}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Load a coordinator with members and say what it bears and costs",
		Long: "Lets members join groups on a stream of its own, and sends their keepalives as fast\n" +
			"as they are answered. With --wait the members are those of the consumer module,\n" +
			"whose heartbeats are held until there is something to hear, while one more member\n" +
			"of each group comes and goes. In the end it removes what it has made.\n\n" +
			"With --redis it also says what that Redis did meanwhile; so name the one where the\n" +
			"coordinator keeps its records. With --embedded the coordinator is in this process, and\n" +
			"keeps them there, or in memory. It shares the processors with what loads it; so does\n" +
			"one on this machine, and figures say as much about the machine as about it.",
		Example: "  rsc bench --embedded --redis redis://127.0.0.1:6379 --shards 10000\n" +
			"  rsc bench --coordinator http://127.0.0.1:8080 --members 100 --groups 20 --duration 30s\n" +
			"  rsc bench --embedded --members 10 --shards 900 --wait 10s --json",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return a.runBench(c.Context(), &flags) },
	}
	f := c.Flags()
	f.StringSliceVar(&flags.Coordinators, "coordinator", strings.Split(a.getenv("RSC_COORDINATOR", defaultCoordinator), ","), "`URL` of a coordinator, also RSC_COORDINATOR; several have the groups spread over them")
	f.BoolVar(&flags.Embedded, "embedded", false, "measure a coordinator in this process")
	f.StringVar(&flags.Username, "username", a.getenv("RSC_USERNAME", defaultUser), "user for the coordinator, who may create streams; also RSC_USERNAME, the password is RSC_PASSWORD")
	f.IntVar(&flags.Members, "members", bench.DefaultMembers, "members of each group")
	f.IntVar(&flags.Groups, "groups", bench.DefaultGroups, "groups")
	f.IntVar(&flags.Shards, "shards", bench.DefaultShards, "shards of the stream")
	f.IntVar(&flags.Connections, "connections", bench.DefaultConnections, "connections for keepalives, each with one under way")
	f.DurationVar(&flags.Duration, "duration", bench.DefaultDuration, "how long it is measured")
	f.DurationVar(&flags.Wait, "wait", 0, "let members ask for their heartbeats to be held so long (0: keepalives)")
	f.IntSliceVar(&flags.PIDs, "pid", nil, "process of a coordinator on this machine, to show what it uses (Linux); may be repeated")
	f.BoolVar(&flags.json, "json", false, "print JSON")
	flags.redisAt.flags(f)
	return c
}

func (a App) runBench(ctx context.Context, flags *benchFlags) error {
	if err := flags.check(a); err != nil {
		return err
	}
	if !flags.json {
		began := time.Now()
		flags.Progress = func(line string) { fmt.Fprintf(a.Stderr, "%7.2fs  %s\n", time.Since(began).Seconds(), line) }
	}
	a.quiet()
	result, err := bench.Run(ctx, flags.Options)
	if result != nil {
		err = errors.Join(err, a.printBench(flags, result))
	}
	if err == nil && !result.OK() {
		return errTold
	}
	return err
}

func (a App) printBench(flags *benchFlags, r *bench.Result) error {
	if flags.json {
		return json.NewEncoder(a.Stdout).Encode(r)
	}
	return r.Print(a.Stdout)
}

// check completes the options and returns all complaints about them.
func (f *benchFlags) check(a App) error {
	var bad []error
	f.Options.Password = f.password.Reveal()
	for _, c := range f.Coordinators {
		if u, err := url.Parse(c); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			bad = append(bad, fmt.Errorf("--coordinator must be a URL such as %s, got %q", defaultCoordinator, c))
		}
	}
	// Unlike elsewhere no Redis is the default: it is only asked for its counters.
	if given := a.getenv("REDIS_URL", ""); len(f.redisAt.given) > 0 || given != "" {
		bad = append(bad, f.redisAt.resolve(given))
		options := f.redisAt.options()
		f.Redis = &options
	}
	return asUsage(append(bad, f.Options.Check()))
}
