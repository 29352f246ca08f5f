// Package command holds every command and script that this module sends to
// Redis. It alone knows the client library; keys and meaning come from its
// caller.
//
// No command is ever sent twice by itself: a write whose reply was lost is an
// error, and what to do about it is the caller's decision.
package command
