// Package protocol holds what travels between a coordinator and its clients:
// the heartbeat, the bodies of the admin and monitoring API, status and error
// codes, and the limits and timing defaults that both sides obey.
//
// The package is pure: values, their JSON forms and their validation. Within a
// major version nothing here is removed or changes its meaning, because an
// application may hold a consumer and a producer of different ages.
package protocol
