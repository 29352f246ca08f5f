package cli

import (
	"context"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// streamsFlags is what the commands of streams are told.
type streamsFlags struct {
	operator
	stream     string
	shards     int
	start      string
	manual     bool
	deleteData bool
}

func newStreams(a App) *cobra.Command {
	var flags streamsFlags
	c := &cobra.Command{
		Use:     "streams",
		Short:   "List streams, show, create and delete them",
		Long:    "Lists the streams. With a command after it, shows, creates or deletes one.",
		Example: "  rsc streams\n  rsc streams create --stream orders --shards 8\n  rsc streams show --stream orders -o json",
		Args:    noArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return flags.list(c.Context()) },
	}
	flags.flags(a, c)
	c.AddCommand(newStreamsShow(a), newStreamsCreate(a), newStreamsDelete(a))
	return c
}

func (f *streamsFlags) list(ctx context.Context) error {
	if err := f.begin(); err != nil {
		return err
	}
	var list protocol.StreamList
	told, err := f.call(ctx, http.MethodGet, "/streams", nil, &list)
	if err != nil {
		return err
	}
	return f.show(told, func(w *tableWriter) { streamTable(w, list.Streams) })
}

func streamTable(w *tableWriter, streams []protocol.Stream) {
	w.row("STREAM", "SHARDS", "GROUPS", "PROVISIONED", "GROUPS START", "GROUPS BY JOIN", "CREATED")
	for i := range streams {
		s := &streams[i]
		w.row(s.StreamPrefix, s.ShardCount, strings.Join(s.Groups, ","), yes(s.Provisioned), s.GroupStart, yes(s.AutoCreateGroups), ago(&s.CreatedAt))
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func newStreamsShow(a App) *cobra.Command {
	var flags streamsFlags
	c := &cobra.Command{
		Use: "show", Short: "Show one stream", Example: "  rsc streams show --stream orders", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return flags.one(c.Context(), http.MethodGet, nil) },
	}
	flags.flags(a, c)
	c.Flags().StringVar(&flags.stream, "stream", "", "prefix of the stream's keys (needed)")
	return c
}

// one makes a call on the stream and shows it.
func (f *streamsFlags) one(ctx context.Context, method string, body any, more ...flagValue) error {
	if err := f.begin(append(more, streamFlag(f.stream))...); err != nil {
		return err
	}
	var s protocol.Stream
	told, err := f.call(ctx, method, path("streams", f.stream), body, &s)
	if err != nil {
		return err
	}
	return f.show(told, func(w *tableWriter) { streamTable(w, []protocol.Stream{s}) })
}

func newStreamsCreate(a App) *cobra.Command {
	var flags streamsFlags
	c := &cobra.Command{
		Use: "create", Short: "Create a stream with its shards", Example: "  rsc streams create --stream orders --shards 8", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return flags.create(c.Context()) },
	}
	flags.flags(a, c)
	flags.orderFlags(c, false)
	c.Flags().StringVar(&flags.stream, "stream", "", "prefix of the stream's keys (needed)")
	c.Flags().IntVar(&flags.shards, "shards", 0, "number of shards (default: the coordinator's)")
	c.Flags().StringVar(&flags.start, "group-start", "", "where new groups begin: earliest or latest (default earliest)")
	c.Flags().BoolVar(&flags.manual, "no-groups-by-join", false, "a member's join does not create its group")
	return c
}

func (f *streamsFlags) create(ctx context.Context) error {
	if err := f.begin(streamFlag(f.stream)); err != nil {
		return err
	}
	body := protocol.CreateStream{GroupStart: protocol.GroupStart(f.start), RequestedBy: f.by, Reason: f.reason}
	if f.shards != 0 {
		body.InitialShardCount = &f.shards
	}
	if f.manual {
		body.AutoCreateGroups = new(bool)
	}
	var created protocol.StreamCreated
	told, err := f.call(ctx, http.MethodPost, path("streams", f.stream), &body, &created)
	if err != nil {
		return err
	}
	return f.show(told, func(w *tableWriter) {
		w.row("STREAM", "SHARDS", "VERSION")
		w.row(created.StreamPrefix, created.ShardCount, created.MetadataVersion)
	})
}

func newStreamsDelete(a App) *cobra.Command {
	var flags streamsFlags
	c := &cobra.Command{
		Use: "delete", Short: "Delete a stream that has no groups",
		Long: "Deletes a stream that has no groups any more, and shows it as it was. The records\n" +
			"stay in Redis, unless --data says otherwise.",
		Example: "  rsc streams delete --stream orders --reason \"moved to orders2\"", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			body := protocol.Delete{RequestedBy: flags.by, Reason: flags.reason, DeleteData: flags.deleteData}
			return flags.one(c.Context(), http.MethodDelete, &body, reasonFlag(flags.reason))
		},
	}
	flags.flags(a, c)
	flags.orderFlags(c, true)
	c.Flags().StringVar(&flags.stream, "stream", "", "prefix of the stream's keys (needed)")
	c.Flags().BoolVar(&flags.deleteData, "data", false, "remove the shards with all their records as well")
	return c
}
