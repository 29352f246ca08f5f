package httpapi

import (
	"context"

	"github.com/redis-stream-coordinator/rsc/core/port"
	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

func (f *fake) Consumption(_ context.Context, prefix, group string) (protocol.Consumption, error) {
	f.note("Consumption %s %s", prefix, group)
	return protocol.Consumption{Progress: []protocol.ConsumerProgress{}}, f.err
}

func (f *fake) Offsets(_ context.Context, prefix, group string) (protocol.Offsets, error) {
	f.note("Offsets %s %s", prefix, group)
	return protocol.Offsets{StreamPrefix: prefix, ConsumerGroup: group, Shards: []protocol.ShardOffset{}}, f.err
}

func (f *fake) Backlog(_ context.Context, prefix, group string) (protocol.Backlog, error) {
	f.note("Backlog %s %s", prefix, group)
	b := protocol.Backlog{StreamPrefix: prefix, ConsumerGroup: group}
	b.Add(3, 4, 5)
	return b, f.err
}

func (f *fake) Explain(_ context.Context, prefix, group string, shard protocol.ShardIndex) (protocol.Explanation, error) {
	f.note("Explain %s %s %d", prefix, group, shard)
	return protocol.Explanation{StreamPrefix: prefix, ConsumerGroup: group, ShardIndex: shard, Cause: protocol.CauseNone}, f.err
}

func (f *fake) ExplainAll(_ context.Context, prefix, group string) (protocol.ExplanationList, error) {
	f.note("ExplainAll %s %s", prefix, group)
	return protocol.ExplanationList{StreamPrefix: prefix, ConsumerGroup: group, Shards: []protocol.Explanation{}}, f.err
}

func (f *fake) Messages(_ context.Context, prefix, group string, q protocol.MessageQuery) (protocol.Messages, error) {
	f.note("Messages %s %s %v all %t id %q %s after %q limit %d", prefix, group, q.Shards, q.All, q.RecordID, q.Direction, q.Cursor, q.Limit)
	payload := "p"
	return protocol.Messages{
		Records: []protocol.MessageRecord{{
			StreamPrefix: prefix, ConsumerGroup: group, StreamKey: prefix + ":0", RecordID: "1-0",
			Fields: map[string]string{"payload": payload, "a": "<&>"}, Payload: &payload,
		}},
		NextCursor: "1-0", Total: 7, Limit: q.Limit,
	}, f.err
}

func (f *fake) overview(prefix, group string) protocol.Overview {
	return protocol.Overview{
		Group: protocol.Group{StreamPrefix: prefix, ConsumerGroup: group, ShardCount: 2, State: protocol.GroupStable},
		Members: []protocol.Member{
			{MemberID: "a", State: protocol.MemberActive}, {MemberID: "b", State: protocol.MemberDraining}, {MemberID: "c", State: protocol.MemberExpired},
		},
		Assignments: protocol.Assignments{
			TargetAssignment: map[string]protocol.Shards{"a": {0, 1}}, CurrentAssignments: map[string]protocol.Shards{"a": {0}, "b": {1}},
			RevokeProgress: map[string]protocol.Shards{"b": {1}},
		},
		Shards: []protocol.ShardIndex{0, 1}, Rates: make([]protocol.ShardRates, 2),
	}
}

func (f *fake) Overview(_ context.Context, prefix, group string) (protocol.Overview, error) {
	f.note("Overview %s %s", prefix, group)
	return f.overview(prefix, group), f.err
}

func (f *fake) Overviews(_ context.Context, prefix, group string) ([]protocol.Overview, error) {
	f.note("Overviews %q %q", prefix, group)
	return []protocol.Overview{f.overview("orders", "billing")}, f.err
}

func (f *fake) Timings(_ context.Context, prefix, group string) (protocol.GroupTimings, error) {
	f.note("Timings %s %s", prefix, group)
	return protocol.GroupTimings{StreamPrefix: prefix, ConsumerGroup: group, MemberLeaseTTLMs: 15000}, f.err
}

func (f *fake) DrainMember(_ context.Context, prefix, group, member string, undo bool, r protocol.Order) (protocol.Member, error) {
	f.note("DrainMember %s %s %s undo %t by %s because %s", prefix, group, member, undo, r.RequestedBy, r.Reason)
	return protocol.Member{MemberID: member, State: protocol.MemberDraining}, f.err
}

func (f *fake) ChangeTimings(_ context.Context, prefix, group string, r protocol.SetTimings) (protocol.GroupTimings, error) {
	f.note("ChangeTimings %s %s lease %d by %s", prefix, group, *r.MemberLeaseTTLMs, r.RequestedBy)
	return protocol.GroupTimings{StreamPrefix: prefix, ConsumerGroup: group, MemberLeaseTTLMs: *r.MemberLeaseTTLMs}, f.err
}

func (f *fake) RepairIndex(context.Context) (port.Repair, error) {
	f.note("RepairIndex")
	return port.Repair{Added: 2, Removed: 1}, f.err
}

const (
	watched    = "/coord/v1/monitoring/streams/orders/groups/billing"
	grafana    = "/coord/v1/monitoring/grafana"
	namesQuery = "?streamPrefix=orders&consumerGroup=billing"
	orderBody  = `{"requestedBy":"ops","reason":"done"}`
)

// inspectionNeeds are what the routes ask for that look into groups and change them,
// and those that describe the API.
var inspectionNeeds = map[string]permission{
	"POST " + memberRoute + "/drain":                  mayWrite,
	"DELETE " + memberRoute + "/drain":                mayWrite,
	"GET " + groupRoute + "/timings":                  mayRead,
	"PATCH " + groupRoute + "/timings":                mayWrite,
	"POST /repair/index":                              mayWrite,
	"GET /monitoring" + groupRoute + "/consumption":   mayRead,
	"GET /monitoring" + groupRoute + "/offsets":       mayRead,
	"GET /monitoring" + groupRoute + "/backlog":       mayRead,
	"GET /monitoring" + groupRoute + "/explain":       mayRead,
	"GET /monitoring" + groupRoute + "/migrations":    mayRead,
	"GET " + shardRoute + "/messages":                 mayRead,
	"GET " + shardRoute + "/explain":                  mayRead,
	"GET /monitoring/grafana/groups":                  mayRead,
	"GET /monitoring/grafana/options/streams":         mayRead,
	"GET /monitoring/grafana/options/consumer-groups": mayRead,
	"GET /monitoring/grafana/options/shards":          mayRead,
	"GET /monitoring/grafana/members":                 mayRead,
	"GET /monitoring/grafana/shards":                  mayRead,
	"GET /monitoring/grafana/assignments":             mayRead,
	"GET /monitoring/grafana/messages":                mayRead,
	"GET /openapi.json":                               open,
	"GET /v3/api-docs":                                open,
	"GET /docs":                                       open,
	"GET /scalar":                                     open,
}

// The calls of the routes that look into groups and change them.
func init() {
	for _, c := range []struct {
		method, path, user, body, route, called, part string
	}{
		{"POST", groupPath + "/members/m/drain", "writer", orderBody, memberRoute + "/drain", "DrainMember orders billing m undo false by ops because done", `"state":"DRAINING"`},
		{"DELETE", groupPath + "/members/m/drain", "writer", orderBody, memberRoute + "/drain", "DrainMember orders billing m undo true by ops because done", `"memberId":"m"`},
		{"GET", groupPath + "/timings", "reader", "", groupRoute + "/timings", "Timings orders billing", `"memberLeaseTtlMs":15000`},
		{"PATCH", groupPath + "/timings", "writer", `{"memberLeaseTtlMs":20000,"requestedBy":"ops","reason":"x"}`, groupRoute + "/timings", "ChangeTimings orders billing lease 20000 by ops", `"memberLeaseTtlMs":20000`},
		{"POST", "/coord/v1/repair/index", "writer", orderBody, "/repair/index", "RepairIndex", `{"added":2,"removed":1}`},

		{"GET", watched + "/consumption", "reader", "", monitoringRoute + groupRoute + "/consumption", "Consumption orders billing", `{"progress":[]}`},
		{"GET", watched + "/offsets", "reader", "", monitoringRoute + groupRoute + "/offsets", "Offsets orders billing", `"totalLag":null`},
		{"GET", watched + "/backlog", "reader", "", monitoringRoute + groupRoute + "/backlog", "Backlog orders billing", `"backlog":7,"undelivered":3,"pending":4`},
		{"GET", watched + "/explain", "reader", "", monitoringRoute + groupRoute + "/explain", "ExplainAll orders billing", `"shards":[]`},
		{"GET", watched + "/migrations", "reader", "", monitoringRoute + groupRoute + "/migrations", "Group orders billing; Migrations orders", `"activeReshardingId":null`},
		{"GET", watched + "/shards/3/explain", "reader", "", shardRoute + "/explain", "Explain orders billing 3", `"cause":"NONE"`},
		{"GET", watched + "/shards/3/messages", "reader", "", shardRoute + "/messages", `Messages orders billing [3] all false id "" BACKWARD after "" limit 25`, `"nextCursor":"1-0"`},

		{"GET", grafana + "/groups", "reader", "", grafanaRoute + "/groups", `Overviews "" ""`, `"activeMembers":2,"totalMembers":3,"currentShards":2,"targetShards":2,"assignedShardRatio":"2 / 2","revokingShards":1,"totalStreamLength":null`},
		{"GET", grafana + "/options/streams", "reader", "", grafanaRoute + "/options/streams", "Groups", `[]`},
		{"GET", grafana + "/options/consumer-groups", "reader", "", grafanaRoute + "/options/consumer-groups", "Groups", `[]`},
		{"GET", grafana + "/options/shards" + namesQuery, "reader", "", grafanaRoute + "/options/shards", "Group orders billing", `[]`},
		{"GET", grafana + "/members" + namesQuery, "reader", "", grafanaRoute + "/members", "Members orders billing", `[]`},
		{"GET", grafana + "/shards" + namesQuery, "reader", "", grafanaRoute + "/shards", "Overview orders billing", `"shardLabel":":1","streamKey":"orders:1"`},
		{"GET", grafana + "/assignments" + namesQuery, "reader", "", grafanaRoute + "/assignments", "Group orders billing; Assignments orders billing", `[]`},
		{"GET", grafana + "/messages" + namesQuery + "&shardIndex=All&limit=5000", "reader", "", grafanaRoute + "/messages", `Messages orders billing [] all true id "" BACKWARD after "" limit 1000`, `"fieldsJson":"{\"a\":\"<&>\",\"payload\":\"p\"}"`},

		{"GET", "/openapi.json", "", "", "/openapi.json", "", `"openapi": "3.1.1"`},
		{"GET", "/v3/api-docs", "", "", "/v3/api-docs", "", `"openapi": "3.1.1"`},
	} {
		one := routeCases[0]
		one.request = request{method: c.method, path: c.path, auth: as(c.user), body: c.body}
		one.route, one.status, one.called, one.body = c.route, 200, c.called, c.part
		routeCases = append(routeCases, one)
	}
}
