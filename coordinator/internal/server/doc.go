// Package server puts a coordinator together from its settings, and runs it:
// store, mutex and streams, the coordinator itself, the HTTP API, and the end of
// it all in the right order. Nothing is decided here but what belongs together.
package server
