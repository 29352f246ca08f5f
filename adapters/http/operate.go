package httpapi

import (
	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func (a *api) drainMember(c *gin.Context) (reply, error)   { return a.drain(c, false) }
func (a *api) undrainMember(c *gin.Context) (reply, error) { return a.drain(c, true) }

func (a *api) drain(c *gin.Context, undo bool) (reply, error) {
	prefix, group, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	member, err := pathName(c, "memberId")
	if err != nil {
		return reply{}, err
	}
	var r protocol.Order
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	m, err := a.coordinator.DrainMember(c.Request.Context(), prefix, group, member, undo, r)
	return ok(m), err
}

func (a *api) changeTimings(c *gin.Context) (reply, error) {
	prefix, group, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	var r protocol.SetTimings
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	t, err := a.coordinator.ChangeTimings(c.Request.Context(), prefix, group, r)
	return ok(t), err
}

func (a *api) repairIndex(c *gin.Context) (reply, error) {
	var r protocol.Order
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	if err := r.Validate(); err != nil {
		return reply{}, err
	}
	done, err := a.coordinator.RepairIndex(c.Request.Context())
	return ok(protocol.IndexRepair{Added: done.Added, Removed: done.Removed}), err
}
