// Package cli is the command line of rsc. Each command is a file of its own that
// makes a cobra command from an [App]; root.go lists them.
//
// Exit codes: 0 all went well, 1 it did not, 2 the command line or the settings
// are wrong.
package cli
