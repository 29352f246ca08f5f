package cli

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// groupsFlags is what the commands of groups and members are told.
type groupsFlags struct {
	operator
	stream, group string
	shards        int
	force         bool
	deleteData    bool
	heartbeat     time.Duration
	lease         time.Duration
	rebalance     time.Duration
}

// names adds the flags that name a group.
func (f *groupsFlags) names(c *cobra.Command) {
	c.Flags().StringVar(&f.stream, "stream", "", "prefix of the stream's keys (needed)")
	c.Flags().StringVar(&f.group, "group", "", "the consumer group (needed)")
}

func (f *groupsFlags) beginGroup(more ...flagValue) error {
	return f.begin(append([]flagValue{streamFlag(f.stream), groupFlag(f.group)}, more...)...)
}

func newGroups(a App) *cobra.Command {
	var flags groupsFlags
	c := &cobra.Command{
		Use:   "groups",
		Short: "List groups with their backlog, show, create and delete them",
		Long: "Lists the groups with what they have left to do. LAG are the records that no member\n" +
			"was given yet, ? where that is not known. With a command after it, shows, creates or\n" +
			"deletes one, or changes what it lives by.",
		Example: "  rsc groups\n  rsc groups --stream orders -o json\n  rsc groups timings --stream orders --group billing --lease 30s --reason \"slow network\"",
		Args:    noArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return flags.list(c.Context()) },
	}
	flags.flags(a, c)
	c.Flags().StringVar(&flags.stream, "stream", "", "only groups of this stream")
	c.AddCommand(newGroupsShow(a), newGroupsCreate(a), newGroupsDelete(a), newGroupsTimings(a))
	return c
}

// groupRow is a group as the rows for dashboards have it.
type groupRow struct {
	protocol.Group
	ActiveMembers          int    `json:"activeMembers"`
	AssignedShardRatio     string `json:"assignedShardRatio"`
	RevokingShards         int    `json:"revokingShards"`
	TotalPendingCount      *int64 `json:"totalPendingCount"`
	TotalLag               *int64 `json:"totalLag"`
	OldestUndeliveredAgeMs *int64 `json:"oldestUndeliveredAgeMs"`
}

func (f *groupsFlags) list(ctx context.Context) error {
	if err := f.begin(); err != nil {
		return err
	}
	if f.output == outputJSON {
		var list protocol.GroupList
		told, err := f.call(ctx, http.MethodGet, "/monitoring/groups", nil, &list)
		if err != nil {
			return err
		}
		return f.show(told, nil)
	}
	var rows []groupRow
	told, err := f.call(ctx, http.MethodGet, "/monitoring/grafana/groups", nil, &rows)
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r groupRow) bool { return f.stream != "" && r.StreamPrefix != f.stream })
	return f.show(told, func(w *tableWriter) {
		w.row("STREAM", "GROUP", "STATE", "MEMBERS", "SHARDS", "REVOKING", "LAG", "PENDING", "OLDEST")
		for i := range rows {
			r := &rows[i]
			oldest := ""
			if ms := r.OldestUndeliveredAgeMs; ms != nil {
				oldest = short(time.Duration(*ms) * time.Millisecond)
			}
			w.row(r.StreamPrefix, r.ConsumerGroup, r.State, r.ActiveMembers, r.AssignedShardRatio, r.RevokingShards, orUnknown(r.TotalLag), orUnknown(r.TotalPendingCount), oldest)
		}
	})
}

func groupTable(w *tableWriter, g *protocol.Group) {
	w.row("STREAM", "GROUP", "STATE", "SHARDS", "EPOCH", "MEMBERS")
	w.row(g.StreamPrefix, g.ConsumerGroup, g.State, g.ShardCount, g.GroupEpoch, len(g.TargetAssignmentSummary))
}

// one makes a call on the group and shows it.
func (f *groupsFlags) one(ctx context.Context, method string, body any, more ...flagValue) error {
	if err := f.beginGroup(more...); err != nil {
		return err
	}
	var g protocol.Group
	told, err := f.call(ctx, method, groupPath(f.stream, f.group), body, &g)
	if err != nil {
		return err
	}
	return f.show(told, func(w *tableWriter) { groupTable(w, &g) })
}

func newGroupsShow(a App) *cobra.Command {
	var flags groupsFlags
	c := &cobra.Command{
		Use: "show", Short: "Show one group with its shards", Example: "  rsc groups show --stream orders --group billing", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return flags.offsets(c.Context()) },
	}
	flags.flags(a, c)
	flags.names(c)
	return c
}

// offsets shows how far the group has come in each shard.
func (f *groupsFlags) offsets(ctx context.Context) error {
	if err := f.beginGroup(); err != nil {
		return err
	}
	var all protocol.Offsets
	told, err := f.call(ctx, http.MethodGet, "/monitoring"+groupPath(f.stream, f.group)+"/offsets", nil, &all)
	if err != nil {
		return err
	}
	return f.show(told, func(w *tableWriter) {
		w.row("SHARD", "OWNER", "LENGTH", "LAG", "PENDING", "OLDEST", "DELIVERED", "LAST")
		for i := range all.Shards {
			s := &all.Shards[i]
			oldest := ""
			if ms := s.OldestUndeliveredAgeMs; ms != nil {
				oldest = short(time.Duration(*ms) * time.Millisecond)
			}
			length := any(s.StreamLength)
			switch {
			case s.Error != nil:
				length = "no answer"
			case !s.Exists:
				length = "missing"
			}
			owner := ""
			if len(s.OwnerMemberIDs) > 0 {
				owner = s.OwnerMemberIDs[0]
			}
			w.row(s.Shard.ShardIndex, owner, length, orUnknown(s.Lag), s.PendingCount, oldest, text(s.GroupLastDeliveredID), text(s.LastGeneratedID))
		}
	})
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func newGroupsCreate(a App) *cobra.Command {
	var flags groupsFlags
	c := &cobra.Command{
		Use: "create", Short: "Create a group, and its stream if there is none", Example: "  rsc groups create --stream orders --group billing", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			body := protocol.CreateGroup{RequestedBy: flags.by, Reason: flags.reason}
			if flags.shards != 0 {
				body.InitialShardCount = &flags.shards
			}
			return flags.one(c.Context(), http.MethodPost, &body)
		},
	}
	flags.flags(a, c)
	flags.names(c)
	flags.orderFlags(c, false)
	c.Flags().IntVar(&flags.shards, "shards", 0, "number of shards of a stream that is created")
	return c
}

func newGroupsDelete(a App) *cobra.Command {
	var flags groupsFlags
	c := &cobra.Command{
		Use: "delete", Short: "Delete a group",
		Long: "Deletes a group and shows it as it was. With live members --force is needed. Its\n" +
			"consumer groups stay in Redis, unless --data says otherwise.",
		Example: "  rsc groups delete --stream orders --group billing --reason \"no longer used\"", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			body := protocol.Delete{RequestedBy: flags.by, Reason: flags.reason, Force: flags.force, DeleteData: flags.deleteData}
			return flags.one(c.Context(), http.MethodDelete, &body, reasonFlag(flags.reason))
		},
	}
	flags.flags(a, c)
	flags.names(c)
	flags.orderFlags(c, true)
	c.Flags().BoolVar(&flags.force, "force", false, "delete it although it has live members")
	c.Flags().BoolVar(&flags.deleteData, "data", false, "remove its consumer groups in Redis as well")
	return c
}

func newGroupsTimings(a App) *cobra.Command {
	var flags groupsFlags
	c := &cobra.Command{
		Use: "timings", Short: "Show or change what a group lives by",
		Long: "Shows the timings of a group, or changes those that are given while it lives. A\n" +
			"longer lease counts at once, a shorter one after the longest that was promised.",
		Example: "  rsc groups timings --stream orders --group billing\n  rsc groups timings --stream orders --group billing --lease 30s --reason \"slow network\"",
		Args:    noArguments,
		RunE:    func(c *cobra.Command, _ []string) error { return flags.timings(c.Context(), c) },
	}
	flags.flags(a, c)
	flags.names(c)
	flags.orderFlags(c, false)
	c.Flags().DurationVar(&flags.heartbeat, "heartbeat-interval", 0, "time between two heartbeats")
	c.Flags().DurationVar(&flags.lease, "lease", 0, "how long a member may read after its last heartbeat")
	c.Flags().DurationVar(&flags.rebalance, "rebalance-timeout", 0, "how long a member may take to let a shard go")
	return c
}

func (f *groupsFlags) timings(ctx context.Context, c *cobra.Command) error {
	body := protocol.SetTimings{RequestedBy: f.by, Reason: f.reason}
	method, more := http.MethodGet, []flagValue(nil)
	for _, one := range []struct {
		flag  string
		value time.Duration
		to    **int64
	}{{"heartbeat-interval", f.heartbeat, &body.HeartbeatIntervalMs}, {"lease", f.lease, &body.MemberLeaseTTLMs}, {"rebalance-timeout", f.rebalance, &body.RebalanceTimeoutMs}} {
		if c.Flags().Changed(one.flag) {
			ms := one.value.Milliseconds()
			*one.to = &ms
			method, more = http.MethodPatch, []flagValue{reasonFlag(f.reason)}
		}
	}
	if err := f.beginGroup(more...); err != nil {
		return err
	}
	var sent any
	if method == http.MethodPatch {
		sent = &body
	}
	var t protocol.GroupTimings
	told, err := f.call(ctx, method, groupPath(f.stream, f.group)+"/timings", sent, &t)
	if err != nil {
		return err
	}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	return f.show(told, func(w *tableWriter) {
		w.row("HEARTBEAT INTERVAL", "LEASE", "REBALANCE TIMEOUT", "LONGEST LEASE PROMISED")
		w.row(ms(t.HeartbeatIntervalMs), ms(t.MemberLeaseTTLMs), ms(t.RebalanceTimeoutMs), ms(t.LongestLeaseMs))
	})
}
