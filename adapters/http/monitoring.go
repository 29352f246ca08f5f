package httpapi

import (
	"github.com/gin-gonic/gin"

	"github.com/redis-stream-coordinator/rsc/core/protocol"
)

// session answers GET /monitoring/session.
type session struct {
	Authenticated bool   `json:"authenticated"`
	Username      string `json:"username"`
	Roles         []Role `json:"roles"`
}

func (a *api) getSession(c *gin.Context) (reply, error) {
	p := principalOf(c)
	return ok(session{Authenticated: true, Username: p.username, Roles: p.roles}), nil
}

func (a *api) listGroups(c *gin.Context) (reply, error) {
	list, err := a.coordinator.Groups(c.Request.Context())
	return ok(list), err
}

func (a *api) listMembers(c *gin.Context) (reply, error) {
	prefix, group, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	list, err := a.coordinator.Members(c.Request.Context(), prefix, group)
	return ok(list), err
}

func (a *api) getAssignments(c *gin.Context) (reply, error) {
	prefix, group, err := streamAndGroup(c)
	if err != nil {
		return reply{}, err
	}
	assignments, err := a.coordinator.Assignments(c.Request.Context(), prefix, group)
	return ok(assignments), err
}

// compatibility answers GET /monitoring/compatibility: which versions of the
// protocol are spoken, and for how long.
type compatibility struct {
	Current   int               `json:"currentCoordinationVersion"`
	Supported versionRange      `json:"supportedCoordinationVersions"`
	Versions  []protocolVersion `json:"coordinationVersions"`
}

type versionRange struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

type protocolVersion struct {
	Version               int            `json:"version"`
	Status                string         `json:"status"`
	IntroducedIn          release        `json:"introducedIn"`
	DeprecatedIn          *release       `json:"deprecatedIn"`
	MinimumSupportedUntil release        `json:"minimumSupportedUntil"`
	RemovedIn             *release       `json:"removedIn"`
	TimingDefaults        timingDefaults `json:"timingDefaults"`
}

type release struct {
	Major     int     `json:"major"`
	Minor     int     `json:"minor"`
	Patch     int     `json:"patch"`
	Qualifier *string `json:"qualifier"`
	Version   string  `json:"version"`
}

type timingDefaults struct {
	HeartbeatInterval isoDuration `json:"heartbeatInterval"`
	MemberLeaseTTL    isoDuration `json:"memberLeaseTtl"`
	RebalanceTimeout  isoDuration `json:"rebalanceTimeout"`
}

func (a *api) getCompatibility(*gin.Context) (reply, error) {
	t := a.config.Timings
	return ok(compatibility{
		Current:   protocol.Version,
		Supported: versionRange{Min: protocol.Version, Max: protocol.Version},
		Versions: []protocolVersion{{
			Version:               protocol.Version,
			Status:                "ACTIVE",
			IntroducedIn:          release{Minor: 1, Version: "0.1.0"},
			MinimumSupportedUntil: release{Major: 1, Version: "1.0.0"},
			TimingDefaults: timingDefaults{
				HeartbeatInterval: isoDuration(t.HeartbeatInterval),
				MemberLeaseTTL:    isoDuration(t.Lease),
				RebalanceTimeout:  isoDuration(t.RebalanceTimeout),
			},
		}},
	}), nil
}
