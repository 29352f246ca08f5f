package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/demo"
)

// demoFlags is what `rsc demo` is told on the command line.
type demoFlags struct {
	seconds, rate string
	redis         string
	embedded      bool
	store         string
}

func newDemo(a App) *cobra.Command {
	var flags demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run the whole system for a while under trouble and account for every record",
		Long: "Runs two coordinators on one store, a producer and consumers; coordinators and\n" +
			"consumers are processes of their own. While records flow, two consumers are added,\n" +
			"one is killed, one is stopped, the stream is scaled from 8 to 12 shards, a coordinator\n" +
			"is killed and started again, and the stream is scaled to 5 shards. At the end every\n" +
			"record is accounted for: the last line begins with \"demo: ok\" and the exit code is 0,\n" +
			"or with \"demo: failed\" and it is 1.\n\n" +
			"The Redis is the one that is given, else a redis-server from PATH that is started\n" +
			"for the demo, else one inside this process; then the metadata is there too, and one\n" +
			"coordinator, which is restarted. In a Redis that is given the demo uses keys of its\n" +
			"own, which begin with rsc-demo-, and removes them.",
		Example: "  rsc demo\n" +
			"  rsc demo --seconds 60 --rate 5000 --redis redis://127.0.0.1:6379",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return a.runDemo(c.Context(), &flags) },
	}
	f := c.Flags()
	f.StringVar(&flags.seconds, "seconds", a.getenv("DEMO_SECONDS", strconv.Itoa(demo.DefaultSeconds)), "how long records flow, at least; also DEMO_SECONDS")
	f.StringVar(&flags.rate, "rate", a.getenv("DEMO_RATE", strconv.Itoa(demo.DefaultRate)), "records a second; also DEMO_RATE")
	f.StringVar(&flags.redis, "redis", "", "Redis to use, such as redis://127.0.0.1:6379; also REDIS_URL")
	f.StringVar(&flags.store, "store", "", "where the metadata is kept: redis, which is the default, or sqlite, a file made for the demo")
	f.BoolVar(&flags.embedded, "embedded", false, "use the Redis inside this process even if there is another")
	return c
}

func (a App) runDemo(ctx context.Context, flags *demoFlags) error {
	seconds, err := strconv.Atoi(flags.seconds)
	if err != nil {
		return usagef("--seconds is %q, must be a number", flags.seconds)
	}
	rate, err := strconv.Atoi(flags.rate)
	if err != nil {
		return usagef("--rate is %q, must be a number", flags.rate)
	}
	url := flags.redis
	if url == "" && !flags.embedded {
		url = a.getenv("REDIS_URL", "")
	}
	if flags.store != "" && flags.store != "redis" && flags.store != "sqlite" {
		return usagef("--store is %q, must be redis or sqlite", flags.store)
	}
	a.quiet()
	result, err := demo.Run(ctx, demo.Options{
		Seconds: seconds, Rate: rate, RedisURL: url, Embedded: flags.embedded, SQLite: flags.store == "sqlite", Out: a.Stdout, Size: terminalSize(a.Stdout),
	})
	switch {
	case err != nil:
		return &usageError{err: err}
	case !result.OK():
		return errTold
	}
	return nil
}

// quiet keeps libraries from writing between the lines of the demo, which tells
// all that matters in its own words.
func (a App) quiet() {
	if a.onLogger != nil {
		a.onLogger(slog.New(slog.DiscardHandler))
	}
}

// terminalSize returns what tells the size of the terminal that a stream is, nil
// for a stream that is none.
func terminalSize(stream any) func() (columns, rows int) {
	f, ok := stream.(*os.File)
	if !ok || !isTerminal(stream) {
		return nil
	}
	return func() (columns, rows int) {
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return columns, rows
	}
}

// The processes that the demo starts. They are no commands for people.

func newDemoConsumer(a App) *cobra.Command {
	return &cobra.Command{
		Use: demo.ConsumerCommand, Hidden: true, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			a.quiet()
			return demo.RunConsumer(c.Context(), a.Stdin, a.Stdout, a.Stderr)
		},
	}
}

func newDemoCoordinator(a App) *cobra.Command {
	return &cobra.Command{
		Use: demo.CoordinatorCommand, Hidden: true, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			a.quiet()
			return demo.RunCoordinator(c.Context(), a.Stdin, a.Stdout, a.Stderr)
		},
	}
}

func newDemoRedis(a App) *cobra.Command {
	return &cobra.Command{
		Use: demo.RedisCommand, Hidden: true, Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return demo.RunRedis(c.Context(), a.Stdin, a.Stdout) },
	}
}

// errTold ends a command that has told already what is wrong.
var errTold = errors.New("not everything was as it must be")
