// Package httpload sends heartbeats of many members to a coordinator, as cheaply
// as can be, to measure what the coordinator can bear. It is not how a member
// should talk to one: for that there is the consumer module.
//
// A Fleet is a number of members of one group, each a correct one: it lets go of
// what is taken from it and says so with its next heartbeat. Settle takes them to
// the point where nothing is left to be said. From then on each of their
// heartbeats is a keepalive, and a Gun fires these: the requests lie ready as
// bytes, and an answer is looked at only as far as to know that it is the right one.
// So a machine that is shared with the coordinator is mostly the coordinator's.
package httpload
