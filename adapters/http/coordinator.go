package httpapi

import (
	"context"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Coordinator is what the API serves. Its methods are called concurrently. An
// error that wraps a *protocol.Error is told to the caller; any other is logged
// and answered as an internal error.
type Coordinator interface {
	Inspector
	Operator
	Resharder

	// Heartbeat answers a heartbeat; temporary trouble is a RETRY, never an
	// error. It may hold the answer as long as the request asks for.
	Heartbeat(ctx context.Context, stream, group string, q *protocol.Heartbeat) protocol.HeartbeatResponse
	// HeartbeatLimit bounds the body of a heartbeat of a stream, in bytes.
	HeartbeatLimit(stream string) int

	CreateStream(ctx context.Context, prefix string, r protocol.CreateStream) (protocol.StreamCreated, error)
	Stream(ctx context.Context, prefix string) (protocol.Stream, error)
	Streams(ctx context.Context) (protocol.StreamList, error)
	DeleteStream(ctx context.Context, prefix string, r protocol.Delete) (protocol.Stream, error)

	CreateGroup(ctx context.Context, prefix, group string, r protocol.CreateGroup) (protocol.Group, error)
	Group(ctx context.Context, prefix, group string) (protocol.Group, error)
	Groups(ctx context.Context) (protocol.GroupList, error)
	DeleteGroup(ctx context.Context, prefix, group string, r protocol.Delete) (protocol.Group, error)

	Members(ctx context.Context, prefix, group string) (protocol.MemberList, error)
	Assignments(ctx context.Context, prefix, group string) (protocol.Assignments, error)
	Routing(ctx context.Context, prefix, group string) (protocol.Routing, error)
	// Health answers at once, from what is known.
	Health(ctx context.Context) protocol.Health
}
