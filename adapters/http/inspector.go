package httpapi

import (
	"context"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Inspector is the part of a Coordinator that looks into groups and their streams.
type Inspector interface {
	Consumption(ctx context.Context, prefix, group string) (protocol.Consumption, error)
	Offsets(ctx context.Context, prefix, group string) (protocol.Offsets, error)
	Backlog(ctx context.Context, prefix, group string) (protocol.Backlog, error)
	Explain(ctx context.Context, prefix, group string, shard protocol.ShardIndex) (protocol.Explanation, error)
	ExplainAll(ctx context.Context, prefix, group string) (protocol.ExplanationList, error)
	Messages(ctx context.Context, prefix, group string, q protocol.MessageQuery) (protocol.Messages, error)
	// Overview describes one group for dashboards, Overviews all of them, or those of
	// one stream or with one name where that is not empty.
	Overview(ctx context.Context, prefix, group string) (protocol.Overview, error)
	Overviews(ctx context.Context, prefix, group string) ([]protocol.Overview, error)
	Timings(ctx context.Context, prefix, group string) (protocol.GroupTimings, error)
}

// Operator is the part of a Coordinator that changes running groups.
type Operator interface {
	DrainMember(ctx context.Context, prefix, group, member string, undo bool, r protocol.Order) (protocol.Member, error)
	ChangeTimings(ctx context.Context, prefix, group string, r protocol.SetTimings) (protocol.GroupTimings, error)
	RepairIndex(ctx context.Context) (port.Repair, error)
}
