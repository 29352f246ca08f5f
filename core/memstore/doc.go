// Package memstore is the metadata store in memory, with a mutex to go with
// it: for tests, for trying the system out, and for a coordinator that may lose
// its groups when its process ends.
//
// A Store belongs to nobody: several coordinators of one process can share it,
// and it outlives each of them.
package memstore
