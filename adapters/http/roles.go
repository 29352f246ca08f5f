package httpapi

import (
	"maps"
	"slices"
	"strings"
)

// Role is what a user may do.
type Role string

// The roles, and the two aliases that existing installations use.
const (
	// RoleRead may read everything but not change it.
	RoleRead Role = "READ"
	// RoleWrite may also create, change and delete. It is not a member.
	RoleWrite Role = "WRITE"
	// RoleMember may send heartbeats and read the routing.
	RoleMember Role = "MEMBER"
	// RoleAdmin stands for all of the others.
	RoleAdmin Role = "ADMIN"
	// RoleMonitor stands for RoleRead.
	RoleMonitor Role = "MONITOR"
)

// AllRoles are the roles of the single administrator of an installation that
// lists no users, sorted.
func AllRoles() []Role { return slices.Sorted(maps.Keys(roleGrants)) }

// permission is a set of things that a caller is allowed, or that a route asks
// for; a route is open to whoever has one of those it asks for.
type permission uint8

const (
	mayRead permission = 1 << iota
	mayWrite
	mayBeMember

	// open routes ask nobody who they are.
	open permission = 0
)

var roleGrants = map[Role]permission{
	RoleRead:    mayRead,
	RoleMonitor: mayRead,
	RoleWrite:   mayRead | mayWrite,
	RoleMember:  mayBeMember,
	RoleAdmin:   mayRead | mayWrite | mayBeMember,
}

// permissionNames are how refusals call the permissions: by the smallest role.
var permissionNames = []struct {
	permission permission
	role       Role
}{{mayRead, RoleRead}, {mayWrite, RoleWrite}, {mayBeMember, RoleMember}}

// String lists the roles that give one of the permissions.
func (p permission) String() string {
	var names []string
	for _, n := range permissionNames {
		if p&n.permission != 0 {
			names = append(names, string(n.role))
		}
	}
	return strings.Join(names, " or ")
}

func roleNames() string {
	names := make([]string, 0, len(roleGrants))
	for _, r := range AllRoles() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}
