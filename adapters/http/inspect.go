package httpapi

import (
	"context"
	"slices"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
	"github.com/redis-stream-coordinator/rsc/core/routing"
)

// ofGroup answers with something of the group in the path.
func ofGroup[T any](c *gin.Context, read func(ctx context.Context, prefix, group string) (T, error)) (reply, error) {
	prefix, group, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	v, err := read(c.Request.Context(), prefix, group)
	return ok(v), err
}

func (a *api) getConsumption(c *gin.Context) (reply, error) {
	return ofGroup(c, a.coordinator.Consumption)
}
func (a *api) getOffsets(c *gin.Context) (reply, error) { return ofGroup(c, a.coordinator.Offsets) }
func (a *api) getBacklog(c *gin.Context) (reply, error) { return ofGroup(c, a.coordinator.Backlog) }
func (a *api) explainAll(c *gin.Context) (reply, error) { return ofGroup(c, a.coordinator.ExplainAll) }
func (a *api) getTimings(c *gin.Context) (reply, error) { return ofGroup(c, a.coordinator.Timings) }

// groupMigrations answers GET …/migrations of a group: the changes of the shard count
// of its stream, the oldest first.
type groupMigrations struct {
	Migrations []protocol.Migration `json:"migrations"`
	// ActiveReshardingID is that of the change which is not done, null without one.
	ActiveReshardingID *string `json:"activeReshardingId"`
}

func (a *api) listGroupMigrations(c *gin.Context) (reply, error) {
	prefix, name, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	group, err := a.coordinator.Group(c.Request.Context(), prefix, name)
	if err != nil {
		return reply{}, err
	}
	list, err := a.coordinator.Migrations(c.Request.Context(), prefix)
	if err != nil {
		return reply{}, err
	}
	slices.Reverse(list.Migrations)
	body := groupMigrations{Migrations: list.Migrations}
	if group.ActiveMigration != nil {
		body.ActiveReshardingID = &group.ActiveMigration.ReshardingID
	}
	return ok(body), nil
}

func (a *api) explainShard(c *gin.Context) (reply, error) {
	prefix, group, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	shard, err := shardInPath(c)
	if err != nil {
		return reply{}, err
	}
	x, err := a.coordinator.Explain(c.Request.Context(), prefix, group, shard)
	return ok(x), err
}

func (a *api) listMessages(c *gin.Context) (reply, error) {
	prefix, group, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	shard, err := shardInPath(c)
	if err != nil {
		return reply{}, err
	}
	q, err := queryOf(c)
	if err != nil {
		return reply{}, err
	}
	ask, err := q.page()
	if err != nil {
		return reply{}, err
	}
	ask.Shards = []protocol.ShardIndex{shard}
	found, err := a.coordinator.Messages(c.Request.Context(), prefix, group, ask)
	if err != nil {
		return reply{}, err
	}
	page := protocol.MessagesPage{
		StreamPrefix: prefix, ConsumerGroup: group, Shard: protocol.ShardID{ShardIndex: shard},
		StreamKey: routing.StreamKey(prefix, int(shard)), Direction: ask.Direction, Limit: ask.Limit, Records: found.Records,
	}
	if found.NextCursor != "" {
		page.NextCursor = &found.NextCursor
	}
	return ok(page), nil
}
