package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// The operations that change the shard count.
func init() {
	ofMigration := []*protocol.Error{protocol.ErrStreamNotFound, protocol.ErrMigrationNotFound}
	scaling := with(changing, protocol.ErrStreamNotFound, protocol.ErrMigrationActive, protocol.ErrStreamExists, protocol.ErrProvisioning)
	rolling := with(changing, protocol.ErrStreamNotFound, protocol.ErrMigrationNotFound, protocol.ErrRollbackNotAllowed, protocol.ErrProvisioning)
	overruling := with(changing, protocol.ErrStreamNotFound, protocol.ErrMigrationNotFound, protocol.ErrLimit)
	const migration = "/migrations/:reshardingId"
	for _, o := range []operation{
		{
			method: http.MethodPost, path: streamRoute + "/scale", id: "scaleStreamShards", summary: "Change the shard count",
			description: "Answers when the new count is in force; the rest goes on by itself. The same request again resumes one that could not be prepared. A scale to the present count answers with the id noop.",
			body:        protocol.Scale{}, status: 202, answer: protocol.StreamScaled{}, errors: scaling,
		},
		{method: http.MethodGet, path: streamRoute + "/migrations", id: "listStreamMigrations", summary: "List the last changes of the shard count", status: 200, answer: protocol.MigrationList{}, errors: []*protocol.Error{protocol.ErrStreamNotFound}},
		{method: http.MethodGet, path: streamRoute + migration, id: "getStreamMigration", summary: "Read a change, with what it waits for", status: 200, answer: protocol.Migration{}, errors: ofMigration},
		{
			method: http.MethodPost, path: streamRoute + migration + "/rollback", id: "rollbackStreamMigration", summary: "Take a change back",
			description: "Producers write as before, and what was written to added shards is read to its end. It can be repeated.",
			body:        protocol.Order{}, status: 202, answer: protocol.Migration{}, errors: rolling,
		},
		{
			method: http.MethodPost, path: streamRoute + "/ignore-group", id: "ignoreGroup", summary: "Do not wait for a consumer group that is not one of the coordinator's",
			body: protocol.IgnoreGroup{}, status: 202, answer: protocol.Stream{}, errors: overruling,
		},
		{
			method: http.MethodPost, path: streamRoute + "/give-up", id: "giveUpShards", summary: "Remove shards with the records that they still hold",
			body: protocol.GiveUp{}, status: 202, answer: protocol.Stream{}, errors: overruling,
		},
		{
			method: http.MethodPost, path: groupRoute + "/scale", id: "startGroupResharding", summary: "Change the shard count of the group's stream",
			description: "For older clients; the shard count belongs to the stream.",
			body:        protocol.Scale{}, status: 202, answer: protocol.Migration{}, errors: with(scaling, protocol.ErrGroupNotFound),
		},
		{method: http.MethodGet, path: groupRoute + migration, id: "getReshardingMigration", summary: "Read a change", status: 200, answer: protocol.Migration{}, errors: with(ofMigration, protocol.ErrGroupNotFound)},
		{
			method: http.MethodPost, path: groupRoute + migration + "/rollback", id: "rollbackReshardingMigration", summary: "Take a change back",
			body: protocol.Order{}, status: 202, answer: protocol.Migration{}, errors: with(rolling, protocol.ErrGroupNotFound),
		},
		{
			method: http.MethodGet, path: monitoringRoute + groupRoute + "/migrations", id: "listReshardingMigrations", summary: "List the last changes of the shard count, the oldest first",
			status: 200, answer: groupMigrations{}, errors: with(ofMigration[:1], protocol.ErrGroupNotFound),
		},
	} {
		o.tag = tagReshard
		operations = append(operations, o)
	}
}

// reshardingCalls makes the calls that change the shard count.
func reshardingCalls(s *stage) {
	s.t.Helper()
	const stream, group = apiBase + "/streams/moves", apiBase + "/streams/moves/groups/billing"
	s.ok("POST", stream, createBody)
	s.ok("POST", group, `{"requestedBy":"ops"}`)
	var m protocol.Migration
	if err := json.Unmarshal(s.ok("POST", group+"/scale", `{"targetShardCount":2,"requestedBy":"ops","reason":"test","deprecatedAfter":"PT1H"}`), &m); err != nil {
		s.t.Fatal(err)
	}
	s.ok("GET", group+"/migrations/"+m.ReshardingID, "")
	s.ok("GET", stream+"/migrations/"+m.ReshardingID, "")
	s.ok("GET", stream+"/migrations", "")
	s.ok("GET", apiBase+"/monitoring/streams/moves/groups/billing/migrations", "")
	s.ok("GET", group, "")
	s.ok("GET", stream, "")
	s.ok("POST", stream+"/ignore-group", `{"consumerGroup":"foreign","requestedBy":"ops","reason":"test"}`)
	s.ok("POST", stream+"/give-up", `{"shards":[{"shardIndex":3}],"requestedBy":"ops","reason":"test"}`)
	if w := s.call("POST", stream+"/scale", "admin", `{"targetShardCount":3,"requestedBy":"ops","reason":"test"}`); w.Code != http.StatusConflict {
		s.t.Errorf("a second change at the same time: %d %s", w.Code, w.Body)
	}
	s.ok("POST", group+"/migrations/"+m.ReshardingID+"/rollback", order)
	s.ok("POST", stream+"/migrations/"+m.ReshardingID+"/rollback", order)
	s.ok("POST", apiBase+"/streams/others", createBody)
	s.ok("POST", apiBase+"/streams/others/scale", `{"targetShardCount":6,"requestedBy":"ops","reason":"test"}`)
	for _, call := range [][2]string{
		{"POST", stream + "/scale"}, {"POST", group + "/scale"}, {"POST", stream + "/give-up"}, {"POST", stream + "/ignore-group"},
	} {
		if w := s.call(call[0], call[1], "admin", `{"targetShardCount":-1,"requestedBy":"ops","reason":"test"}`); w.Code != http.StatusBadRequest {
			s.t.Errorf("%s: %d %s", call[1], w.Code, w.Body)
		}
	}
}
