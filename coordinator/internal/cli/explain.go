package cli

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// explainFlags is what `rsc explain` is told.
type explainFlags struct {
	groupsFlags
	shard int
}

func newExplain(a App) *cobra.Command {
	var flags explainFlags
	c := &cobra.Command{
		Use:   "explain",
		Short: "Say who reads a shard, who should, and what is waited for",
		Long: "Says who may be reading a shard, who should, what is waited for, since when, and what\n" +
			"ends it. Without --shard it goes through all shards of the group and shows those\n" +
			"that are not read as they should be.",
		Example: "  rsc explain --stream orders --group billing\n  rsc explain --stream orders --group billing --shard 3",
		Args:    noArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return flags.run(c.Context()) },
	}
	flags.flags(a, c)
	flags.names(c)
	c.Flags().IntVar(&flags.shard, "shard", -1, "index of the shard (default: all that are not as they should be)")
	return c
}

func (f *explainFlags) run(ctx context.Context) error {
	if err := f.beginGroup(); err != nil {
		return err
	}
	if f.shard >= 0 {
		x, told, err := f.explain(ctx, f.shard)
		if err != nil {
			return err
		}
		return f.show(told, func(w *tableWriter) { explanation(w, &x) })
	}
	var list protocol.ExplanationList
	told, err := f.call(ctx, http.MethodGet, "/monitoring"+groupPath(f.stream, f.group)+"/explain", nil, &list)
	if err != nil {
		return err
	}
	return f.show(told, func(w *tableWriter) {
		if list.SettledShards == list.ShardCount {
			w.line("All %d shards of %s are read as they should be.", list.ShardCount, f.stream)
			return
		}
		w.row("SHARD", "CAUSE", "HOLDER", "TARGET", "SINCE", "ENDS BY", "WHAT")
		for i := range list.Shards {
			x := &list.Shards[i]
			w.row(x.ShardIndex, x.Cause, holderOf(x), targetOf(x), ago(x.Since), until(x.EndsBy), x.Summary)
		}
	})
}

func (f *explainFlags) explain(ctx context.Context, shard int) (x protocol.Explanation, told []byte, err error) {
	told, err = f.call(ctx, http.MethodGet, "/monitoring"+groupPath(f.stream, f.group)+path("shards", strconv.Itoa(shard), "explain"), nil, &x)
	return x, told, err
}

func holderOf(x *protocol.Explanation) string {
	if x.Holder == nil {
		return ""
	}
	return x.Holder.MemberID
}

func targetOf(x *protocol.Explanation) string {
	if x.Target == nil {
		return ""
	}
	return x.Target.MemberID
}

// until is how long it is to a time, by this machine's clock.
func until(at *time.Time) string {
	switch {
	case at == nil:
		return ""
	case time.Until(*at) <= 0:
		return "now"
	}
	return "in " + short(time.Until(*at))
}

// explanation shows everything about one shard.
func explanation(w *tableWriter, x *protocol.Explanation) {
	w.line("%s, group %s: %s", x.StreamKey, x.ConsumerGroup, x.Summary)
	w.row("cause", x.Cause)
	if x.Since != nil {
		exactly := ""
		if !x.SinceExact {
			exactly = ", or longer"
		}
		w.row("since", fmt.Sprintf("%s (%s%s)", x.Since.Format(time.RFC3339), ago(x.Since), exactly))
	}
	w.row("ends when", x.EndsWhen)
	w.row("ends by", until(x.EndsBy))
	w.row("target", targetOf(x))
	w.row("holder", holderOf(x))
	if h := x.Holder; h != nil {
		w.row("holder's state", h.State)
		w.row("fencing token", h.GrantEpoch)
		w.row("says it reads", yes(h.SaysItReads))
		w.row("in flight", h.InFlight)
		w.row("last heartbeat", ago(h.LastHeartbeatAt))
		w.row("lease ends", until(h.MemberLeaseExpiresAt))
	}
	if r := x.Records; r != nil {
		switch {
		case r.Error != nil:
			w.row("redis", *r.Error)
		case !r.Exists:
			w.row("redis", "the key is missing")
		case !r.GroupExists:
			w.row("redis", "the consumer group is missing")
		default:
			w.row("records", r.Length)
			w.row("lag", orUnknown(r.Lag))
			w.row("pending", r.Pending)
		}
	}
}

func newRepair(a App) *cobra.Command {
	var flags operator
	c := &cobra.Command{
		Use:   "repair",
		Short: "Make the coordinator's lists of streams and groups anew",
		Long: "Looks at all records of the metadata store and makes its index name them, and nothing\n" +
			"else. It is for streams or groups that are missing from lists, after a Redis Cluster\n" +
			"has lost a server. It may run at any time, and again.",
		Example: "  rsc repair --reason \"orders is missing from rsc streams\"",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.begin(reasonFlag(flags.reason)); err != nil {
				return err
			}
			var done protocol.IndexRepair
			told, err := flags.call(c.Context(), http.MethodPost, "/repair/index", protocol.Order{RequestedBy: flags.by, Reason: flags.reason}, &done)
			if err != nil {
				return err
			}
			return flags.show(told, func(w *tableWriter) {
				w.row("ADDED", "REMOVED")
				w.row(done.Added, done.Removed)
			})
		},
	}
	flags.flags(a, c)
	flags.orderFlags(c, true)
	return c
}
