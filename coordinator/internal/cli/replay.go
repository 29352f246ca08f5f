package cli

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/coordinator/internal/config"
	"github.com/redis-stream-coordinator/rsc/producer"
)

const (
	// replayLetters and replayBytes bound what is published at a time.
	replayLetters = 100
	replayBytes   = 8 << 20
	// replayMessageBytes is the largest record that is published: as large as a
	// producer may write.
	replayMessageBytes = 64 << 20
	// maxRemembered bounds the records that are remembered, so that one that lies
	// there twice is published once.
	maxRemembered = 100_000
	// removeTimeout bounds the removal of what was published.
	removeTimeout = 10 * time.Second
)

var errReplayInterrupted = errors.New("interrupted: the other dead letters were left where they are")

// replayFlags is what `rsc dlq replay` is told.
type replayFlags struct {
	dlqFlags
	all     bool
	shard   int
	dryRun  bool
	timeout time.Duration
}

func newDLQReplay(a App) *cobra.Command {
	var flags replayFlags
	c := &cobra.Command{
		Use:   "replay [id…]",
		Short: "Publish dead letters again",
		Long: "Publishes dead letters as new records of their stream, by the present routing: each\n" +
			"goes to the shard of its key, whatever shard it came from, and every group of the\n" +
			"stream gets it. The record has its own fields, and rsc-replayed with the id of the\n" +
			"dead letter. A dead letter is removed once its record is confirmed.\n\n" +
			"If the command ends between the two, or two of them run at the same time, a record\n" +
			"may be published twice, both with the same rsc-replayed; none is lost. One that lies\n" +
			"there twice is published once. Those that come in while --all runs are left.\n\n" +
			"Exit code 1: at least one dead letter is still there.",
		Example: "  rsc dlq replay --stream orders 1700000000000-0\n" +
			"  rsc dlq replay --stream orders --all --dry-run\n" +
			"  rsc dlq replay --stream orders --all --shard 3",
		RunE: func(c *cobra.Command, args []string) error { return a.runDLQReplay(c.Context(), args, &flags) },
	}
	flags.connection.flags(a, c, "warn")
	c.Flags().BoolVar(&flags.all, "all", false, "all dead letters of the stream")
	c.Flags().IntVar(&flags.shard, "shard", -1, "with --all, only records of the shard with this `index`")
	c.Flags().BoolVar(&flags.dryRun, "dry-run", false, "only tell what would be published")
	c.Flags().DurationVar(&flags.timeout, "timeout", 30*time.Second, "how long up to 100 records may take to be stored before they count as failed")
	return c
}

func (f *replayFlags) checkArgs(ids []string) error {
	switch {
	case f.all && len(ids) > 0:
		return usagef("takes ids or --all, not both")
	case !f.all && len(ids) == 0:
		return usagef("needs the ids of dead letters, as rsc dlq list shows them, or --all")
	case !f.all && f.shard >= 0:
		return usagef("--shard goes with --all")
	case f.timeout <= 0:
		return usagef("--timeout must be longer than nothing, got %s", f.timeout)
	}
	return nil
}

func (a App) runDLQReplay(ctx context.Context, ids []string, flags *replayFlags) error {
	if err := flags.checkArgs(ids); err != nil {
		return err
	}
	letters, err := a.openDeadLetters(ctx, &flags.dlqFlags)
	if err != nil {
		return err
	}
	return errors.Join(a.replay(ctx, letters, ids, flags), letters.close())
}

func (a App) replay(ctx context.Context, letters *deadLetters, ids []string, flags *replayFlags) error {
	r := &replay{
		letters: letters, key: letters.key, timeout: flags.timeout, stderr: a.Stderr,
		published: map[identity]bool{},
	}
	source := letters.named(ctx, ids)
	if flags.all {
		_, last, err := letters.state(ctx)
		if err != nil {
			return err
		}
		source = letters.upTo(ctx, last, flags.shard)
	}
	if flags.dryRun {
		return r.tell(source, a.Stdout)
	}
	logger, err := a.newLogger(config.Log{Level: flags.logLevel, Format: "auto"})
	if err != nil {
		return err
	}
	//nolint:contextcheck // the producer's own context ends with Close
	p, err := producer.New(producer.Config{
		Coordinators:    flags.coordinators,
		Credentials:     producer.BasicAuth(flags.username, flags.password.Reveal()),
		Stream:          flags.stream,
		Redis:           flags.redisAt.options(),
		OmitKeyField:    true, // it is among the record's own fields
		MaxMessageBytes: replayMessageBytes,
		Logger:          logger,
	})
	if err != nil {
		return &usageError{err: err}
	}
	r.producer = p
	err = r.run(ctx, source)
	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	return errors.Join(err, p.Close(closing))
}

// upTo gives the dead letters up to an id, or those of one shard among them.
func (d *deadLetters) upTo(ctx context.Context, last string, shard int) iter.Seq2[deadLetter, error] {
	return func(yield func(deadLetter, error) bool) {
		if last == "" {
			return // there has never been any
		}
		for e, err := range d.Entries(ctx, d.key, "", last) {
			letter := readDeadLetter(e)
			if err == nil && shard >= 0 && letter.shard != shard {
				continue
			}
			if !yield(letter, err) {
				return
			}
		}
	}
}

// named gives the dead letters with these ids. One that is not there is an error
// of its own, and not the last.
func (d *deadLetters) named(ctx context.Context, ids []string) iter.Seq2[deadLetter, error] {
	return func(yield func(deadLetter, error) bool) {
		for _, id := range ids {
			e, found, err := d.Entry(ctx, d.key, id)
			if err == nil && !found {
				err = errNoLetter(d.key, id)
			}
			if !yield(readDeadLetter(e), err) {
				return
			}
		}
	}
}

// remover takes dead letters away.
type remover interface {
	Delete(ctx context.Context, key string, ids ...string) (int64, error)
}

// replay is one run of `rsc dlq replay`.
type replay struct {
	letters  remover
	key      string
	producer batchPublisher
	timeout  time.Duration
	stderr   io.Writer

	// published has the records that were published.
	published map[identity]bool

	read, replayed, twice, failed, uncertain, kept int64
}

// tell says what would be published.
func (r *replay) tell(source iter.Seq2[deadLetter, error], out io.Writer) error {
	table := newLetterTable(out)
	var failures []error
	for d, err := range source {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		r.read++
		if err := table.add(&d); err != nil {
			return err
		}
	}
	if err := table.end(); err != nil {
		return err
	}
	fmt.Fprintf(r.stderr, "replay: would publish %d dead letters\n", r.read)
	return errors.Join(failures...)
}

// run publishes what source gives, and reports.
func (r *replay) run(ctx context.Context, source iter.Seq2[deadLetter, error]) error {
	err := r.all(ctx, source)
	fmt.Fprintf(r.stderr, "replay: read=%d replayed=%d twice=%d uncertain=%d failed=%d kept=%d\n", r.read, r.replayed, r.twice, r.uncertain, r.failed, r.kept)
	if left := r.failed + r.uncertain + r.kept; err == nil && left > 0 {
		err = fmt.Errorf("%d of %d dead letters are still there", left, r.read)
	}
	return err
}

func (r *replay) all(ctx context.Context, source iter.Seq2[deadLetter, error]) error {
	var batch []deadLetter
	bytes := 0
	for d, err := range source {
		if ctx.Err() != nil {
			return errReplayInterrupted
		}
		r.read++
		if err != nil {
			r.failed++
			fmt.Fprintln(r.stderr, err)
			continue
		}
		size := 0
		for _, f := range d.fields {
			size += len(f.Name) + len(f.Value)
		}
		if len(batch) == replayLetters || len(batch) > 0 && bytes+size > replayBytes {
			if err := r.publish(ctx, batch); err != nil {
				return err
			}
			batch, bytes = batch[:0], 0
		}
		batch, bytes = append(batch, d), bytes+size
	}
	if len(batch) == 0 {
		return nil
	}
	if ctx.Err() != nil {
		return errReplayInterrupted
	}
	return r.publish(ctx, batch)
}

// publish publishes a batch and removes what was stored. It is not broken off by
// ctx, so that nothing that was stored is left in place.
func (r *replay) publish(ctx context.Context, batch []deadLetter) error {
	ctx = context.WithoutCancel(ctx)
	if len(r.published)+len(batch) > maxRemembered {
		clear(r.published)
	}
	var first, again []*deadLetter
	here := map[identity]bool{}
	for i := range batch {
		d := &batch[i]
		if len(d.fields) == 0 {
			r.failed++
			fmt.Fprintf(r.stderr, "dead letter %s: there is no record in it\n", d.id)
		} else if id := d.identity(); r.published[id] || here[id] {
			again = append(again, d)
		} else {
			here[id] = true
			first = append(first, d)
		}
	}
	stored, err := r.send(ctx, first)
	for _, d := range again {
		if r.published[d.identity()] {
			r.twice++
			stored = append(stored, d.id)
		} else {
			r.failed++ // like the first of its kind
		}
	}
	return errors.Join(err, r.remove(ctx, stored))
}

// send publishes the records of dead letters and returns the ids of those whose
// records are stored for certain.
// Errors: nothing was stored, and not for reasons of the records.
func (r *replay) send(ctx context.Context, letters []*deadLetter) (stored []string, err error) {
	if len(letters) == 0 {
		return nil, nil
	}
	messages := make([]producer.Message, len(letters))
	for i, d := range letters {
		messages[i] = d.message()
	}
	ctx, done := context.WithTimeout(ctx, r.timeout)
	defer done()
	results, err := r.producer.PublishBatch(ctx, messages)
	if results == nil && err != nil {
		r.failed += int64(len(letters))
		return nil, fmt.Errorf("publish: %w", err)
	}
	var hopeless error
	for i, result := range results {
		d := letters[i]
		var e *producer.PublishError
		switch {
		case result.Err == nil:
			r.replayed++
			stored = append(stored, d.id)
			r.published[d.identity()] = true
		case errors.As(result.Err, &e) && e.Outcome == producer.Unknown:
			r.uncertain++
			hopeless = result.Err
			fmt.Fprintf(r.stderr, "dead letter %s: %v: it is left where it is\n", d.id, result.Err)
		default:
			r.failed++
			if !errors.Is(result.Err, producer.ErrInvalidMessage) && !errors.Is(result.Err, producer.ErrMessageTooLarge) {
				hopeless = result.Err
			}
			fmt.Fprintf(r.stderr, "dead letter %s: %v\n", d.id, result.Err)
		}
	}
	if len(stored) == 0 && hopeless != nil {
		return nil, fmt.Errorf("gave up at dead letter %s: %w", letters[len(letters)-1].id, hopeless)
	}
	return stored, nil
}

// remove takes away the dead letters whose records are stored.
func (r *replay) remove(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	ctx, done := context.WithTimeout(ctx, removeTimeout)
	defer done()
	n, err := r.letters.Delete(ctx, r.key, ids...)
	if err != nil {
		r.kept += int64(len(ids))
		return fmt.Errorf("published, and perhaps not removed, so that another replay publishes it twice: %s: %w", strings.Join(ids, " "), err)
	}
	if gone := int64(len(ids)) - n; gone > 0 {
		fmt.Fprintf(r.stderr, "%d dead letters were removed by somebody else meanwhile: their records may have been published twice\n", gone)
	}
	return nil
}

// identity is a hash of which record a dead letter was, and of what is in it.
type identity [sha256.Size]byte

func (d *deadLetter) identity() (id identity) {
	h := sha256.New()
	if d.shard < 0 || d.record == "" {
		fmt.Fprintf(h, "entry %s\n", d.id)
	} else {
		fmt.Fprintf(h, "record %d %q\n", d.shard, d.record)
	}
	for _, f := range d.fields {
		fmt.Fprintf(h, "%d %s %d %s\n", len(f.Name), f.Name, len(f.Value), f.Value)
	}
	h.Sum(id[:0])
	return id
}
