package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/consumer"
	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
)

// consumeFlags is what `rsc consume` is told.
type consumeFlags struct {
	connection
	group         string
	member        string
	exec          string
	concurrency   int
	dlq           bool
	maxDeliveries int
	trim          bool
}

func newConsume(a App) *cobra.Command {
	var flags consumeFlags
	c := &cobra.Command{
		Use:   "consume",
		Short: "Read a stream as a member of a group",
		Long: "Joins a consumer group, reads the shards that the coordinator gives it, and prints\n" +
			"each record as a line of JSON, or runs a command for it. A record is acknowledged\n" +
			"after its line was written, or after its command exited with 0; another exit code\n" +
			"makes the command run again for the same record after a pause. Each record is\n" +
			"handled at least once; those of one key one after the other and in order, those of\n" +
			"different keys side by side. Records without key count as those of one key.\n\n" +
			"With --dlq a record that was begun --max-deliveries times in vain is moved to the\n" +
			"Redis stream orders:dlq (for --stream orders), see rsc dlq. Without, it is tried for\n" +
			"ever, and the records of its key wait.\n\n" +
			"The command gets the record as a line of JSON on standard input, and RSC_STREAM,\n" +
			"RSC_SHARD, RSC_ID, RSC_KEY, RSC_TOKEN and RSC_DELIVERIES in its environment.\n\n" +
			"SIGINT or SIGTERM ends it: what is under way is finished, then it leaves the group.",
		Example: "  rsc consume --stream orders --group billing\n" +
			"  rsc consume --stream orders --group mail --member mail-1 --dlq --exec ./send-mail.sh",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return a.runConsume(c.Context(), &flags) },
	}
	flags.connection.flags(a, c, "info")
	c.Flags().StringVar(&flags.group, "group", "", "consumer group to join (needed)")
	c.Flags().StringVar(&flags.member, "member", "", "name of this member, unique in its group (default: the host's name and random letters)")
	c.Flags().StringVar(&flags.exec, "exec", "", "`command` for the shell to run for each record, instead of printing it")
	c.Flags().IntVar(&flags.concurrency, "concurrency", consumer.DefaultConcurrency, "how many records are handled at the same time at most")
	c.Flags().BoolVar(&flags.dlq, "dlq", false, "move records that cannot be handled to the dead-letter stream")
	c.Flags().IntVar(&flags.maxDeliveries, "max-deliveries", consumer.DefaultMaxDeliveries, "with --dlq, how often a record is begun before it is moved")
	c.Flags().BoolVar(&flags.trim, "trim", false, "remove records from the stream once every group has acknowledged them")
	return c
}

func (f *consumeFlags) check(a App) error {
	err := f.connection.check(a)
	bad := []error{err}
	if f.group == "" {
		bad = append(bad, errors.New("--group is needed: the consumer group to join, such as --group billing"))
	}
	if f.concurrency < 1 {
		bad = append(bad, fmt.Errorf("--concurrency must be at least 1, got %d", f.concurrency))
	}
	if f.maxDeliveries < 1 {
		bad = append(bad, fmt.Errorf("--max-deliveries must be at least 1, got %d", f.maxDeliveries))
	}
	return asUsage(bad)
}

// retry is how often a record is tried: for ever without a dead-letter stream.
func (f *consumeFlags) retry() consumer.Retry {
	if !f.dlq {
		return consumer.Retry{}
	}
	return consumer.Retry{MaxDeliveries: f.maxDeliveries}
}

func (a App) runConsume(ctx context.Context, flags *consumeFlags) error {
	if err := flags.check(a); err != nil {
		return err
	}
	logger, err := a.newLogger(config.Log{Level: flags.logLevel, Format: "auto"})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &recordWriter{out: a.Stdout, failed: stop}
	handle := out.write
	if flags.exec != "" {
		handle = a.runner(flags.exec)
	}
	var handled atomic.Int64
	c, err := consumer.New(consumer.Config{
		Coordinators: flags.coordinators,
		Credentials:  consumer.BasicAuth(flags.username, flags.password.Reveal()),
		Stream:       flags.stream,
		Group:        flags.group,
		MemberID:     flags.member,
		Redis:        flags.redisAt.options(),
		Concurrency:  flags.concurrency,
		Retry:        flags.retry(),
		DeadLetter:   consumer.DeadLetter{Enabled: flags.dlq},
		Logger:       logger,
		Handler: func(ctx context.Context, r consumer.Record) error {
			err := handle(ctx, r)
			if err == nil {
				handled.Add(1)
			}
			return err
		},
		// Who looks at a stream does not expect it to shrink.
		Retention: consumer.Retention{Off: !flags.trim},
	})
	if err != nil {
		return &usageError{err: err}
	}
	err = c.Run(ctx)
	fmt.Fprintf(a.Stderr, "consume: member=%s records=%d\n", c.MemberID(), handled.Load())
	if errors.Is(err, consumer.ErrRedisMode) {
		err = fmt.Errorf("%w (here it is --redis-cluster that says which it is, or several addresses in --redis)", err)
	}
	return errors.Join(err, out.failure())
}

// recordWriter prints records, one line each, from several shards at once.
type recordWriter struct {
	mu  sync.Mutex
	out io.Writer
	// failed ends the command: what cannot be printed now cannot be printed
	// later.
	failed context.CancelCauseFunc
	err    error
}

// write prints a record with one call, so that the line is out, whole, before
// the record is acknowledged.
func (w *recordWriter) write(_ context.Context, r consumer.Record) error {
	text, err := encodeRecord(r)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	if _, err := w.out.Write(text); err != nil {
		w.err = fmt.Errorf("print a record: %w", err)
		w.failed(w.err)
	}
	return w.err
}

func (w *recordWriter) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
