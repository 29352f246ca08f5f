package httpapi

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// Resharder changes shard counts. Those of its methods that take a group act on its
// stream.
type Resharder interface {
	ScaleStream(ctx context.Context, prefix string, r protocol.Scale) (protocol.StreamScaled, error)
	ScaleGroup(ctx context.Context, prefix, group string, r protocol.Scale) (protocol.Migration, error)
	Migrations(ctx context.Context, prefix string) (protocol.MigrationList, error)
	Migration(ctx context.Context, prefix, id string) (protocol.Migration, error)
	GroupMigration(ctx context.Context, prefix, group, id string) (protocol.Migration, error)
	Rollback(ctx context.Context, prefix, id string, r protocol.Order) (protocol.Migration, error)
	GroupRollback(ctx context.Context, prefix, group, id string, r protocol.Order) (protocol.Migration, error)
	IgnoreGroup(ctx context.Context, prefix string, r protocol.IgnoreGroup) (protocol.Stream, error)
	GiveUp(ctx context.Context, prefix string, r protocol.GiveUp) (protocol.Stream, error)
}

// reshardRoutes are the calls that change shard counts. Those of a group act on its
// stream, for older clients.
func (a *api) reshardRoutes() []route {
	const migration = "/migrations/:reshardingId"
	return []route{
		{http.MethodPost, streamRoute + "/scale", mayWrite, a.scaleStream},
		{http.MethodGet, streamRoute + "/migrations", mayRead, a.listMigrations},
		{http.MethodGet, streamRoute + migration, mayRead, a.getMigration},
		{http.MethodPost, streamRoute + migration + "/rollback", mayWrite, a.rollBack},
		{http.MethodPost, streamRoute + "/ignore-group", mayWrite, a.ignoreGroup},
		{http.MethodPost, streamRoute + "/give-up", mayWrite, a.giveUp},

		{http.MethodPost, groupRoute + "/scale", mayWrite, a.scaleGroup},
		{http.MethodGet, groupRoute + migration, mayRead, a.getGroupMigration},
		{http.MethodPost, groupRoute + migration + "/rollback", mayWrite, a.rollBackGroup},
	}
}

func accepted(body any) reply { return reply{status: http.StatusAccepted, body: body} }

// onStream has an order carried out on the stream that the path names.
func onStream[R, A any](c *gin.Context, do func(ctx context.Context, prefix string, r R) (A, error)) (reply, error) {
	prefix, err := streamPrefix(c)
	if err != nil {
		return reply{}, err
	}
	var r R
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	done, err := do(c.Request.Context(), prefix, r)
	return accepted(done), err
}

func (a *api) scaleStream(c *gin.Context) (reply, error) {
	return onStream(c, a.coordinator.ScaleStream)
}

func (a *api) scaleGroup(c *gin.Context) (reply, error) {
	prefix, name, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	var r protocol.Scale
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	m, err := a.coordinator.ScaleGroup(c.Request.Context(), prefix, name, r)
	return accepted(m), err
}

func (a *api) listMigrations(c *gin.Context) (reply, error) {
	prefix, err := streamPrefix(c)
	if err != nil {
		return reply{}, err
	}
	list, err := a.coordinator.Migrations(c.Request.Context(), prefix)
	return ok(list), err
}

// migrationOf returns the stream and the change that the path names.
func migrationOf(c *gin.Context) (prefix, id string, err error) {
	if prefix, err = streamPrefix(c); err != nil {
		return "", "", err
	}
	id, err = pathName(c, "reshardingId")
	return prefix, id, err
}

func (a *api) getMigration(c *gin.Context) (reply, error) {
	prefix, id, err := migrationOf(c)
	if err != nil {
		return reply{}, err
	}
	m, err := a.coordinator.Migration(c.Request.Context(), prefix, id)
	return ok(m), err
}

func (a *api) getGroupMigration(c *gin.Context) (reply, error) {
	_, name, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	prefix, id, err := migrationOf(c)
	if err != nil {
		return reply{}, err
	}
	m, err := a.coordinator.GroupMigration(c.Request.Context(), prefix, name, id)
	return ok(m), err
}

func (a *api) rollBack(c *gin.Context) (reply, error) {
	prefix, id, err := migrationOf(c)
	if err != nil {
		return reply{}, err
	}
	var r protocol.Order
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	m, err := a.coordinator.Rollback(c.Request.Context(), prefix, id, r)
	return accepted(m), err
}

func (a *api) rollBackGroup(c *gin.Context) (reply, error) {
	_, name, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	prefix, id, err := migrationOf(c)
	if err != nil {
		return reply{}, err
	}
	var r protocol.Order
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	m, err := a.coordinator.GroupRollback(c.Request.Context(), prefix, name, id, r)
	return accepted(m), err
}

func (a *api) ignoreGroup(c *gin.Context) (reply, error) {
	return onStream(c, a.coordinator.IgnoreGroup)
}

func (a *api) giveUp(c *gin.Context) (reply, error) {
	return onStream(c, a.coordinator.GiveUp)
}
