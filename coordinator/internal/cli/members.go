package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func newMembers(a App) *cobra.Command {
	var flags groupsFlags
	c := &cobra.Command{
		Use: "members", Short: "List the members of a group with their shards", Example: "  rsc members --stream orders --group billing", Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return flags.members(c.Context()) },
	}
	flags.flags(a, c)
	flags.names(c)
	return c
}

func memberTable(w *tableWriter, members []protocol.Member) {
	w.row("MEMBER", "STATE", "READS", "MAY READ", "REVOKING", "WORKERS", "HEARTBEAT", "NAME")
	for i := range members {
		m := &members[i]
		w.row(m.MemberID, m.State, shardList(m.CurrentAssignment), shardList(m.GrantedAssignment), shardList(m.Revoking),
			fmt.Sprintf("%d/%d", m.ActiveConsumerWorkers, m.RuntimeMaxConcurrency), ago(m.LastHeartbeatAt), m.MemberName)
	}
}

func (f *groupsFlags) members(ctx context.Context) error {
	if err := f.beginGroup(); err != nil {
		return err
	}
	var list protocol.MemberList
	told, err := f.call(ctx, http.MethodGet, "/monitoring"+groupPath(f.stream, f.group)+"/members", nil, &list)
	if err != nil {
		return err
	}
	return f.show(told, func(w *tableWriter) { memberTable(w, list.Members) })
}

// drainFlags is what `rsc drain` is told.
type drainFlags struct {
	groupsFlags
	member string
	undo   bool
	wait   time.Duration
}

// drainPoll is the time between two looks at a member that hands its shards over.
const drainPoll = 200 * time.Millisecond

func newDrain(a App) *cobra.Command {
	var flags drainFlags
	c := &cobra.Command{
		Use:   "drain",
		Short: "Take a member out of work, or put it back",
		Long: "Drains a member: it hands its shards over in the ordinary way, gets no new ones, and\n" +
			"stays alive. With --wait the command ends when it holds none any more. --undo puts it\n" +
			"back to work. A process that starts anew under the same id works as any other.",
		Example: "  rsc drain --stream orders --group billing --member host-7 --reason \"host is replaced\" --wait 1m\n" +
			"  rsc drain --stream orders --group billing --member host-7 --reason \"host is back\" --undo",
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return flags.run(c.Context()) },
	}
	flags.flags(a, c)
	flags.names(c)
	flags.orderFlags(c, true)
	c.Flags().StringVar(&flags.member, "member", "", "id of the member (needed)")
	c.Flags().BoolVar(&flags.undo, "undo", false, "put the member back to work")
	c.Flags().DurationVar(&flags.wait, "wait", 0, "wait so long for the member to hold no shard")
	return c
}

func (f *drainFlags) run(ctx context.Context) error {
	if err := f.beginGroup(flagValue{"member", f.member, "rsc members lists them"}, reasonFlag(f.reason)); err != nil {
		return err
	}
	method := http.MethodPost
	if f.undo {
		method = http.MethodDelete
	}
	var m protocol.Member
	told, err := f.call(ctx, method, groupPath(f.stream, f.group)+path("members", f.member, "drain"), protocol.Order{RequestedBy: f.by, Reason: f.reason}, &m)
	if err != nil {
		return err
	}
	if f.wait > 0 && !f.undo {
		if m, told, err = f.empty(ctx, m, told); err != nil {
			return err
		}
	}
	return f.show(told, func(w *tableWriter) { memberTable(w, []protocol.Member{m}) })
}

// empty waits until the member holds no shard, or is gone.
func (f *drainFlags) empty(ctx context.Context, m protocol.Member, told []byte) (protocol.Member, []byte, error) {
	ctx, done := context.WithTimeoutCause(ctx, f.wait, errors.New("waited as long as --wait says"))
	defer done()
	for len(m.GrantedAssignment)+len(m.Revoking) > 0 {
		select {
		case <-ctx.Done():
			return m, told, fmt.Errorf("member %q still holds %d shards (%w): rsc explain says what each waits for", f.member, len(m.GrantedAssignment)+len(m.Revoking), context.Cause(ctx))
		case <-time.After(drainPoll):
		}
		var list protocol.MemberList
		if _, err := f.call(ctx, http.MethodGet, "/monitoring"+groupPath(f.stream, f.group)+"/members", nil, &list); err != nil {
			return m, told, err
		}
		i := slices.IndexFunc(list.Members, func(one protocol.Member) bool { return one.MemberID == f.member })
		if i < 0 {
			return m, told, fmt.Errorf("member %q has gone meanwhile: rsc explain shows what becomes of its shards", f.member)
		}
		m = list.Members[i]
		var err error
		if told, err = json.Marshal(m); err != nil {
			return m, told, err
		}
	}
	return m, told, nil
}
