package httpapi

import "net/http"

// The parts of paths that several routes share. Names in them are those that
// refusals use.
const (
	streamRoute     = "/streams/:streamPrefix"
	groupRoute      = streamRoute + "/groups/:consumerGroup"
	heartbeatRoute  = groupRoute + "/members/:memberId/heartbeat"
	monitoringRoute = "/monitoring"
)

// route is one line of the API.
type route struct {
	method string
	path   string
	// needs is what the caller must be allowed, one of the set; open asks
	// nobody.
	needs   permission
	handler handler
}

// routes lists the API. Those under the base path come first, then those that
// probes and existing installations know.
func (a *api) routes() []route {
	member := open
	if a.config.AuthenticateMembers {
		member = mayBeMember
	}
	list := []route{
		{http.MethodPost, heartbeatRoute, member, a.heartbeat},
		{http.MethodPost, loginRoute, open, a.logIn},

		{http.MethodGet, "/streams", mayRead, a.listStreams},
		{http.MethodPost, streamRoute, mayWrite, a.createStream},
		{http.MethodGet, streamRoute, mayRead, a.getStream},
		{http.MethodDelete, streamRoute, mayWrite, a.deleteStream},

		{http.MethodPost, groupRoute, mayWrite, a.createGroup},
		{http.MethodGet, groupRoute, mayRead, a.getGroup},
		{http.MethodDelete, groupRoute, mayWrite, a.deleteGroup},
		{http.MethodGet, groupRoute + "/producer-routing", mayRead | mayBeMember, a.getRouting},

		{http.MethodGet, monitoringRoute + "/session", mayRead, a.getSession},
		{http.MethodGet, monitoringRoute + "/health", mayRead, a.getHealth},
		{http.MethodGet, monitoringRoute + "/compatibility", mayRead, a.getCompatibility},
		{http.MethodGet, monitoringRoute + "/groups", mayRead, a.listGroups},
		{http.MethodGet, monitoringRoute + groupRoute, mayRead, a.getGroup},
		{http.MethodGet, monitoringRoute + groupRoute + "/members", mayRead, a.listMembers},
		{http.MethodGet, monitoringRoute + groupRoute + "/assignments", mayRead, a.getAssignments},
	}
	list = append(list, a.inspectionRoutes()...)
	list = append(list, a.reshardRoutes()...)
	for i := range list {
		list[i].path = a.config.BasePath + list[i].path
	}
	list = append(list, a.documentRoutes()...)
	list = append(list, a.metricsRoutes()...)
	return append(list,
		route{http.MethodGet, "/health/live", open, a.getLiveness},
		route{http.MethodGet, "/health/ready", open, a.getReadiness},
		route{http.MethodGet, "/actuator/health", open, a.getReadiness},
		route{http.MethodGet, "/actuator/health/liveness", open, a.getLiveness},
		route{http.MethodGet, "/actuator/health/readiness", open, a.getReadiness},
	)
}
