// Package porttest is the conformance suite of the ports: every store, mutex
// and adapter of streams passes it, in its own module's tests, and a new one
// that passes it can be used.
//
// Each call of a constructor that the suite is given returns something fresh
// and empty. It skips, or fails, the test by itself when what it needs is
// missing. All tests are safe to run beside each other.
package porttest
