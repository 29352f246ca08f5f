// Package httpapi is the coordinator's HTTP API: the routes that members,
// producers and operators call, authentication, and the bodies of refusals. It
// decides nothing itself; every call goes to a [Coordinator].
//
// A route is one line of the table in routes.go: method, path, the roles that
// may call it, and its handler. Authentication, logging and the form of errors
// are applied from that table, so a route cannot be forgotten by them.
package httpapi
