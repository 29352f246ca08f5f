package cli

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/adapters/redis"
	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
)

// defaultListed is how many dead letters are listed.
const defaultListed = 20

// newDLQ is the command of the dead letters. It talks to Redis itself: the
// coordinator never touches a record.
func newDLQ(a App) *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "List dead letters, show them, publish them again",
		Long: "Consumers with a dead-letter stream move a record there that they cannot handle:\n" +
			"those of the stream orders lie in the Redis stream orders:dlq. A dead letter is the\n" +
			"record with its own fields, and says which record it was, which group gave it up,\n" +
			"after how many deliveries and why.",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newDLQList(a), newDLQShow(a), newDLQReplay(a))
	return c
}

// dlqFlags is what every command of dead letters is told.
type dlqFlags struct {
	connection
}

// flagsOfRedis adds the flags of what needs no coordinator.
func (f *dlqFlags) flagsOfRedis(c *cobra.Command) {
	c.Flags().StringVar(&f.stream, "stream", "", "prefix of the stream's keys, such as orders (needed)")
	f.redisAt.flags(c.Flags())
	f.logLevel = "warn"
}

// deadLetters is the dead-letter stream of a stream.
type deadLetters struct {
	*redis.Streams
	key   string
	close func() error
}

// openDeadLetters reaches the Redis of the dead letters.
func (a App) openDeadLetters(ctx context.Context, flags *dlqFlags) (*deadLetters, error) {
	if err := flags.check(a); err != nil {
		return nil, err
	}
	if _, err := a.newLogger(config.Log{Level: flags.logLevel, Format: "auto"}); err != nil {
		return nil, err
	}
	client, err := redis.Open(ctx, flags.redisAt.config())
	if err != nil {
		return nil, err
	}
	return &deadLetters{Streams: client.Streams(), key: flags.stream + consumer.DeadLetterSuffix, close: client.Close}, nil
}

// state returns how many dead letters there are, and the highest id.
func (d *deadLetters) state(ctx context.Context) (length int64, last string, err error) {
	states, err := d.Inspect(ctx, []string{d.key}, 0)
	if err != nil {
		return 0, "", err
	}
	return states[0].Length, states[0].LastGeneratedID, nil
}

// listFlags is what `rsc dlq list` is told.
type listFlags struct {
	dlqFlags
	limit int
	after string
	shard int
	json  bool
}

func newDLQList(a App) *cobra.Command {
	var flags listFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, the oldest first",
		Long: "Lists the dead letters of a stream, the oldest first: their ids, which record each\n" +
			"was, how often it was begun, the group that gave it up, its key and the reason. With\n" +
			"--json each is a line of JSON with everything that is in it.",
		Example: "  rsc dlq list --stream orders\n" +
			"  rsc dlq list --stream orders --limit 1000 --json | jq .error",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return a.runDLQList(c.Context(), &flags) },
	}
	flags.flagsOfRedis(c)
	c.Flags().IntVar(&flags.limit, "limit", defaultListed, "how many to list at most")
	c.Flags().StringVar(&flags.after, "after", "", "list those behind this `id`")
	c.Flags().IntVar(&flags.shard, "shard", -1, "only records of the shard with this `index`")
	c.Flags().BoolVar(&flags.json, "json", false, "print lines of JSON")
	return c
}

func (a App) runDLQList(ctx context.Context, flags *listFlags) error {
	if flags.limit < 1 || flags.limit > math.MaxInt32 {
		return usagef("--limit must be between 1 and %d, got %d", math.MaxInt32, flags.limit)
	}
	letters, err := a.openDeadLetters(ctx, &flags.dlqFlags)
	if err != nil {
		return err
	}
	return errors.Join(a.listDeadLetters(ctx, letters, flags), letters.close())
}

func (a App) listDeadLetters(ctx context.Context, letters *deadLetters, flags *listFlags) error {
	length, _, err := letters.state(ctx)
	if err != nil {
		return err
	}
	out := newLetterTable(a.Stdout)
	if flags.json {
		out = letterLines{a.Stdout}
	}
	listed, more, last := 0, false, ""
	for e, err := range letters.Entries(ctx, letters.key, flags.after, "") {
		if err != nil {
			return errors.Join(err, out.end())
		}
		d := readDeadLetter(e)
		if flags.shard >= 0 && d.shard != flags.shard {
			continue
		}
		if more = listed == flags.limit; more {
			break
		}
		if err := out.add(&d); err != nil {
			return err
		}
		listed, last = listed+1, d.id
	}
	if err := out.end(); err != nil {
		return err
	}
	fmt.Fprintf(a.Stderr, "listed %d of %d dead letters of %s", listed, length, flags.stream)
	if more {
		fmt.Fprintf(a.Stderr, ", go on with --after %s", last)
	}
	fmt.Fprintln(a.Stderr)
	return nil
}

func newDLQShow(a App) *cobra.Command {
	var flags dlqFlags
	c := &cobra.Command{
		Use:     "show id…",
		Short:   "Show all that is in dead letters",
		Long:    "Shows dead letters with all fields, each as indented JSON. Fields that are no text\nare in base64.",
		Example: "  rsc dlq show --stream orders 1700000000000-0",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("needs the id of a dead letter, as rsc dlq list shows it")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return a.runDLQShow(c.Context(), args, &flags) },
	}
	flags.flagsOfRedis(c)
	return c
}

func (a App) runDLQShow(ctx context.Context, ids []string, flags *dlqFlags) error {
	letters, err := a.openDeadLetters(ctx, flags)
	if err != nil {
		return err
	}
	var failures []error
	for _, id := range ids {
		failures = append(failures, a.showDeadLetter(ctx, letters, id))
	}
	return errors.Join(append(failures, letters.close())...)
}

func (a App) showDeadLetter(ctx context.Context, letters *deadLetters, id string) error {
	e, found, err := letters.Entry(ctx, letters.key, id)
	if err != nil {
		return err
	}
	if !found {
		return errNoLetter(letters.key, id)
	}
	d := readDeadLetter(e)
	text, err := encodeDeadLetter(&d, "  ")
	if err != nil {
		return err
	}
	_, err = a.Stdout.Write(text)
	return err
}

func errNoLetter(key, id string) error {
	return fmt.Errorf("there is no dead letter %s in %s: it was removed, or replayed", id, key)
}
