// Package command holds every command and script that this module sends to
// Redis. It alone knows the client library; keys and meaning come from its
// caller.
//
// A command to the store is never sent twice by itself: a write whose reply was
// lost is an error, and what to do about it is the caller's decision. Commands on
// streams say themselves whether they may be carried out twice.
package command
