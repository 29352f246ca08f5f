package cli

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// scaleFlags is what the commands that change a shard count are told.
type scaleFlags struct {
	operator
	stream string
	to     int
	id     string
	group  string
	shards []int
	wait   time.Duration
}

const (
	// scalePoll is the time between two looks at a change of the shard count.
	scalePoll = 500 * time.Millisecond
	// shownBlockers bounds the lines of what a change waits for.
	shownBlockers = 10
)

// scaleCommand makes a command on one stream.
func scaleCommand(a App, flags *scaleFlags, c *cobra.Command, order bool) *cobra.Command {
	c.Args = noArguments
	flags.flags(a, c)
	c.Flags().StringVar(&flags.stream, "stream", "", "prefix of the stream's keys (needed)")
	if order {
		flags.orderFlags(c, true)
	}
	return c
}

func newScale(a App) *cobra.Command {
	var flags scaleFlags
	c := scaleCommand(a, &flags, &cobra.Command{
		Use:   "scale",
		Short: "Change the shard count of a stream while it is in use",
		Long: "Changes the number of shards. Producers are sent to the new ones at once; shards that\n" +
			"are removed are read until they are empty, and go then. The command shows how far that\n" +
			"is, and what it waits for; it goes on by itself when the command is stopped.",
		Example: "  rsc scale --stream orders --to 16 --reason \"more traffic\"\n  rsc scale --stream orders --to 4 --reason \"less traffic\" --wait 10m",
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("to") {
				return usagef("--to is needed: the number of shards to come, such as --to 16")
			}
			return flags.scale(c.Context())
		},
	}, true)
	c.Flags().IntVar(&flags.to, "to", 0, "number of shards to come; 0 stops all writing (needed)")
	c.Flags().DurationVar(&flags.wait, "wait", time.Hour, "follow the change for so long; 0 for not at all")
	return c
}

func (f *scaleFlags) scale(ctx context.Context) error {
	if err := f.begin(streamFlag(f.stream), reasonFlag(f.reason)); err != nil {
		return err
	}
	var scaled protocol.StreamScaled
	body := protocol.Scale{TargetShardCount: &f.to, RequestedBy: f.by, Reason: f.reason}
	if _, err := f.call(ctx, http.MethodPost, path("streams", f.stream, "scale"), &body, &scaled); err != nil {
		return err
	}
	if len(scaled.Migrations) == 0 {
		return fmt.Errorf("the coordinator names no change of stream %s", f.stream)
	}
	return f.follow(ctx, scaled.Migrations[0].ReshardingID)
}

func newRollback(a App) *cobra.Command {
	var flags scaleFlags
	c := scaleCommand(a, &flags, &cobra.Command{
		Use:   "rollback",
		Short: "Take a change of the shard count back",
		Long: "Sends producers back to the shards of before. What was written to shards that go is\n" +
			"read to its end. Possible until the change is done; without --id the one under way.",
		Example: "  rsc rollback --stream orders --reason \"too few consumers\"",
		RunE:    func(c *cobra.Command, _ []string) error { return flags.rollback(c.Context()) },
	}, true)
	c.Flags().StringVar(&flags.id, "id", "", "the change, as rsc migrations lists it")
	c.Flags().DurationVar(&flags.wait, "wait", time.Hour, "follow the change for so long; 0 for not at all")
	return c
}

func (f *scaleFlags) rollback(ctx context.Context) error {
	if err := f.begin(streamFlag(f.stream), reasonFlag(f.reason)); err != nil {
		return err
	}
	if f.id == "" {
		var list protocol.MigrationList
		if _, err := f.call(ctx, http.MethodGet, path("streams", f.stream, "migrations"), nil, &list); err != nil {
			return err
		}
		if len(list.Migrations) == 0 || over(&list.Migrations[0]) {
			return fmt.Errorf("the shard count of stream %s is not being changed: rsc migrations lists what was", f.stream)
		}
		f.id = list.Migrations[0].ReshardingID
	}
	var m protocol.Migration
	body := protocol.Order{RequestedBy: f.by, Reason: f.reason}
	if _, err := f.call(ctx, http.MethodPost, path("streams", f.stream, "migrations", f.id, "rollback"), &body, &m); err != nil {
		return err
	}
	return f.follow(ctx, f.id)
}

// over reports whether nothing of a change is left to be done.
func over(m *protocol.Migration) bool {
	return m.Draining == 0 && (m.State == protocol.MigrationDeprecated || m.State == protocol.MigrationRolledBack)
}

// follow shows how far a change is until it is done.
func (f *scaleFlags) follow(ctx context.Context, id string) error {
	if id == protocol.NoMigration {
		_, err := fmt.Fprintf(f.app.Stdout, "stream %s has that many shards already\n", plain(f.stream))
		return err
	}
	if f.wait > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeoutCause(ctx, f.wait, fmt.Errorf("the change is not done after %s; it goes on by itself, see rsc migrations", f.wait))
		defer done()
	}
	watch := drainWatch{}
	tick := time.NewTicker(scalePoll)
	defer tick.Stop()
	for {
		var m protocol.Migration
		told, err := f.call(ctx, http.MethodGet, path("streams", f.stream, "migrations", id), nil, &m)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err == nil {
			if over(&m) || f.wait == 0 {
				return f.show(told, func(w *tableWriter) { migrationTable(w, []protocol.Migration{m}) })
			}
			if line, news := watch.line(&m, time.Now()); news {
				if _, err := fmt.Fprintln(f.app.Stderr, plain(line)); err != nil {
					return err
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drainWatch words how far a change is, and estimates its end.
type drainWatch struct {
	said string
	// since is when the records that were left were first counted.
	since time.Time
	left  int64
}

// line says how a change stands; news is false when that was said before.
func (d *drainWatch) line(m *protocol.Migration, now time.Time) (line string, news bool) {
	line = fmt.Sprintf("%d to %d shards, %s", m.FromShardCount, m.ToShardCount, m.State)
	if m.Draining > 0 {
		line += fmt.Sprintf(": %d shards to be emptied, %d records left", m.Draining, m.RecordsLeft)
	}
	if d.since.IsZero() && m.RecordsLeft > 0 {
		d.since, d.left = now, m.RecordsLeft
	}
	if done, took := d.left-m.RecordsLeft, now.Sub(d.since); done > 0 && m.RecordsLeft > 0 && took > 0 {
		line += fmt.Sprintf(", about %s more", short(time.Duration(float64(took)/float64(done)*float64(m.RecordsLeft))))
	}
	if len(m.BlockedBy) > 0 {
		line += "; waits: " + m.BlockedBy[0].Reason
		if more := len(m.BlockedBy) - 1; more > 0 {
			line += fmt.Sprintf(" (and %d more)", more)
		}
	}
	news = line != d.said
	d.said = line
	return line, news
}

func migrationTable(w *tableWriter, list []protocol.Migration) {
	w.row("ID", "FROM", "TO", "STATE", "DRAINING", "LEFT", "BEGUN", "BY", "REASON")
	for i := range list {
		m := &list[i]
		w.row(m.ReshardingID, m.FromShardCount, m.ToShardCount, m.State, m.Draining, m.RecordsLeft, ago(&m.CreatedAt), m.RequestedBy, m.Reason)
	}
	for i := range list {
		for at, b := range list[i].BlockedBy {
			if at == shownBlockers {
				w.line("%s waits for %d more", list[i].ReshardingID, len(list[i].BlockedBy)-at)
				break
			}
			w.line("%s waits: %s", list[i].ReshardingID, b.Reason)
		}
	}
}

func newMigrations(a App) *cobra.Command {
	var flags scaleFlags
	return scaleCommand(a, &flags, &cobra.Command{
		Use:     "migrations",
		Short:   "List the changes of a stream's shard count, and what they wait for",
		Example: "  rsc migrations --stream orders",
		RunE:    func(c *cobra.Command, _ []string) error { return flags.list(c.Context()) },
	}, false)
}

func (f *scaleFlags) list(ctx context.Context) error {
	if err := f.begin(streamFlag(f.stream)); err != nil {
		return err
	}
	var list protocol.MigrationList
	told, err := f.call(ctx, http.MethodGet, path("streams", f.stream, "migrations"), nil, &list)
	if err != nil {
		return err
	}
	return f.show(told, func(w *tableWriter) { migrationTable(w, list.Migrations) })
}

func newIgnoreGroup(a App) *cobra.Command {
	var flags scaleFlags
	c := scaleCommand(a, &flags, &cobra.Command{
		Use:   "ignore-group",
		Short: "Have removed shards not wait for a consumer group of somebody else",
		Long: "Removed shards wait until every consumer group on them has read and acknowledged all.\n" +
			"One that is not the coordinator's, and that nobody reads with any more, can be ignored\n" +
			"until the change is done. What it did not read is gone then.",
		Example: "  rsc ignore-group --stream orders --group old-tool --reason \"not used any more\"",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.begin(streamFlag(flags.stream), groupFlag(flags.group), reasonFlag(flags.reason)); err != nil {
				return err
			}
			body := protocol.IgnoreGroup{ConsumerGroup: flags.group, Order: protocol.Order{RequestedBy: flags.by, Reason: flags.reason}}
			return flags.overrule(c.Context(), "ignore-group", &body)
		},
	}, true)
	c.Flags().StringVar(&flags.group, "group", "", "the consumer group (needed)")
	return c
}

func newGiveUp(a App) *cobra.Command {
	var flags scaleFlags
	c := scaleCommand(a, &flags, &cobra.Command{
		Use:   "give-up",
		Short: "Remove shards with the records that nobody has read",
		Long: "Has shards that are being removed go with what they still hold: THE RECORDS ARE LOST\n" +
			"to the groups that have not read them. rsc migrations shows which shards are waited for.",
		Example: "  rsc give-up --stream orders --shards 6,7 --reason \"records of a test\"",
		RunE: func(c *cobra.Command, _ []string) error {
			var bad []flagValue
			if len(flags.shards) == 0 {
				bad = append(bad, flagValue{"shards", "", "the shards to be removed, such as --shards 6,7"})
			}
			if err := flags.begin(append(bad, streamFlag(flags.stream), reasonFlag(flags.reason))...); err != nil {
				return err
			}
			body := protocol.GiveUp{Order: protocol.Order{RequestedBy: flags.by, Reason: flags.reason}}
			for _, i := range flags.shards {
				body.Shards = append(body.Shards, protocol.ShardIndex(i))
			}
			return flags.overrule(c.Context(), "give-up", &body)
		},
	}, true)
	c.Flags().IntSliceVar(&flags.shards, "shards", nil, "the shards (needed)")
	return c
}

// overrule tells what removed shards are not to wait for, and shows the changes.
func (f *scaleFlags) overrule(ctx context.Context, what string, body any) error {
	var s protocol.Stream
	if _, err := f.call(ctx, http.MethodPost, path("streams", f.stream, what), body, &s); err != nil {
		return err
	}
	return f.list(ctx)
}
