package server

import (
	"context"
	"strconv"
	"time"

	"github.com/redis-stream-coordinator/rsc/core/port"
)

// recreateShards is what the audit calls it when the coordinator creates shards again
// that members did not find.
const recreateShards = "RECREATE_SHARDS"

// shardsRecreated has the audit tell of a change that nobody asked for by the API.
func (s *Server) shardsRecreated(prefix string, shards int) {
	s.api.Record(context.Background(), port.AuditEntry{
		Timestamp:     time.Now().UTC(),
		CoordinatorID: s.cfg.Coordinator.ID,
		Action:        recreateShards,
		Outcome:       port.AuditSuccess,
		Principal:     "coordinator",
		StreamPrefix:  prefix,
		Reason:        "members did not find them in Redis",
		Summary:       map[string]string{"shards": strconv.Itoa(shards)},
	})
}
