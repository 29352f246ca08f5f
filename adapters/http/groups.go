package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func (a *api) createGroup(c *gin.Context) (reply, error) {
	prefix, name, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	var r protocol.CreateGroup
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	group, err := a.coordinator.CreateGroup(c.Request.Context(), prefix, name, r)
	return reply{status: http.StatusCreated, body: group}, err
}

func (a *api) getGroup(c *gin.Context) (reply, error) {
	prefix, name, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	group, err := a.coordinator.Group(c.Request.Context(), prefix, name)
	return ok(group), err
}

func (a *api) deleteGroup(c *gin.Context) (reply, error) {
	prefix, name, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	var r protocol.Delete
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	group, err := a.coordinator.DeleteGroup(c.Request.Context(), prefix, name, r)
	return ok(group), err
}

// getRouting answers with an entity tag: producers ask every few seconds, and
// the answer for thousands of shards hardly ever changes.
func (a *api) getRouting(c *gin.Context) (reply, error) {
	prefix, name, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	routing, err := a.coordinator.Routing(c.Request.Context(), prefix, name)
	return reply{status: http.StatusOK, body: routing, tagged: true}, err
}
