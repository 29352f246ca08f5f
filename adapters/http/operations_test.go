package httpapi

import (
	"net/http"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// operation describes one route for the people who call it. The description of the
// API, the table of the documentation and the tests of all routes are made from these.
type operation struct {
	// method and path are those of the route, below the base path unless absolute is
	// set.
	method, path string
	absolute     bool
	id, tag      string
	summary      string
	description  string
	query        []parameter
	// body is a value of the type that is sent, nil for none; bodyOptional where it
	// may be left out.
	body         any
	bodyOptional bool
	// status is that of success, answer a value of the type that comes with it, nil
	// where it is no JSON of ours.
	status int
	answer any
	// errors are what the coordinator refuses with, besides what every such route can
	// answer; see refusals.
	errors []*protocol.Error
	// also are further statuses whose body is that of success.
	also []int
}

// parameter is one of the query.
type parameter struct {
	name, description string
	required          bool
	enum              []string
	integer           bool
}

// The tags, in the order of the page.
const (
	tagMembers   = "Members and producers"
	tagStreams   = "Streams"
	tagGroups    = "Groups"
	tagReshard   = "Changing the shard count"
	tagMonitor   = "Monitoring"
	tagGrafana   = "Grafana"
	tagAccess    = "Access"
	tagProcesses = "Health and description"
)

var tags = []struct{ name, description string }{
	{tagMembers, "What consumers and producers call. Heartbeats are open unless coordinator.api.authenticate-member-api is set."},
	{tagStreams, "A stream is a prefix with its shards: the keys prefix:0, prefix:1 and so on."},
	{tagGroups, "A group is a consumer group of a stream, with its members."},
	{tagReshard, "The shard count of a stream changes while records flow; removed shards are read until they are empty."},
	{tagMonitor, "Reads only. What is not known is null, never 0."},
	{tagGrafana, "Rows for a data source that reads JSON."},
	{tagAccess, "Everything that asks for a role takes Basic authentication or a token as Bearer."},
	{tagProcesses, "Open to everybody, outside of the base path."},
}

var (
	pageQuery = []parameter{
		{name: "direction", description: "FORWARD begins with the oldest record, BACKWARD with the newest; BACKWARD by default.", enum: []string{"FORWARD", "BACKWARD"}},
		{name: "cursor", description: "The nextCursor of the page before; left out for the first page."},
		{name: "limit", description: "Records on a page, 1 to 1000, 25 by default; a number outside is moved to the nearer end.", integer: true},
	}
	groupQuery = []parameter{
		{name: "streamPrefix", description: "The stream; must be there, may be blank.", required: true},
		{name: "consumerGroup", description: "The group; must be there, may be blank.", required: true},
	}
	ofAGroup = []*protocol.Error{protocol.ErrGroupNotFound}
	ofRedis  = []*protocol.Error{protocol.ErrGroupNotFound, protocol.ErrRedisNotConfigured, protocol.ErrRedisUnavailable}
	changing = []*protocol.Error{protocol.ErrConflict, protocol.ErrMutexUnavailable, protocol.ErrTerminating}
)

func with(base []*protocol.Error, more ...*protocol.Error) []*protocol.Error {
	return append(append([]*protocol.Error{}, more...), base...)
}

// operations describes every route.
var operations = append([]operation{
	{
		method: http.MethodPost, path: heartbeatRoute, id: "sendConsumerHeartbeat", tag: tagMembers, summary: "Say what a member reads, and hear what it may read",
		description: "Temporary trouble is a 200 with the status RETRY, so 400 and above only answer requests that can never be right. With maxWaitMs the answer is held until something changes for the member. A 403 has the status GROUP_AUTHORIZATION_FAILED in the same body.",
		body:        protocol.Heartbeat{}, status: 200, answer: protocol.HeartbeatResponse{},
	},
	{
		method: http.MethodGet, path: groupRoute + "/producer-routing", id: "getProducerRoutingMetadata", tag: tagMembers, summary: "Where producers write",
		description: "A pure read; the group need not exist. With If-None-Match an unchanged answer is a 304.",
		status:      200, answer: protocol.Routing{}, errors: []*protocol.Error{protocol.ErrStreamNotFound},
	},

	{method: http.MethodGet, path: "/streams", id: "listStreams", tag: tagStreams, summary: "List the streams", status: 200, answer: protocol.StreamList{}},
	{
		method: http.MethodPost, path: streamRoute, id: "createStreamGroup", tag: tagStreams, summary: "Create a stream with its shards",
		description: "A create that got stuck half-way may be repeated with the same words.",
		body:        protocol.CreateStream{}, status: 201, answer: protocol.StreamCreated{},
		errors: with(changing, protocol.ErrStreamExists, protocol.ErrProvisioning),
	},
	{method: http.MethodGet, path: streamRoute, id: "getStream", tag: tagStreams, summary: "Read a stream", status: 200, answer: protocol.Stream{}, errors: []*protocol.Error{protocol.ErrStreamNotFound}},
	{
		method: http.MethodDelete, path: streamRoute, id: "deleteStream", tag: tagStreams, summary: "Delete a stream that has no groups",
		description: "The records stay, unless deleteData asks for their removal.",
		body:        protocol.Delete{}, status: 200, answer: protocol.Stream{},
		errors: with(changing, protocol.ErrStreamNotFound, protocol.ErrStreamHasGroups),
	},

	{
		method: http.MethodPost, path: groupRoute, id: "createCoordinatorGroup", tag: tagGroups, summary: "Create a group, and its stream if there is none",
		body: protocol.CreateGroup{}, status: 201, answer: protocol.Group{},
		errors: with(changing, protocol.ErrGroupExists, protocol.ErrShardCountMismatch, protocol.ErrLimit, protocol.ErrProvisioning),
	},
	{method: http.MethodGet, path: groupRoute, id: "getCoordinatorGroup", tag: tagGroups, summary: "Read a group", status: 200, answer: protocol.Group{}, errors: ofAGroup},
	{
		method: http.MethodDelete, path: groupRoute, id: "deleteCoordinatorGroup", tag: tagGroups, summary: "Delete a group",
		description: "Answers with the group as it was. Its consumer groups in Redis stay, unless deleteData asks for their removal.",
		body:        protocol.Delete{}, status: 200, answer: protocol.Group{},
		errors: with(changing, protocol.ErrGroupNotFound, protocol.ErrGroupHasMembers),
	},
	{method: http.MethodGet, path: groupRoute + "/timings", id: "getGroupTimings", tag: tagGroups, summary: "Read what a group lives by", status: 200, answer: protocol.GroupTimings{}, errors: ofAGroup},
	{
		method: http.MethodPatch, path: groupRoute + "/timings", id: "changeGroupTimings", tag: tagGroups, summary: "Change the timings of a group while it lives",
		description: "A longer lease counts at once, a shorter one after the longest that was promised before is over.",
		body:        protocol.SetTimings{}, status: 200, answer: protocol.GroupTimings{}, errors: with(changing, protocol.ErrGroupNotFound),
	},
	{
		method: http.MethodPost, path: memberRoute + "/drain", id: "drainMember", tag: tagGroups, summary: "Take a member out of work",
		description: "The member hands its shards over in the ordinary way, gets no new ones, and is kept alive. A process that starts anew under the same id works as any other.",
		body:        protocol.Order{}, status: 200, answer: protocol.Member{}, errors: with(changing, protocol.ErrGroupNotFound, protocol.ErrMemberNotFound),
	},
	{
		method: http.MethodDelete, path: memberRoute + "/drain", id: "undrainMember", tag: tagGroups, summary: "Put a drained member back to work",
		body: protocol.Order{}, status: 200, answer: protocol.Member{}, errors: with(changing, protocol.ErrGroupNotFound, protocol.ErrMemberNotFound),
	},
	{
		method: http.MethodPost, path: "/repair/index", id: "repairIndex", tag: tagStreams, summary: "Make the lists of streams and groups anew",
		description: "For a store that keeps an index apart from the records, such as a Redis Cluster, when something is missing from the lists.",
		body:        protocol.Order{}, status: 200, answer: protocol.IndexRepair{}, errors: []*protocol.Error{protocol.ErrTerminating},
	},

	{method: http.MethodGet, path: monitoringRoute + "/session", id: "getMonitoringSession", tag: tagMonitor, summary: "Who is calling", status: 200, answer: session{}},
	{
		method: http.MethodGet, path: monitoringRoute + "/health", id: "getCoordinatorHealth", tag: tagMonitor, summary: "How this coordinator is doing",
		description: "503 with the same body while the metadata store cannot be reached.", status: 200, answer: protocol.Health{}, also: []int{503},
	},
	{method: http.MethodGet, path: monitoringRoute + "/compatibility", id: "getCoordinatorCompatibility", tag: tagMonitor, summary: "Which versions of the protocol are spoken", status: 200, answer: compatibility{}},
	{method: http.MethodGet, path: monitoringRoute + "/groups", id: "listCoordinatorGroups", tag: tagMonitor, summary: "List the groups", status: 200, answer: protocol.GroupList{}},
	{method: http.MethodGet, path: monitoringRoute + groupRoute, id: "getMonitoringGroup", tag: tagMonitor, summary: "Read a group", status: 200, answer: protocol.Group{}, errors: ofAGroup},
	{method: http.MethodGet, path: monitoringRoute + groupRoute + "/members", id: "listGroupMembers", tag: tagMonitor, summary: "List the members of a group", status: 200, answer: protocol.MemberList{}, errors: ofAGroup},
	{method: http.MethodGet, path: monitoringRoute + groupRoute + "/assignments", id: "getGroupAssignments", tag: tagMonitor, summary: "Who should read what, and who says that it does", status: 200, answer: protocol.Assignments{}, errors: ofAGroup},
	{method: http.MethodGet, path: monitoringRoute + groupRoute + "/consumption", id: "getConsumptionProgress", tag: tagMonitor, summary: "How far members say that they have come", status: 200, answer: protocol.Consumption{}, errors: ofAGroup},
	{
		method: http.MethodGet, path: monitoringRoute + groupRoute + "/offsets", id: "getStreamShardOffsets", tag: tagMonitor, summary: "How much lies in each shard, and how far the group has come",
		description: "Asks Redis every time. A lag that Redis cannot tell is null, with a lower bound and an estimate beside it.",
		status:      200, answer: protocol.Offsets{}, errors: ofRedis,
	},
	{
		method: http.MethodGet, path: monitoringRoute + groupRoute + "/backlog", id: "getGroupBacklog", tag: tagMonitor, summary: "One number to scale consumers by",
		description: "For the metrics-api scaler of KEDA (valueLocation: backlog) and adapters of the Horizontal Pod Autoscaler. At most a second old. 503 rather than too small a number when a shard does not answer.",
		status:      200, answer: protocol.Backlog{}, errors: ofRedis,
	},
	{
		method: http.MethodGet, path: shardRoute + "/messages", id: "getStreamShardMessages", tag: tagMonitor, summary: "Read records of a shard",
		query: pageQuery, status: 200, answer: protocol.MessagesPage{}, errors: ofRedis,
	},
	{
		method: http.MethodGet, path: monitoringRoute + groupRoute + "/explain", id: "explainShards", tag: tagMonitor, summary: "Which shards are not read as they should be, and why",
		status: 200, answer: protocol.ExplanationList{}, errors: ofAGroup,
	},
	{
		method: http.MethodGet, path: shardRoute + "/explain", id: "explainShard", tag: tagMonitor, summary: "Why a shard is as it is",
		description: "Who may be reading it, who should, what is waited for, since when, and what ends it.",
		status:      200, answer: protocol.Explanation{}, errors: ofAGroup,
	},

	{method: http.MethodGet, path: grafanaRoute + "/groups", id: "grafanaGroups", tag: tagGrafana, summary: "All groups", status: 200, answer: []grafanaGroup{}},
	{method: http.MethodGet, path: grafanaRoute + "/options/streams", id: "grafanaStreamOptions", tag: tagGrafana, summary: "The streams, as values of a variable", status: 200, answer: []grafanaOption{}},
	{
		method: http.MethodGet, path: grafanaRoute + "/options/consumer-groups", id: "grafanaGroupOptions", tag: tagGrafana, summary: "The groups, as values of a variable",
		query: []parameter{{name: "streamPrefix", description: "Of this stream alone; all where it is blank."}}, status: 200, answer: []grafanaOption{},
	},
	{method: http.MethodGet, path: grafanaRoute + "/options/shards", id: "grafanaShardOptions", tag: tagGrafana, summary: "The shards of a group, as values of a variable", query: groupQuery, status: 200, answer: []grafanaOption{}, errors: ofAGroup},
	{method: http.MethodGet, path: grafanaRoute + "/members", id: "grafanaMembers", tag: tagGrafana, summary: "The members of a group", query: groupQuery, status: 200, answer: []grafanaMember{}, errors: ofAGroup},
	{
		method: http.MethodGet, path: grafanaRoute + "/shards", id: "grafanaShards", tag: tagGrafana, summary: "Shards with owners, lag and rates",
		description: "Of one group, or of all that fit where a name is blank.", query: groupQuery, status: 200, answer: []grafanaShard{}, errors: ofAGroup,
	},
	{method: http.MethodGet, path: grafanaRoute + "/assignments", id: "grafanaAssignments", tag: tagGrafana, summary: "Who should read and who reads each shard", query: groupQuery, status: 200, answer: []grafanaAssignment{}, errors: ofAGroup},
	{
		method: http.MethodGet, path: grafanaRoute + "/messages", id: "grafanaMessages", tag: tagGrafana, summary: "Records of one shard, or of all in the order of their ids",
		description: "The cursor __rsc_last__ asks for the last page, __rsc_tail__:n for the n-th before it.",
		query: append(append(append([]parameter{}, groupQuery...), pageQuery...),
			parameter{name: "shardIndex", description: "A number, or all; 0 by default."},
			parameter{name: "recordId", description: "The records with this id, in whatever shard."}),
		status: 200, answer: []grafanaMessage{}, errors: ofRedis,
	},

	{
		method: http.MethodPost, path: loginRoute, id: "login", tag: tagAccess, summary: "Get a token",
		description: "Takes user and password in the body, or an Authorization header.",
		body:        credentials{}, bodyOptional: true, status: 200, answer: loggedIn{}, errors: []*protocol.Error{protocol.ErrUnauthorized, protocol.ErrRateLimit},
	},
}, openOperations...)

// openOperations stand outside of the base path.
var openOperations = []operation{
	{method: http.MethodGet, path: "/health/live", id: "live", summary: "The process serves requests", status: 200, answer: probe{}},
	{method: http.MethodGet, path: "/health/ready", id: "ready", summary: "Requests are worth sending here", status: 200, answer: probe{}, also: []int{503}},
	{method: http.MethodGet, path: "/actuator/health", id: "actuatorHealth", summary: "As /health/ready", status: 200, answer: probe{}, also: []int{503}},
	{method: http.MethodGet, path: "/actuator/health/liveness", id: "actuatorLiveness", summary: "As /health/live", status: 200, answer: probe{}},
	{method: http.MethodGet, path: "/actuator/health/readiness", id: "actuatorReadiness", summary: "As /health/ready", status: 200, answer: probe{}, also: []int{503}},
	{method: http.MethodGet, path: "/openapi.json", id: "openAPI", summary: "This description, in OpenAPI 3.1", status: 200},
	{method: http.MethodGet, path: "/v3/api-docs", id: "apiDocs", summary: "As /openapi.json", status: 200},
	{method: http.MethodGet, path: "/docs", id: "docs", summary: "A page that shows this description", status: 200},
	{method: http.MethodGet, path: "/scalar", id: "scalar", summary: "As /docs", status: 200},
}

func init() {
	for i := range operations {
		o := &operations[i]
		for j := range openOperations {
			if o.id == openOperations[j].id {
				o.absolute, o.tag = true, tagProcesses
			}
		}
	}
}

// parameterTexts say what the parts of paths are.
var parameterTexts = map[string]string{
	"streamPrefix":  "Prefix of the stream's keys, such as orders; percent-encoded.",
	"consumerGroup": "Name of the group; percent-encoded.",
	"memberId":      "Id of the member; percent-encoded.",
	"shardIndex":    "Index of the shard, from 0.",
	"reshardingId":  "Id of the migration.",
}
