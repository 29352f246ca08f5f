package httpapi

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func (a *api) listStreams(c *gin.Context) (reply, error) {
	list, err := a.coordinator.Streams(c.Request.Context())
	return ok(list), err
}

func (a *api) createStream(c *gin.Context) (reply, error) {
	prefix, err := streamPrefix(c)
	if err != nil {
		return reply{}, err
	}
	var r protocol.CreateStream
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	created, err := a.coordinator.CreateStream(c.Request.Context(), prefix, r)
	return reply{status: http.StatusCreated, body: created}, err
}

func (a *api) getStream(c *gin.Context) (reply, error) {
	prefix, err := streamPrefix(c)
	if err != nil {
		return reply{}, err
	}
	stream, err := a.coordinator.Stream(c.Request.Context(), prefix)
	return ok(stream), err
}

func (a *api) deleteStream(c *gin.Context) (reply, error) {
	prefix, err := streamPrefix(c)
	if err != nil {
		return reply{}, err
	}
	var r protocol.Delete
	if err := readAdmin(c, &r); err != nil {
		return reply{}, err
	}
	stream, err := a.coordinator.DeleteStream(c.Request.Context(), prefix, r)
	return ok(stream), err
}
