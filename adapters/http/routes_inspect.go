package httpapi

import "net/http"

// The parts of paths that the routes below share.
const (
	memberRoute  = groupRoute + "/members/:memberId"
	shardRoute   = monitoringRoute + groupRoute + "/shards/:shardIndex"
	grafanaRoute = monitoringRoute + "/grafana"
)

// inspectionRoutes are those that look into running groups, and those that change
// them.
func (a *api) inspectionRoutes() []route {
	return []route{
		{http.MethodPost, memberRoute + "/drain", mayWrite, a.drainMember},
		{http.MethodDelete, memberRoute + "/drain", mayWrite, a.undrainMember},
		{http.MethodGet, groupRoute + "/timings", mayRead, a.getTimings},
		{http.MethodPatch, groupRoute + "/timings", mayWrite, a.changeTimings},
		{http.MethodPost, "/repair/index", mayWrite, a.repairIndex},

		{http.MethodGet, monitoringRoute + groupRoute + "/consumption", mayRead, a.getConsumption},
		{http.MethodGet, monitoringRoute + groupRoute + "/offsets", mayRead, a.getOffsets},
		{http.MethodGet, monitoringRoute + groupRoute + "/backlog", mayRead, a.getBacklog},
		{http.MethodGet, monitoringRoute + groupRoute + "/explain", mayRead, a.explainAll},
		{http.MethodGet, monitoringRoute + groupRoute + "/migrations", mayRead, a.listGroupMigrations},
		{http.MethodGet, shardRoute + "/messages", mayRead, a.listMessages},
		{http.MethodGet, shardRoute + "/explain", mayRead, a.explainShard},

		{http.MethodGet, grafanaRoute + "/groups", mayRead, a.grafanaGroups},
		{http.MethodGet, grafanaRoute + "/options/streams", mayRead, a.grafanaStreamOptions},
		{http.MethodGet, grafanaRoute + "/options/consumer-groups", mayRead, a.grafanaGroupOptions},
		{http.MethodGet, grafanaRoute + "/options/shards", mayRead, a.grafanaShardOptions},
		{http.MethodGet, grafanaRoute + "/members", mayRead, a.grafanaMembers},
		{http.MethodGet, grafanaRoute + "/shards", mayRead, a.grafanaShards},
		{http.MethodGet, grafanaRoute + "/assignments", mayRead, a.grafanaAssignments},
		{http.MethodGet, grafanaRoute + "/messages", mayRead, a.grafanaMessages},
	}
}

// documentRoutes describe the API; they stand outside of the base path and are open.
func (a *api) documentRoutes() []route {
	return []route{
		{http.MethodGet, "/openapi.json", open, a.getOpenAPI},
		{http.MethodGet, "/v3/api-docs", open, a.getOpenAPI},
		{http.MethodGet, "/docs", open, a.getDocs},
		{http.MethodGet, "/scalar", open, a.getDocs},
	}
}
