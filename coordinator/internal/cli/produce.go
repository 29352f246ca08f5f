package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/producer"
)

const (
	// batchesAhead is how many batches are read while one is published.
	batchesAhead = 2
	// shownFailures is how many failures are told in full.
	shownFailures = 20
	// closeTimeout bounds the end of the producer, which has nothing under way.
	closeTimeout = 5 * time.Second
)

var errInterrupted = errors.New("interrupted: the rest of the input was not read")

// produceFlags is what `rsc produce` is told.
type produceFlags struct {
	connection
	keyField       string
	timeout        time.Duration
	retryUncertain bool
	// sample is how many made-up orders a second take the place of an input.
	sample int
}

func newProduce(a App) *cobra.Command {
	var flags produceFlags
	c := &cobra.Command{
		Use:   "produce [file]",
		Short: "Publish the lines of a file",
		Long: "Publishes each line of a file, or of standard input, as one record: the line\n" +
			"becomes the record's field payload. With --key-field the lines are JSON objects\n" +
			"(NDJSON), and lines of one key keep their order; without it lines are spread over\n" +
			"the shards in no order.\n\n" +
			"With --sample it publishes made-up orders until it is stopped.\n\n" +
			"The last line on standard error counts. Exit code 1: at least one line was not\n" +
			"stored, or nobody knows whether it was. Lines of that last kind (uncertain) may be\n" +
			"stored twice if they are published again.",
		Example: "  rsc produce --stream orders --key-field customer orders.ndjson\n" +
			"  tail -f app.log | rsc produce --stream logs\n" +
			"  rsc produce --stream orders --sample 20",
		Args: atMostOneFile,
		RunE: func(c *cobra.Command, args []string) error { return a.runProduce(c.Context(), args, &flags) },
	}
	flags.connection.flags(a, c, "warn")
	c.Flags().StringVar(&flags.keyField, "key-field", "", "`field` of each JSON object that is the partition key")
	c.Flags().DurationVar(&flags.timeout, "timeout", 30*time.Second, "how long up to 1000 lines may take to be stored before they count as failed")
	c.Flags().BoolVar(&flags.retryUncertain, "retry-uncertain", false, "publish a line again when its outcome is unknown: it may then be stored twice")
	c.Flags().IntVar(&flags.sample, "sample", 0, "publish `N` made-up orders a second, with their customers as keys, instead of an input")
	return c
}

func atMostOneFile(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("takes one file, or - for standard input, got %q", args)
	}
	return nil
}

func (a App) runProduce(ctx context.Context, args []string, flags *produceFlags) error {
	if err := flags.check(a); err != nil {
		return err
	}
	if flags.timeout <= 0 {
		return usagef("--timeout must be longer than nothing, got %s", flags.timeout)
	}
	if err := flags.checkSample(args); err != nil {
		return err
	}
	logger, err := a.newLogger(config.Log{Level: flags.logLevel, Format: "auto"})
	if err != nil {
		return err
	}
	input, size, err := a.openInput(ctx, args, flags)
	if err != nil {
		return err
	}
	//nolint:contextcheck // the producer's own context ends with Close
	p, err := producer.New(producer.Config{
		Coordinators:   flags.coordinators,
		Credentials:    producer.BasicAuth(flags.username, flags.password.Reveal()),
		Stream:         flags.stream,
		Redis:          flags.redisAt.options(),
		OmitKeyField:   flags.keyField == "",
		RetryUncertain: flags.retryUncertain,
		Logger:         logger,
	})
	if err != nil {
		return errors.Join(&usageError{err: err}, input.Close())
	}
	run := &production{flags: flags, producer: p, stderr: a.Stderr, progress: a.newProgress(flags.stream, size), started: time.Now()}
	reading := ctx
	if flags.sample > 0 { // which ends by itself with ctx, and that is no interruption
		reading = context.WithoutCancel(ctx)
	}
	err = run.all(reading, input)
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	return errors.Join(err, p.Close(closing), input.Close())
}

// checkSample completes what --sample says, or refuses it.
func (f *produceFlags) checkSample(args []string) error {
	switch {
	case f.sample < 0 || f.sample > maxSampleRate:
		return usagef("--sample takes up to %d a second, got %d", maxSampleRate, f.sample)
	case f.sample > 0 && len(args) > 0:
		return usagef("--sample takes the place of an input, leave %q out", args[0])
	case f.sample > 0 && f.keyField == "":
		f.keyField = sampleKeyField
	}
	return nil
}

// openInput opens the file, standard input, or the sample that ends with ctx, and
// returns its size, -1 when it is not known.
func (a App) openInput(ctx context.Context, args []string, flags *produceFlags) (io.ReadCloser, int64, error) {
	if flags.sample > 0 {
		return newSampleOrders(ctx.Done(), flags.sample), -1, nil
	}
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(a.Stdin), -1, nil
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	if info.IsDir() {
		return nil, 0, errors.Join(usagef("%s is a folder, give a file", args[0]), f.Close())
	}
	if !info.Mode().IsRegular() {
		return f, -1, nil
	}
	return f, info.Size(), nil
}

// production is one run of `rsc produce`.
type production struct {
	flags    *produceFlags
	producer batchPublisher
	stderr   io.Writer
	progress progress
	started  time.Time

	read      int64
	stored    int64
	failed    lineNumbers
	uncertain lineNumbers
	// shown counts the failures told in full, lastShown is the latest.
	shown     int
	lastShown string
}

// batchPublisher is what a production needs of a producer.
type batchPublisher interface {
	PublishBatch(ctx context.Context, messages []producer.Message) ([]producer.Result, error)
}

// all publishes the whole input and reports. Errors: whatever kept a line from
// being stored for certain.
func (p *production) all(ctx context.Context, input io.Reader) error {
	reading, stopReading := context.WithCancelCause(ctx)
	defer stopReading(nil)
	batches := make(chan []line, batchesAhead)
	readErr := make(chan error, 1)
	// It is not waited for when this ends early: it may sit in a read of a
	// terminal, which nothing can break off. It ends with the process.
	go func() { readErr <- readLines(reading, input, batches) }()

	err := p.publish(ctx, batches)
	if err == nil {
		select {
		case err = <-readErr:
		case <-ctx.Done():
			err = errInterrupted
		}
	}
	p.progress.end()
	p.report()
	if err == nil && p.failed.count+p.uncertain.count > 0 {
		err = fmt.Errorf("%d of %d lines are not known to be stored", p.failed.count+p.uncertain.count, p.read)
	}
	return err
}

// publish publishes batch after batch until there are no more, ctx ends, or a
// whole batch fails for a reason that would make the next one fail too.
func (p *production) publish(ctx context.Context, batches <-chan []line) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case batch, more := <-batches:
			if !more {
				return nil
			}
			if err := p.publishBatch(ctx, batch); err != nil {
				return err
			}
		}
	}
}

// publishBatch publishes lines and counts what became of them. It is not broken
// off by ctx, so that no outcome is made unknown.
func (p *production) publishBatch(ctx context.Context, batch []line) error {
	messages := make([]producer.Message, 0, len(batch))
	numbers := make([]int64, 0, len(batch))
	for _, l := range batch {
		p.read++
		m, err := messageOf(l, p.flags.keyField)
		if err != nil {
			p.fail(l.number, err)
			continue
		}
		messages, numbers = append(messages, m), append(numbers, l.number)
	}
	if len(messages) == 0 {
		return nil
	}
	publishing, done := context.WithTimeout(context.WithoutCancel(ctx), p.flags.timeout)
	defer done()
	results, err := p.producer.PublishBatch(publishing, messages)
	if results == nil && err != nil {
		return fmt.Errorf("publish from line %d on: %w", numbers[0], err)
	}
	p.progress.advance(int64(len(batch)), batch[len(batch)-1].end)
	return p.count(numbers, results)
}

// count takes the results of a batch. Errors: no line was stored, and not for a
// reason of its own.
func (p *production) count(numbers []int64, results []producer.Result) error {
	stored := p.stored
	var hopeless error
	for i, r := range results {
		var e *producer.PublishError
		switch {
		case r.Err == nil:
			p.stored++
		case errors.As(r.Err, &e) && e.Outcome == producer.Unknown:
			p.uncertain.add(numbers[i])
			p.show(numbers[i], r.Err)
			hopeless = cmpOr(hopeless, r.Err)
		default:
			p.fail(numbers[i], r.Err)
			if !errors.Is(r.Err, producer.ErrInvalidMessage) && !errors.Is(r.Err, producer.ErrMessageTooLarge) {
				hopeless = cmpOr(hopeless, r.Err)
			}
		}
	}
	if p.stored == stored && hopeless != nil {
		return fmt.Errorf("gave up at line %d, the lines after it were not read: %w", numbers[len(numbers)-1], hopeless)
	}
	return nil
}

func cmpOr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

func (p *production) fail(number int64, err error) {
	p.failed.add(number)
	p.show(number, err)
}

// show tells the first failures in full, and one that repeats itself once.
func (p *production) show(number int64, err error) {
	if err.Error() == p.lastShown {
		return
	}
	p.lastShown = err.Error()
	p.shown++
	switch {
	case p.shown <= shownFailures:
		p.progress.clear()
		fmt.Fprintf(p.stderr, "line %d: %v\n", number, err)
	case p.shown == shownFailures+1:
		p.progress.clear()
		fmt.Fprintln(p.stderr, "further failures are only listed at the end")
	}
}

// report sums up: which lines failed, and the last line, which counts.
func (p *production) report() {
	if p.failed.count > 0 {
		fmt.Fprintf(p.stderr, "not stored: lines %s\n", &p.failed)
	}
	if p.uncertain.count > 0 {
		fmt.Fprintf(p.stderr, "uncertain, stored or not: lines %s\n", &p.uncertain)
	}
	took := time.Since(p.started)
	fmt.Fprintf(p.stderr, "produce: read=%d stored=%d uncertain=%d failed=%d seconds=%.1f rate=%.0f/s\n",
		p.read, p.stored, p.uncertain.count, p.failed.count, took.Seconds(), float64(p.stored)/max(took.Seconds(), 1e-9))
}
