package httpapi

import (
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// heartbeat answers a member. Clients exist that end for good on any status of
// 400 and above, so only a request that can never be right gets one: whatever
// may pass by itself is 200 with RETRY.
func (a *api) heartbeat(c *gin.Context) (reply, error) {
	prefix, group, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	member, err := pathName(c, "memberId")
	if err != nil {
		return reply{}, err
	}
	q, err := readHeartbeat(c, a.coordinator.HeartbeatLimit(prefix))
	if err != nil {
		return reply{}, err
	}
	var response protocol.HeartbeatResponse
	switch {
	case q.ProtocolVersion != protocol.Version:
		// Said before anything else is looked at: the rest may mean something
		// else in that version.
		reason := fmt.Sprintf("protocolVersion: is %d, this coordinator speaks %d", q.ProtocolVersion, protocol.Version)
		response = protocol.NewHeartbeatResponse(q, protocol.StatusUnsupportedProtocol, reason, a.config.Timings)
	case q.MemberID != member:
		response = protocol.NewHeartbeatResponse(q, protocol.StatusInvalidRequest, "memberId: the body names another member than the path", a.config.Timings)
	default:
		response = a.askCoordinator(c, prefix, group, q)
	}
	response.MemberID = member
	return ok(&response), nil
}

// askCoordinator turns a panic of the coordinator into a RETRY.
func (a *api) askCoordinator(c *gin.Context, prefix, group string, q *protocol.Heartbeat) (response protocol.HeartbeatResponse) {
	defer func() {
		if v := recover(); v != nil {
			a.logPanic(c, v)
			response = protocol.NewHeartbeatResponse(q, protocol.StatusRetry, errFailed.Message, a.config.Timings)
		}
	}()
	return a.coordinator.Heartbeat(c.Request.Context(), prefix, group, q)
}
