package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// healthStatus is 503 when nothing can be coordinated.
func healthStatus(s protocol.HealthStatus) int {
	if s == protocol.HealthDown {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

func (a *api) getHealth(c *gin.Context) (reply, error) {
	h := a.coordinator.Health(c.Request.Context())
	return reply{status: healthStatus(h.Status), body: h}, nil
}

// probe is what anybody may know of the health: enough for a load balancer and
// for whoever sees it take this process out, and no names or addresses.
type probe struct {
	Status protocol.HealthStatus `json:"status"`
	Store  string                `json:"store,omitempty"`
	Redis  string                `json:"redis,omitempty"`
	Loop   string                `json:"loop,omitempty"`
}

// getReadiness says whether requests are worth sending here.
func (a *api) getReadiness(c *gin.Context) (reply, error) {
	h := a.coordinator.Health(c.Request.Context())
	return reply{status: healthStatus(h.Status), body: probe{Status: h.Status, Store: h.Store, Redis: h.Redis, Loop: h.Loop}}, nil
}

// getLiveness says that the process serves requests, and nothing about what it
// depends on: restarting it would not bring a store back.
func (a *api) getLiveness(*gin.Context) (reply, error) {
	return ok(probe{Status: protocol.HealthUp}), nil
}
